#!/usr/bin/env bash
# The experiments of `scrubjay lab`, each against a fresh scrubjay and a fresh memcached with the same -m.
# usage: bench/lab.sh [MEGABYTES EXPERIMENT OPTIONS...]   e.g. bench/lab.sh 16 drift --phases 800
# Without arguments all are run, which takes eight minutes.
set -eu
scrubjay=$(realpath "${SCRUBJAY_BIN:-target/release/scrubjay}")
memcached=${MEMCACHED_BIN:-memcached}
folder=$(mktemp -d)
user=()
[ "$(id -u)" = 0 ] && user=(-u root)
servers=()
clean() {
    if [ ${#servers[@]} -gt 0 ]; then
        kill "${servers[@]}" 2>/dev/null || true
        wait "${servers[@]}" 2>/dev/null || true
    fi
    servers=()
    rm -f scrubjay memcached
}
trap 'clean; rmdir "$folder"' EXIT
cd "$folder"

lab() {
    "$scrubjay" -m "$1" "${user[@]}" -s "$folder/scrubjay" 2>/dev/null &
    servers+=($!)
    "$memcached" -m "$1" "${user[@]}" -s "$folder/memcached" &
    servers+=($!)
    while ! [ -S scrubjay ] || ! [ -S memcached ]; do
        for pid in "${servers[@]}"; do kill -0 "$pid"; done
    done
    echo "== -m $1: lab ${*:2}"
    "$scrubjay" lab "${@:2}" --server ./scrubjay --vs ./memcached
    clean
}

if [ $# -gt 0 ]; then
    lab "$@"
    exit
fi
lab 64 storage
lab 16 expire
lab 16 expire --read-last
lab 8 evict
lab 8 evict --items 5000
lab 16 drift
lab 16 drift --phases 800
lab 100 ttl-mix --part 1
lab 10 ttl-mix --part 2
