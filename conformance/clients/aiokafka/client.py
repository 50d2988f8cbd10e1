"""aiokafka as a client program."""

import asyncio
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from lib import program, records

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

BOOTSTRAP = sys.argv[1]
MESSAGE_BYTES_MAX = 8 << 20
SENDS_IN_FLIGHT_MAX = 20_000
loop = asyncio.new_event_loop()
producers, consumers = program.Handles(), program.Handles()
members: dict[str, "Member"] = {}
transactional: dict[str, AIOKafkaProducer] = {}
opened: set[str] = set()


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


async def transaction(command: dict) -> None:
    """One transaction; `open` leaves it so, and the next command goes on with it."""
    handle = command["handle"]
    if handle not in transactional:
        transactional[handle] = AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, transactional_id=command["id"])
        await transactional[handle].start()
    producer = transactional[handle]
    if handle not in opened:
        await producer.begin_transaction()
    for record in records.read(command["file"]):
        await producer.send_and_wait(command["topic"], record.value, record.key, command["partition"])
    if command["outcome"] == "open":
        opened.add(handle)
        return
    opened.discard(handle)
    await (producer.commit_transaction() if command["outcome"] == "commit" else producer.abort_transaction())


def transact(command: dict) -> None:
    loop.run_until_complete(asyncio.wait_for(transaction(command), 60))


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


SESSION_MS = 6000


class Member(ConsumerRebalanceListener):
    """A member of a group, and how often its partitions have changed."""

    def __init__(self, command: dict) -> None:
        settings = {"group_id": command["group"], "session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": 500}
        if "instance" in command:
            settings["group_instance_id"] = command["instance"]
        self.rebalances = 0
        self.consumer = new_consumer(**settings)
        self.consumer.subscribe([command["topic"]], listener=self)

    def on_partitions_revoked(self, revoked) -> None:
        pass

    def on_partitions_assigned(self, assigned) -> None:
        self.rebalances += 1

    async def poll(self, command: dict) -> dict:
        deadline = time.monotonic() + command["ms"] / 1000
        received = []
        while (left := deadline - time.monotonic()) > 0:
            for messages in (await self.consumer.getmany(timeout_ms=int(left * 1000) + 1)).values():
                received += [(message.partition, message.offset) for message in messages]
        if command["commit"] and received:
            await self.consumer.commit()
        assigned = [partition.partition for partition in self.consumer.assignment()]
        return {"assigned": assigned, "records": received, "rebalances": self.rebalances}


def member(command: dict) -> None:
    members[command["handle"]] = Member(command)


def poll(command: dict) -> dict:
    return loop.run_until_complete(members[command["handle"]].poll(command))


def leave(command: dict) -> None:
    loop.run_until_complete(members.pop(command["handle"]).consumer.stop())


def in_group(command: dict, work):
    """Work with the group's offsets from outside of it."""
    consumer = new_consumer(group_id=command["group"])
    partitions = [TopicPartition(command["topic"], index) for index in range(command["partitions"])]

    async def assigned():
        consumer.assign(partitions)
        return await work(consumer, partitions)

    try:
        return loop.run_until_complete(assigned())
    finally:
        loop.run_until_complete(consumer.stop())


def committed(command: dict) -> dict:
    async def ask(consumer: AIOKafkaConsumer, partitions: list) -> list:
        return [await consumer.committed(partition) for partition in partitions]

    return {"offsets": in_group(command, ask)}


def reset_offsets(command: dict) -> None:
    async def commit(consumer: AIOKafkaConsumer, partitions: list) -> None:
        await consumer.commit({partition: command["offset"] for partition in partitions})

    in_group(command, commit)


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
        "topics": topics, "create": create, "delete": delete, "member": member, "poll": poll, "leave": leave,
        "committed": committed, "reset_offsets": reset_offsets, "transact": transact,
    }
)
