"""Clients that speak to an old broker, with the message formats of its time: what they write, and what they read."""

from dataclasses import replace

from lib import compare, corpus, records
from lib.agent import Agent
from lib.clients import Client
from lib.context import TOPIC_CONFIG, Context
from lib.records import Record
from lib.report import expect
from lib.wire import Wire

# zstd is younger than the old formats.
CODECS = ["none", "gzip", "snappy", "lz4"]
# The first version whose messages have timestamps: its own, and every one that is read by it.
TIMES_FROM = (0, 10)
# The old fetches return nothing when the first batch is larger than this.
FETCH_BYTES = 8 << 20
READ_TIMEOUT_S = 60


def has_times(api: str) -> bool:
    return tuple(map(int, api.split("."))) >= TIMES_FROM


def plain(record: Record, times: bool) -> Record:
    """The record as an old format has it."""
    return replace(record, headers=(), timestamp=record.timestamp if times else -1)


def write(context: Context, agent: Agent, topic: str, sent: list[Record], codec: str, **api) -> None:
    file = context.folder / f"{topic}.sent"
    with Wire(context.broker.port) as wire:
        wire.create_topic(topic, 1, TOPIC_CONFIG)
        records.write(str(file), sent)
        agent.call("produce", topic=topic, partition=0, file=str(file), codec=codec, acks="all", **api)
        end = wire.end_offset(topic)
    file.unlink()
    expect(end == len(sent), f"{len(sent)} records written, but the partition ends at {end}")


def read(context: Context, agent: Agent, topic: str, sent: list[Record], times: bool, **api) -> None:
    """Reads from the earliest offset, which an old client asks for by the oldest ListOffsets."""
    out = context.folder / f"{topic}.received"
    agent.call(
        "consume", READ_TIMEOUT_S, topic=topic, partition=0, offset="earliest", count=len(sent), file=str(out),
        fetch_bytes=FETCH_BYTES, **api,
    )
    received = [record if times else replace(record, timestamp=-1) for record in records.read(str(out))]
    out.unlink()
    found = compare.difference(sent, received)
    expect(found is None, f"{'old' if api else 'new'} reader: {found}")


def old_writes(context: Context, agent: Agent, api: str, codec: str) -> None:
    """What the old client writes, it reads itself, and so does the client as it is today."""
    times = has_times(api)
    topic = f"old-{agent.client.name}-{api}-{codec}"
    sent = [plain(record, times) for record in corpus.writable(topic, agent.client.cannot_write)]
    write(context, agent, topic, sent, codec, api=api)
    read(context, agent, topic, sent, times, api=api)
    read(context, agent, topic, sent, times)


def old_reads(context: Context, agent: Agent, api: str, codec: str) -> None:
    """What the client writes as it is today comes to the old one without headers."""
    times = has_times(api)
    topic = f"new-{agent.client.name}-{api}-{codec}"
    sent = corpus.writable(topic, agent.client.cannot_write)
    write(context, agent, topic, sent, codec)
    read(context, agent, topic, [plain(record, times) for record in sent], times, api=api)


def run(context: Context) -> None:
    def work(client: Client) -> None:
        with context.agent(client) as agent:
            for api in client.old:
                for what in (old_writes, old_reads):
                    def all_codecs() -> None:
                        for codec in CODECS:
                            what(context, agent, api, codec)

                    verb = what.__name__.split("_")[1]
                    context.report.check(f"old: {client.name} as of {api} {verb}", all_codecs)

    context.each(work, [client for client in context.clients if client.old])
