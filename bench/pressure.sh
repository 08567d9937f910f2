#!/bin/bash
# p99.9 of gets at a modest rate: quiet, beside stores that fit, and beside stores that make the server evict and items that expire.
# bench/pressure.sh SCRUBJAY [SECONDS]: three rounds of so many seconds each, of which the medians are printed. Needs memcached
# and taskset, and two cores with nothing else to do.
set -eu
program=$1 secs=${2:-3}
folder=$(mktemp -d)
trap 'kill $server 2>/dev/null || true; rm -rf "$folder"' EXIT
load="taskset -c 1 $program bench --server $folder/socket"

measure() {
    printf '%-10s %-28s ' "$1" "$2"
    $load --rate 20000 --connections 16 --pipeline 4 --duration "$secs" --warmup 0.5 --rounds 3 --json |
        grep -oE '"median":\{[^}]*\}' | grep -oE '"(hit_ratio|get_p50_us|get_p99_us|get_p999_us|get_max_us)":[0-9.]+' | tr '\n' ' '
    echo
}

beside() {
    $load --rate 40000 --mix set=1 --connections 8 --pipeline 16 --key-size 20 --duration $((3 * secs + 3)) "${@:3}" >/dev/null &
    measure "$1" "$2"
    wait $!
}

for name in scrubjay memcached; do
    case $name in
        scrubjay) taskset -c 0 "$program" -t 1 -m 64 -s "$folder/socket" 2>/dev/null & ;;
        memcached) taskset -c 0 memcached -u root -t 1 -m 64 -s "$folder/socket" & ;;
    esac
    server=$!
    until [ -S "$folder/socket" ]; do :; done
    $load --fill --requests 10000 >/dev/null
    measure $name "quiet"
    beside $name "beside sets that fit" --keys 1000 --value-size 500-1500
    beside $name "beside evicting" --keys 5000000 --value-size 500-1500
    beside $name "beside evicting and expiring" --keys 5000000 --value-size 500-1500 --ttl 1-5
    kill $server
    wait $server || true
    rm -f "$folder/socket"
done
