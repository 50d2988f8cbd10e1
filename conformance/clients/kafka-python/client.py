"""kafka-python as a client program, for the 2.0.2 that is still widely deployed and for the newest."""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from lib import program, records

try:  # 2.0.2 carries a copy of six whose lazy modules Python 3.12 no longer finds
    import six

    sys.modules["kafka.vendor.six.moves"] = six.moves
except ImportError:
    pass

import kafka
import kafka.codec
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.structs import OffsetAndMetadata

BOOTSTRAP = sys.argv[1]
MESSAGE_BYTES_MAX = 8 << 20
BUFFER_BYTES = 64 << 20
PATIENCE_MS = 600_000
TIMEOUT_S = 60
OLD = kafka.__version__.startswith("2.0.")
# zstd frames that do not name their size are taken only up to this; 2.0.2 has 1 MiB.
kafka.codec.ZSTD_MAX_OUTPUT_SIZE = MESSAGE_BYTES_MAX
producers, consumers = program.Handles(), program.Handles()
members: dict[str, "Member"] = {}


def api_version(command: dict) -> dict:
    """The setting that makes the library speak to an old broker."""
    return {"api_version": tuple(map(int, command["api"].split(".")))} if "api" in command else {}


def new_producer(command: dict) -> KafkaProducer:
    acks = command["acks"]
    if OLD:  # its batches expire by the request timeout, even those that wait for their turn
        settings = {"buffer_memory": BUFFER_BYTES, "request_timeout_ms": PATIENCE_MS}
    else:
        settings = {"enable_idempotence": bool(command.get("idempotent")), "delivery_timeout_ms": PATIENCE_MS}
    return KafkaProducer(
        bootstrap_servers=BOOTSTRAP,
        acks=acks if acks == "all" else int(acks),
        compression_type=None if command["codec"] == "none" else command["codec"],
        max_request_size=MESSAGE_BYTES_MAX,
        linger_ms=5,
        retries=20,
        metadata_max_age_ms=1000,
        **settings,
        **api_version(command),
    )


def has_times(command: dict) -> bool:
    return "api" not in command or api_version(command)["api_version"] >= (0, 10)


def produce(command: dict) -> dict:
    producer, closing = producers.get(command, lambda: new_producer(command))
    futures = [
        producer.send(
            command["topic"], record.value, record.key, list(record.headers), command["partition"],
            record.timestamp if record.timestamp >= 0 and has_times(command) else None,
        )
        for record in records.read(command["file"])
    ]
    producer.flush(PATIENCE_MS / 1000)
    for future in futures:
        future.get(TIMEOUT_S)
    if closing:
        producer.close()
    return {"records": len(futures)}


def new_consumer(**settings) -> KafkaConsumer:
    return KafkaConsumer(
        bootstrap_servers=BOOTSTRAP,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        metadata_max_age_ms=1000,
        **settings,
    )


def to_record(message) -> records.Record:
    timestamp = -1 if message.timestamp is None else message.timestamp
    return records.Record(timestamp, message.key, message.value, tuple(message.headers))


def consume(command: dict) -> dict:
    settings = api_version(command)
    if "fetch_bytes" in command:
        settings |= {"max_partition_fetch_bytes": command["fetch_bytes"]}
    known = consumers.known(command)
    consumer, closing = consumers.get(command, lambda: new_consumer(**settings))
    partition = TopicPartition(command["topic"], command["partition"])
    if not known:
        consumer.assign([partition])
        if command["offset"] == "earliest":
            consumer.seek_to_beginning(partition)
        else:
            consumer.seek(partition, command["offset"])
    deadline = time.monotonic() + command["timeout_ms"] / 1000
    left = command["count"]

    def received():
        nonlocal left
        while left > 0:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{left} of {command['count']} records missing")
            for message in consumer.poll(500, max_records=left).get(partition, []):
                left -= 1
                yield to_record(message)

    try:
        return {"records": records.write(command["file"], received())}
    finally:
        if closing:
            consumer.close()


def with_consumer(work):
    consumer = new_consumer()
    try:
        return work(consumer)
    finally:
        consumer.close()


def idle(command: dict) -> dict:
    partition = TopicPartition(command["topic"], command["partition"])

    def wait(consumer: KafkaConsumer) -> int:
        consumer.assign([partition])
        consumer.seek(partition, command["offset"])
        deadline = time.monotonic() + command["ms"] / 1000
        count = 0
        while time.monotonic() < deadline:
            count += len(consumer.poll(200).get(partition, []))
        return count

    return {"records": with_consumer(wait)}


def watermarks(command: dict) -> dict:
    partition = TopicPartition(command["topic"], command["partition"])
    return with_consumer(
        lambda consumer: {
            "low": consumer.beginning_offsets([partition])[partition],
            "high": consumer.end_offsets([partition])[partition],
        }
    )


def times(command: dict) -> dict:
    partition = TopicPartition(command["topic"], command["partition"])

    def ask(consumer: KafkaConsumer) -> list:
        found = [consumer.offsets_for_times({partition: at})[partition] for at in command["timestamps"]]
        return [None if answer is None else answer.offset for answer in found]

    return {"offsets": with_consumer(ask)}


def topics(_: dict) -> dict:
    return with_consumer(
        lambda consumer: {
            "topics": {name: len(consumer.partitions_for_topic(name) or ()) for name in consumer.topics()}
        }
    )


def version(_: dict) -> dict:
    """The broker version that the library concludes from the APIs that the broker announces."""
    return with_consumer(lambda consumer: {"version": list(consumer.config["api_version"])})


SESSION_MS = 6000


class Member(ConsumerRebalanceListener):
    """A member of a group, and how often its partitions have changed."""

    def __init__(self, command: dict) -> None:
        settings = {"group_id": command["group"], "session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": 500}
        if "instance" in command:
            settings["group_instance_id"] = command["instance"]
        self.consumer = new_consumer(**settings)
        self.rebalances = 0
        self.consumer.subscribe([command["topic"]], listener=self)
        # So that it has the metadata before it joins. Or else it joins again when that comes, and when a poll is over before that is
        # done, 3.0.12 forgets that it has begun: need_rejoin() is false again by then, and nobody takes the answer.
        self.consumer.topics()

    def on_partitions_revoked(self, revoked) -> None:
        pass

    def on_partitions_assigned(self, assigned) -> None:
        self.rebalances += 1

    def poll(self, command: dict) -> dict:
        deadline = time.monotonic() + command["ms"] / 1000
        received = []
        while (left := deadline - time.monotonic()) > 0:
            for messages in self.consumer.poll(int(left * 1000) + 1).values():
                received += [(message.partition, message.offset) for message in messages]
        if command["commit"] and received:
            self.consumer.commit()
        assigned = [partition.partition for partition in self.consumer.assignment()]
        return {"assigned": assigned, "records": received, "rebalances": self.rebalances}


def member(command: dict) -> None:
    members[command["handle"]] = Member(command)


def poll(command: dict) -> dict:
    return members[command["handle"]].poll(command)


def leave(command: dict) -> None:
    members.pop(command["handle"]).consumer.close()


def in_group(command: dict, work):
    """Work with the group's offsets from outside of it."""
    consumer = new_consumer(group_id=command["group"])
    try:
        return work(consumer, [TopicPartition(command["topic"], index) for index in range(command["partitions"])])
    finally:
        consumer.close()


def committed(command: dict) -> dict:
    return {"offsets": in_group(command, lambda consumer, partitions: [consumer.committed(one) for one in partitions])}


def reset_offsets(command: dict) -> None:
    def commit(consumer: KafkaConsumer, partitions: list) -> None:
        consumer.assign(partitions)
        # 2.0.2 knows two fields, newer versions add the leader's epoch.
        fields = (command["offset"], "", -1)[: len(OffsetAndMetadata._fields)]
        consumer.commit({one: OffsetAndMetadata(*fields) for one in partitions})

    in_group(command, commit)


def with_admin(work) -> None:
    admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    try:
        work(admin)
    finally:
        admin.close()


def create(command: dict) -> None:
    topic = NewTopic(command["topic"], command["partitions"], 1, topic_configs=command.get("configs", {}))
    with_admin(lambda admin: admin.create_topics([topic]))


def delete(command: dict) -> None:
    with_admin(lambda admin: admin.delete_topics([command["topic"]]))


program.serve(
    {
        "produce": produce, "consume": consume, "idle": idle, "watermarks": watermarks, "times": times,
        "topics": topics, "version": version, "create": create, "delete": delete, "member": member, "poll": poll,
        "leave": leave, "committed": committed, "reset_offsets": reset_offsets,
    }
)
