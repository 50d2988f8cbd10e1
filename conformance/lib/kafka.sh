#!/usr/bin/env bash
# Runs Apache Kafka 3.7.2 in the foreground: one KRaft node that is broker and controller.
# usage: kafka.sh DIR PORT CONTROLLER_PORT [property=value]...
# DIR keeps its data, so a second start on the same folder goes on where the first one stopped.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=$1 port=$2 controller_port=$3
shift 3
class_path=$("$here/jars.sh")
log4j="-Dlog4j.configuration=file:$here/log4j.properties"
mkdir -p "$dir"

{
  cat <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$controller_port
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller_port
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$dir/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
PROPERTIES
  (($# == 0)) || printf '%s\n' "$@"
} >"$dir/server.properties"

if [[ ! -f $dir/data/meta.properties ]]; then
  # A cluster id is 16 bytes in URL-safe base64.
  java -cp "$class_path" "$log4j" -XX:TieredStopAtLevel=1 kafka.tools.StorageTool format \
    -t Y29uZm9ybWFuY2UtMDAwMQ -c "$dir/server.properties"
fi
exec java -cp "$class_path" "$log4j" -Dkaas.log.level=INFO -Xms512M -Xmx1G -XX:+UseG1GC \
  kafka.Kafka "$dir/server.properties"
