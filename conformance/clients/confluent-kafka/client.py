"""confluent-kafka (librdkafka) as a client program."""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from lib import program, records

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

BOOTSTRAP = sys.argv[1]
MESSAGE_BYTES_MAX = 8 << 20
TIMEOUT_S = 60
producers, consumers = program.Handles(), program.Handles()
members: dict[str, "Member"] = {}
opened: set[str] = set()


def new_producer(command: dict) -> Producer:
    return Producer(
        {
            "bootstrap.servers": BOOTSTRAP,
            "acks": command["acks"],
            "compression.codec": command["codec"],
            "enable.idempotence": bool(command.get("idempotent")),
            "message.max.bytes": MESSAGE_BYTES_MAX,
            "linger.ms": 5,
            "topic.metadata.refresh.interval.ms": 1000,
        }
    )


def produce(command: dict) -> dict:
    producer, _ = producers.get(command, lambda: new_producer(command))
    failures, count = [], 0

    def delivered(error, _message) -> None:
        if error is not None:
            failures.append(error)

    for record in records.read(command["file"]):
        while True:
            try:
                producer.produce(
                    command["topic"], record.value, record.key, command["partition"],
                    on_delivery=delivered, timestamp=max(record.timestamp, 0), headers=list(record.headers),
                )
                break
            except BufferError:
                producer.poll(1)
        count += 1
        producer.poll(0)
    left = producer.flush(TIMEOUT_S)
    if failures or left:
        raise RuntimeError(f"{len(failures)} failed, {left} left: {failures[:1]}")
    return {"records": count}


def new_transactional(command: dict) -> Producer:
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "transactional.id": command["id"]})
    producer.init_transactions(TIMEOUT_S)
    return producer


def transact(command: dict) -> None:
    """One transaction; `open` leaves it so, and the next command goes on with it."""
    known = producers.known(command)
    producer, _ = producers.get(command, lambda: new_transactional(command))
    if not (known and command["handle"] in opened):
        producer.begin_transaction()
    for record in records.read(command["file"]):
        producer.produce(command["topic"], record.value, record.key, command["partition"])
    producer.flush(TIMEOUT_S)
    if command["outcome"] == "open":
        opened.add(command["handle"])
        return
    opened.discard(command["handle"])
    if command["outcome"] == "commit":
        producer.commit_transaction(TIMEOUT_S)
    else:
        producer.abort_transaction(TIMEOUT_S)


def consume_committed(command: dict) -> dict:
    return consume({**command, "isolation": "read_committed"})


def new_consumer(settings: dict) -> Consumer:
    # A group id is mandatory in this binding; assigned consumers that commit nothing never use it.
    return Consumer(
        {
            "bootstrap.servers": BOOTSTRAP,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 1000,
            **settings,
        }
    )


def to_record(message) -> records.Record:
    return records.Record(
        message.timestamp()[1], message.key(), message.value(), tuple(message.headers() or ())
    )


def consume(command: dict) -> dict:
    settings = {"isolation.level": command.get("isolation", "read_uncommitted")}
    if "fetch_bytes" in command:
        size = command["fetch_bytes"]
        settings |= {"max.partition.fetch.bytes": size, "fetch.max.bytes": max(size, 1 << 20)}
        settings["receive.message.max.bytes"] = max(size, 100_000_000) + 512
    known = consumers.known(command)
    consumer, closing = consumers.get(command, lambda: new_consumer(settings))
    if not known:
        consumer.assign([TopicPartition(command["topic"], command["partition"], command["offset"])])
    deadline = time.monotonic() + command["timeout_ms"] / 1000
    left = command["count"]

    def received():
        nonlocal left
        while left > 0:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{left} of {command['count']} records missing")
            for message in consumer.consume(min(left, 10_000), 0.5):
                if message.error():
                    raise KafkaException(message.error())
                left -= 1
                yield to_record(message)

    try:
        return {"records": records.write(command["file"], received())}
    finally:
        if closing:
            consumer.close()


def idle(command: dict) -> dict:
    consumer = new_consumer({})
    consumer.assign([TopicPartition(command["topic"], command["partition"], command["offset"])])
    deadline = time.monotonic() + command["ms"] / 1000
    count = 0
    while time.monotonic() < deadline:
        message = consumer.poll(0.2)
        count += message is not None and message.error() is None
    consumer.close()
    return {"records": count}


def with_consumer(work):
    consumer = new_consumer({})
    try:
        return work(consumer)
    finally:
        consumer.close()


def watermarks(command: dict) -> dict:
    partition = TopicPartition(command["topic"], command["partition"])
    low, high = with_consumer(lambda consumer: consumer.get_watermark_offsets(partition, TIMEOUT_S))
    return {"low": low, "high": high}


def times(command: dict) -> dict:
    def ask(consumer: Consumer) -> list:
        found = []
        for at in command["timestamps"]:
            (answer,) = consumer.offsets_for_times(
                [TopicPartition(command["topic"], command["partition"], at)], TIMEOUT_S
            )
            if answer.error:
                raise KafkaException(answer.error)
            found.append(None if answer.offset < 0 else answer.offset)
        return found

    return {"offsets": with_consumer(ask)}


SESSION_MS = 6000


class Member:
    """A member of a group, and how often its partitions have changed."""

    def __init__(self, command: dict) -> None:
        settings = {"group.id": command["group"], "session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 500}
        if "instance" in command:
            settings["group.instance.id"] = command["instance"]
        self.consumer = new_consumer(settings)
        self.rebalances = 0
        self.consumer.subscribe([command["topic"]], on_assign=self._changed)

    def _changed(self, _consumer: Consumer, _partitions: list) -> None:
        self.rebalances += 1

    def poll(self, command: dict) -> dict:
        deadline = time.monotonic() + command["ms"] / 1000
        received = []
        while (left := deadline - time.monotonic()) > 0:
            for message in self.consumer.consume(1000, left):
                if message.error():
                    raise KafkaException(message.error())
                received.append((message.partition(), message.offset()))
        if command["commit"] and received:
            self.consumer.commit(asynchronous=False)
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
    consumer = new_consumer({"group.id": command["group"]})
    try:
        return work(consumer, [TopicPartition(command["topic"], index) for index in range(command["partitions"])])
    finally:
        consumer.close()


def committed(command: dict) -> dict:
    found = in_group(command, lambda consumer, partitions: consumer.committed(partitions, TIMEOUT_S))
    return {"offsets": [None if one.offset < 0 else one.offset for one in found]}


def reset_offsets(command: dict) -> None:
    def commit(consumer: Consumer, partitions: list) -> None:
        for partition in partitions:
            partition.offset = command["offset"]
        consumer.commit(offsets=partitions, asynchronous=False)

    in_group(command, commit)


def admin() -> AdminClient:
    return AdminClient({"bootstrap.servers": BOOTSTRAP})


def topics(_: dict) -> dict:
    listed = admin().list_topics(timeout=TIMEOUT_S).topics
    return {"topics": {name: len(topic.partitions) for name, topic in listed.items()}}


def create(command: dict) -> None:
    topic = NewTopic(command["topic"], command["partitions"], 1, config=command.get("configs", {}))
    client = admin()  # must outlive the outcomes
    for outcome in client.create_topics([topic]).values():
        outcome.result(TIMEOUT_S)


def delete(command: dict) -> None:
    client = admin()
    for outcome in client.delete_topics([command["topic"]]).values():
        outcome.result(TIMEOUT_S)


program.serve(
    {
        "produce": produce, "consume": consume, "idle": idle, "watermarks": watermarks, "times": times,
        "topics": topics, "create": create, "delete": delete, "member": member, "poll": poll, "leave": leave,
        "committed": committed, "reset_offsets": reset_offsets, "transact": transact, "consume_committed": consume_committed,
    }
)
