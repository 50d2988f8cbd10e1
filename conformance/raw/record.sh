#!/usr/bin/env bash
# Records what Apache Kafka 3.7.2 answers to every case, twice, and fails when the two runs differ.
# usage: record.sh [PORT]
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
port=${1:-29092}
dir=$(mktemp -d)
kafka=
trap 'stop; rm -rf "$dir"' EXIT

start() {
  "$here/../lib/kafka.sh" "$dir" "$port" $((port + 1)) group.initial.rebalance.delay.ms=0 >"$dir/broker.log" 2>&1 &
  kafka=$!
  until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
    kill -0 "$kafka" || { tail -n 20 "$dir/broker.log" >&2; exit 1; }
    sleep 0.2
  done
}

stop() {
  [[ -z $kafka ]] || { kill "$kafka" && wait "$kafka"; } || true
  kafka=
}

raw() { cargo run -q --manifest-path "$here/Cargo.toml" -- --kafka "127.0.0.1:$port" "$@"; }

start
# A topic whose leader epoch is 0 has no older epoch to be fenced: the broker has to come back once.
raw --case api-versions/again-and-again --record "$dir/first.json"
stop
start
raw --record "$here/expected.json"
raw
