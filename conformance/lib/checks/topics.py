"""Topics as clients see and change them: listing, creation, deletion, auto-creation, refusals."""

from lib import records
from lib.agent import Agent, ClientFailure
from lib.clients import Client
from lib.context import TOPIC_CONFIG, Context
from lib.records import Record
from lib.report import expect
from lib.wire import Wire

MIB = 1 << 20
PARTITIONS = 3
# Below, kafka-python falls back to protocols that have neither headers nor sessions.
GUESSED_AT_LEAST = [2, 3]


def refused(agent: Agent, op: str, **arguments: object) -> str:
    """The error that the command must end with."""
    try:
        agent.call(op, **arguments)
    except ClientFailure as failure:
        return str(failure)
    raise AssertionError(f"{op} {arguments.get('topic')} was not refused")


def seen(agent: Agent, name: str) -> int | None:
    return agent.call("topics")["topics"].get(name)


def metadata(agent: Agent, wire: Wire) -> None:
    """A running client sees a topic that appears and one that goes."""
    name = f"seen-by-{agent.client.name}"
    expect(seen(agent, name) is None, "listed before it exists")
    wire.create_topic(name, PARTITIONS)
    expect(seen(agent, name) == PARTITIONS, f"{seen(agent, name)} partitions listed, not {PARTITIONS}")
    wire.delete_topic(name)
    expect(seen(agent, name) is None, "still listed after its deletion")


def concluded_version(agent: Agent) -> str:
    """What a client that guesses the broker's version from its APIs makes of it."""
    version = agent.call("version")["version"]
    expect(version >= GUESSED_AT_LEAST, f"{version}, not at least {GUESSED_AT_LEAST}")
    return ".".join(map(str, version))


def administer(agent: Agent, wire: Wire) -> None:
    """The client's own admin part makes and deletes a topic; doing either twice is an error."""
    name = f"made-by-{agent.client.name}"
    agent.call("create", topic=name, partitions=PARTITIONS, configs={"max.message.bytes": str(MIB)})
    wire.wait_made(name, PARTITIONS)
    agent.call("delete", topic=name)
    wire.wait_gone(name)
    # kafkajs answers false instead of an error when the topic exists, so the second deletion is what counts.
    refused(agent, "delete", topic=name)


def auto_create(agent: Agent, wire: Wire, context: Context) -> None:
    """Writing to a topic that is not there makes it."""
    name, file = f"auto-{agent.client.name}", context.folder / f"auto-{agent.client.name}.sent"
    count = records.write(str(file), [Record(-1, b"k", b"v")] * 3)
    agent.call("produce", topic=name, partition=0, file=str(file), codec="none", acks="all")
    expect(wire.end_offset(name) == count, f"the partition ends at {wire.end_offset(name)}, not {count}")


def produce_refused(agent: Agent, wire: Wire, context: Context, topic: str, record: Record) -> str:
    """The record is refused, and the partition takes a good one afterwards."""
    bad, good = context.folder / f"{topic}.bad", context.folder / f"{topic}.good"
    records.write(str(bad), [record])
    records.write(str(good), [Record(-1, b"k", b"v")])
    arguments = {"topic": topic, "partition": 0, "codec": "none", "acks": "all"}
    error = refused(agent, "produce", file=str(bad), **arguments)
    expect(wire.end_offset(topic) == 0, "the refused record was stored")
    agent.call("produce", file=str(good), **arguments)
    expect(wire.end_offset(topic) == 1, "the good record was not stored")
    return error[:100]


def too_large(agent: Agent, wire: Wire, context: Context) -> str:
    """A record above the topic's limit."""
    name = f"small-{agent.client.name}"
    wire.create_topic(name, 1, {"max.message.bytes": "10000"})
    return produce_refused(agent, wire, context, name, Record(-1, b"k", b"x" * 20_000))


def without_key(agent: Agent, wire: Wire, context: Context) -> str:
    """A record without a key on a compacted topic."""
    name = f"compact-{agent.client.name}"
    wire.create_topic(name, 1, {"cleanup.policy": "compact"})
    return produce_refused(agent, wire, context, name, Record(-1, None, b"no key"))


def large_records(agent: Agent, context: Context) -> None:
    """A record above what the consumer asks for still comes, whole (KIP-74)."""
    out = context.folder / f"large.{agent.client.name}.received"
    agent.call(
        "consume", topic="large", partition=0, offset=0, count=LARGE_RECORDS, file=str(out), fetch_bytes=SMALL_FETCH_BYTES
    )
    expect(out.read_bytes() == (context.folder / "large.sent").read_bytes(), "not what was sent")


LARGE_RECORDS = 3
SMALL_FETCH_BYTES = 1024


def prepare_large(context: Context) -> None:
    file = context.folder / "large.sent"
    records.write(str(file), (Record(1_700_000_000_000 + i, b"k", bytes([i]) * MIB) for i in range(LARGE_RECORDS)))
    writer = context.timestamp_writer()
    with Wire(context.broker.port) as wire, context.agent(writer) as agent:
        wire.create_topic("large", 1, TOPIC_CONFIG)
        agent.call("produce", topic="large", partition=0, file=str(file), codec="none", acks="all")


def run(context: Context) -> None:
    prepare_large(context)

    def examine(client: Client) -> None:
        check, name = context.report.check, client.name
        with Wire(context.broker.port) as wire, context.agent(client) as agent:
            if "topics" in client.ops:
                check(f"topics: seen and gone by {name}", lambda: metadata(agent, wire))
            if "version" in client.ops:
                check(f"topics: broker version as {name} guesses it", lambda: concluded_version(agent))
            if "admin" in client.ops:
                check(f"topics: made and deleted by {name}", lambda: administer(agent, wire))
            if "autocreate" in client.ops:
                check(f"topics: made by a write of {name}", lambda: auto_create(agent, wire, context))
            check(f"topics: too large a record of {name} is refused", lambda: too_large(agent, wire, context))
            check(f"topics: no key on a compacted topic from {name}", lambda: without_key(agent, wire, context))
            check(f"topics: 1 MiB in fetches of 1 KiB to {name}", lambda: large_records(agent, context))

    context.each(examine, context.clients)
