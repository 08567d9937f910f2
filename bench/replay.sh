#!/usr/bin/env bash
# The main job on real input: each trace against a fresh scrubjay and a fresh memcached with the same -m.
# usage: bench/replay.sh FOLDER-OF-TRACES [MEGABYTES]
set -eu
traces=$1
megabytes=${2:-64}
scrubjay=${SCRUBJAY_BIN:-target/release/scrubjay}
folder=$(mktemp -d)
user=()
[ "$(id -u)" = 0 ] && user=(-u root)

replay() {
    "$scrubjay" -m "$megabytes" -t 2 "${user[@]}" -s "$folder/scrubjay.sock" 2>/dev/null &
    local ours=$!
    memcached -m "$megabytes" -t 2 "${user[@]}" -s "$folder/memcached.sock" &
    local theirs=$!
    while ! [ -S "$folder/scrubjay.sock" ] || ! [ -S "$folder/memcached.sock" ]; do :; done
    echo "== $*"
    "$scrubjay" replay "$traces/$1" "${@:2}" --server "$folder/scrubjay.sock" --vs "$folder/memcached.sock"
    kill "$ours" "$theirs"
    wait "$ours" "$theirs" 2>/dev/null || true
    rm -f "$folder"/*.sock
}

replay orm-busy-2m.csv.zst
replay cloudphysics.csv.zst
replay kvcache.tables.zst --requests 5000000 --keys 1500000
rmdir "$folder"
