"""aiokafka as a client program."""

import asyncio
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from lib import program, records

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

BOOTSTRAP = sys.argv[1]
MESSAGE_BYTES_MAX = 8 << 20
SENDS_IN_FLIGHT_MAX = 20_000
loop = asyncio.new_event_loop()
producers, consumers = program.Handles(), program.Handles()


def new_producer(command: dict) -> AIOKafkaProducer:
    async def make() -> AIOKafkaProducer:
        acks = command["acks"]
        producer = AIOKafkaProducer(
            bootstrap_servers=BOOTSTRAP,
            acks=acks if acks == "all" else int(acks),
            compression_type=None if command["codec"] == "none" else command["codec"],
            enable_idempotence=bool(command.get("idempotent")),
            max_request_size=MESSAGE_BYTES_MAX,
            linger_ms=5,
            metadata_max_age_ms=1000,
        )
        await producer.start()
        return producer

    return loop.run_until_complete(make())


async def send_all(producer: AIOKafkaProducer, command: dict) -> int:
    count, pending = 0, []
    for record in records.read(command["file"]):
        pending.append(
            await producer.send(
                command["topic"], record.value, record.key, command["partition"],
                record.timestamp if record.timestamp >= 0 else None, list(record.headers),
            )
        )
        count += 1
        if len(pending) >= SENDS_IN_FLIGHT_MAX:
            await asyncio.gather(*pending)
            pending.clear()
    await producer.flush()
    await asyncio.gather(*pending)
    return count


def produce(command: dict) -> dict:
    producer, closing = producers.get(command, lambda: new_producer(command))
    try:
        return {"records": loop.run_until_complete(send_all(producer, command))}
    finally:
        if closing:
            loop.run_until_complete(producer.stop())


def new_consumer(partition: TopicPartition | None = None, offset: int = 0, **settings) -> AIOKafkaConsumer:
    async def make() -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=BOOTSTRAP,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            metadata_max_age_ms=1000,
            **settings,
        )
        await consumer.start()
        if partition is not None:
            consumer.assign([partition])
            consumer.seek(partition, offset)
        return consumer

    return loop.run_until_complete(make())


def to_record(message) -> records.Record:
    return records.Record(message.timestamp, message.key, message.value, tuple(message.headers))


async def receive(consumer: AIOKafkaConsumer, partition: TopicPartition, command: dict) -> int:
    deadline = time.monotonic() + command["timeout_ms"] / 1000
    left = command["count"]
    with open(command["file"], "w", encoding="ascii", newline="\n") as out:
        while left > 0:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{left} of {command['count']} records missing")
            batch = await consumer.getmany(partition, timeout_ms=500, max_records=left)
            for message in batch.get(partition, []):
                left -= 1
                out.write(records.line(to_record(message)) + "\n")
    return command["count"]


def consume(command: dict) -> dict:
    settings = {}
    if "fetch_bytes" in command:
        settings = {"max_partition_fetch_bytes": command["fetch_bytes"]}
    partition = TopicPartition(command["topic"], command["partition"])
    consumer, closing = consumers.get(command, lambda: new_consumer(partition, command["offset"], **settings))
    try:
        return {"records": loop.run_until_complete(receive(consumer, partition, command))}
    finally:
        if closing:
            loop.run_until_complete(consumer.stop())


def with_consumer(work):
    consumer = new_consumer()
    try:
        return loop.run_until_complete(work(consumer))
    finally:
        loop.run_until_complete(consumer.stop())


def idle(command: dict) -> dict:
    partition = TopicPartition(command["topic"], command["partition"])

    async def wait(consumer: AIOKafkaConsumer) -> int:
        consumer.assign([partition])
        consumer.seek(partition, command["offset"])
        deadline = time.monotonic() + command["ms"] / 1000
        count = 0
        while time.monotonic() < deadline:
            batch = await consumer.getmany(partition, timeout_ms=200)
            count += len(batch.get(partition, []))
        return count

    return {"records": with_consumer(wait)}


def watermarks(command: dict) -> dict:
    partition = TopicPartition(command["topic"], command["partition"])

    async def ask(consumer: AIOKafkaConsumer) -> dict:
        low = await consumer.beginning_offsets([partition])
        high = await consumer.end_offsets([partition])
        return {"low": low[partition], "high": high[partition]}

    return with_consumer(ask)


def times(command: dict) -> dict:
    partition = TopicPartition(command["topic"], command["partition"])

    async def ask(consumer: AIOKafkaConsumer) -> list:
        found = [(await consumer.offsets_for_times({partition: at}))[partition] for at in command["timestamps"]]
        return [None if answer is None else answer.offset for answer in found]

    return {"offsets": with_consumer(ask)}


def with_admin(work):
    async def run():
        admin = AIOKafkaAdminClient(bootstrap_servers=BOOTSTRAP)
        await admin.start()
        try:
            return await work(admin)
        finally:
            await admin.close()

    return loop.run_until_complete(run())


def topics(_: dict) -> dict:
    described = with_admin(lambda admin: admin.describe_topics())
    return {"topics": {topic["topic"]: len(topic["partitions"]) for topic in described}}


def refuse(answer) -> None:
    """The admin client hands error codes back instead of raising them."""
    entries = getattr(answer, "topic_errors", None) or getattr(answer, "topic_error_codes", ())
    for entry in entries:
        if entry[1]:
            raise RuntimeError(f"{entry[0]}: error {entry[1]}")


def create(command: dict) -> None:
    topic = NewTopic(command["topic"], command["partitions"], 1, topic_configs=command.get("configs", {}))
    refuse(with_admin(lambda admin: admin.create_topics([topic])))


def delete(command: dict) -> None:
    refuse(with_admin(lambda admin: admin.delete_topics([command["topic"]])))


program.serve(
    {
        "produce": produce, "consume": consume, "idle": idle, "watermarks": watermarks, "times": times,
        "topics": topics, "create": create, "delete": delete,
    }
)
