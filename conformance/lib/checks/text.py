"""A real text goes in through one client and comes out of every other byte for byte, with each codec."""

import hashlib
import pathlib
from dataclasses import dataclass

from lib import compare, records, text
from lib.clients import Client
from lib.context import TOPIC_CONFIG, Context
from lib.report import expect
from lib.wire import Wire

# Who writes the text with which codec: in a quick run the first round, in a full run both.
ROUNDS = [
    [("none", "kcat"), ("gzip", "java"), ("snappy", "sarama"), ("lz4", "aiokafka"), ("zstd", "franz-go")],
    [
        ("none", "console"), ("gzip", "kafkajs"), ("snappy", "kafka-python-2.0.2"),
        ("lz4", "confluent-kafka"), ("zstd", "kafka-python-3.0.12"),
    ],
]
# Fetches as large as clients ask for when they are told to hurry.
LARGE_FETCH_BYTES = 32 << 20
SECONDS_PER_MB = 6
SECONDS_AT_LEAST = 60


@dataclass(frozen=True)
class Topic:
    """One copy of the text in the broker."""

    name: str
    codec: str
    source: Client
    file: pathlib.Path
    count: int
    # What stands between the values of the records when they are put together again.
    separator: bytes


def digest(file: pathlib.Path, separator: bytes) -> str:
    """The SHA-256 of the values of a record file, put together."""
    sha = hashlib.sha256()
    for record in records.read(str(file)):
        sha.update(record.value + separator)
    return sha.hexdigest()


def timeout_s(context: Context) -> float:
    return SECONDS_AT_LEAST + context.text_bytes / 1e6 * SECONDS_PER_MB


def sources(context: Context) -> list[tuple[str, Client]]:
    """Which codec is written by which client; a client that is not there is replaced by one that is."""
    chosen = []
    for wanted in ROUNDS if context.full else ROUNDS[:1]:
        for codec, name in wanted:
            able = [client for client in context.clients if codec in client.codecs]
            named = [client for client in able if client.name == name]
            chosen += [(codec, client) for client in (named or able)[:1]]
    return list(dict.fromkeys(chosen))


def write(context: Context, source: Client, codec: str, file: pathlib.Path, count: int) -> Topic:
    topic = Topic(
        f"text-{codec}-{source.name}", codec, source, file, count, b"\n" if source.name == "console" else b""
    )
    with Wire(context.broker.port) as wire, context.agent(source) as agent:
        wire.create_topic(topic.name, 1, TOPIC_CONFIG)
        agent.call(
            "produce", timeout_s(context), topic=topic.name, partition=0, file=str(file), codec=codec, acks="all",
            idempotent=source.idempotent,
        )
        end = wire.end_offset(topic.name)
        expect(end == count, f"{count} records written, but the partition ends at {end}")
    return topic


def read(context: Context, client: Client, topic: Topic, wanted: str) -> None:
    out = context.folder / f"{topic.name}.{client.name}.received"
    with context.agent(client) as agent:
        agent.call(
            "consume", timeout_s(context), topic=topic.name, partition=0, offset=0, count=topic.count,
            file=str(out), fetch_bytes=LARGE_FETCH_BYTES,
        )
    found = digest(out, topic.separator)
    if found != wanted:
        raise AssertionError(compare.difference(records.read(str(topic.file)), records.read(str(out))) or found)
    out.unlink()


def run(context: Context) -> None:
    """Writes the text once a codec and reads it with everyone."""
    content = text.make(context.text_bytes)
    wanted = hashlib.sha256(content).hexdigest()
    context.report.say(f"text: {len(content)} bytes, sha256 {wanted}")
    by_chunk, by_line = context.folder / "text.chunks", context.folder / "text.lines"
    chunks, lines = records.write(str(by_chunk), text.chunks(content)), records.write(str(by_line), text.lines(content))
    written: list[Topic] = []

    def put(item: tuple[str, Client]) -> None:
        codec, source = item
        file, count = (by_line, lines) if source.name == "console" else (by_chunk, chunks)

        def work() -> str:
            written.append(write(context, source, codec, file, count))
            return f"{count} records"

        context.report.check(f"text: {codec} in through {source.name}", work)

    context.each(put, sources(context))
    pairs = [(client, topic) for client in context.clients for topic in written if topic.source != client]

    def get(item: tuple[Client, Topic]) -> None:
        client, topic = item
        context.report.check(
            f"text: {topic.codec} from {topic.source.name} out through {client.name}",
            lambda: read(context, client, topic, wanted),
        )

    context.each(get, pairs)
