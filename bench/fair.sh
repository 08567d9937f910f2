#!/bin/bash
# p99 of small gets: alone, beside a client that pulls values of 10 MB, and beside one that asks for a thousand keys at a time.
# bench/fair.sh SCRUBJAY [SECONDS [NAME]]: nine rounds of so many seconds each, of which the medians are printed, for scrubjay and
# memcached or the one NAMEd. Needs memcached and taskset, and two cores with nothing else to do. The servers have one worker on the
# first core. Both loads share the second, where the large one is nice: what it costs the small one is the server's doing.
set -eu
program=$1 secs=${2:-1} names=${3:-scrubjay memcached}
folder=$(mktemp -d)
trap 'kill $server $other 2>/dev/null || true; rm -rf "$folder"' EXIT
other=
load="$program bench --server $folder/socket"

measure() {
    printf '%-10s %-28s ' "$1" "$2"
    taskset -c 1 $load --rate 10000 --connections 16 --keys 1000 --value-size 1000 --duration "$secs" --warmup 0.3 --rounds 9 --json |
        grep -oE '"median":\{[^}]*\}' | grep -oE '"get_p(50|90|99)_us":[0-9.]+' | tr '\n' ' '
    echo
}

beside() {
    taskset -c 1 nice -n 19 $load --no-verify --duration 600 "${@:3}" >/dev/null &
    other=$!
    measure "$1" "$2"
    kill $other
    wait $other || true
}

for name in $names; do
    case $name in
        scrubjay) taskset -c 0 "$program" -t 1 -m 1024 -I 16m -s "$folder/socket" ${OPTIONS:-} 2>/dev/null & ;;
        memcached) taskset -c 0 memcached -u root -t 1 -m 1024 -I 16m -s "$folder/socket" & ;;
    esac
    server=$!
    until [ -S "$folder/socket" ]; do :; done
    $load --fill --keys 1000 --value-size 1000 --requests 1000 >/dev/null
    $load --fill --keys 8 --key-size 20 --value-size 10000000 --connections 1 --requests 8 >/dev/null
    $load --fill --keys 20000 --key-size 30 --value-size 1000 --requests 1000 >/dev/null
    measure $name "quiet"
    beside $name "beside values of 10 MB" --keys 8 --key-size 20 --value-size 10000000 --connections 1
    beside $name "beside 1,000 keys at a time" --keys 20000 --key-size 30 --value-size 1000 --connections 1 --multiget 1000
    kill $server
    wait $server || true
    rm -f "$folder/socket"
done
