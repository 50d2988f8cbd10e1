#!/usr/bin/env bash
# Records what Apache Kafka 3.7.2 answers to every case, twice, and fails when the two runs differ.
# usage: record.sh [PORT] [CASES]
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
port=${1:-29092}
cases=${2:-*}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# So that Kafka comes back soon when it was killed: few internal partitions, and a controller that forgets the dead soon.
properties="group.initial.rebalance.delay.ms=0 offsets.topic.num.partitions=2 transaction.state.log.num.partitions=2"
properties+=" broker.session.timeout.ms=1000 broker.heartbeat.interval.ms=200"

# Each run has a broker of its own, on the same data.
raw() {
  cargo run -q --manifest-path "$here/Cargo.toml" -- --kafka "127.0.0.1:$port" \
    --kafka-command "$here/../lib/kafka.sh $dir $port $((port + 1)) $properties" "$@"
}

# A topic whose leader epoch is 0 has no older epoch to be fenced: the broker has to come back once.
raw --case api-versions/again-and-again --record "$dir/first.json"
raw --case "$cases" --record "$here/expected.json"
raw --case "$cases"
