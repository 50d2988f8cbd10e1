#!/usr/bin/env bash
# Proves that what is committed from Apache Kafka 3.7.2 is what its jars say: schemas, error codes, golden vectors.
# With --write it writes what the jars say instead. Needs Java 17 and Maven (the first time).
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
classpath="$(conformance/lib/jars.sh)"
folder="$(dirname "${classpath%%:*}")"
jars=("$folder"/kafka-clients-3.7.2.jar "$folder"/kafka-group-coordinator-3.7.2.jar "$folder"/kafka_2.13-3.7.2.jar)
vectors=kaas-proto/tests/golden/vectors.tsv.gz
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

run_java() { java -XX:TieredStopAtLevel=1 -cp "$classpath" "conformance/java/$1.java" "${@:2}"; }

if [ "${1-}" = --write ]; then
  cargo run -q -p kaas-codegen -- import "${jars[@]}"
  run_java ErrorCodes > schema/errors.json
  run_java GoldenVectors schema "$vectors"
  exit
fi

cargo run -q -p kaas-codegen -- check-import "${jars[@]}"
run_java ErrorCodes | diff - schema/errors.json
run_java GoldenVectors schema "$work/vectors.tsv.gz"
# Unpacked, since another JDK may compress in another way.
diff <(zcat "$work/vectors.tsv.gz") <(zcat "$vectors") > /dev/null || { echo "$vectors differs" >&2; exit 1; }
echo "schemas, error codes and golden vectors are Kafka's"
