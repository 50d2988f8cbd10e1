"""Watermarks and offsets by time, asked by every client."""

from lib import records
from lib.agent import Agent
from lib.clients import Client
from lib.context import TOPIC_CONFIG, Context
from lib.records import Record
from lib.report import expect
from lib.wire import Wire

TOPIC, EMPTY_TOPIC = "offsets", "offsets-empty"
BASE_MS = 1_700_000_000_000
RECORDS = 100
STEP_MS = 1000
# One record is as late as a later one, so that "the first that is not earlier" has something to choose.
EARLY_INDEX, EARLY_AS = 50, 70


def timestamp(index: int) -> int:
    return BASE_MS + (EARLY_AS if index == EARLY_INDEX else index) * STEP_MS


def first_not_earlier(at: int) -> int | None:
    return next((index for index in range(RECORDS) if timestamp(index) >= at), None)


QUESTIONS = [0, BASE_MS, BASE_MS + 1, timestamp(30), timestamp(49) + 1, timestamp(60), timestamp(99), timestamp(99) + 1]


def prepare(context: Context) -> None:
    """One batch of 100 records in gzip: the answer has to look inside."""
    file = context.folder / "offsets.sent"
    records.write(str(file), (Record(timestamp(i), None, b"%d" % i) for i in range(RECORDS)))
    writer = context.timestamp_writer()
    with Wire(context.broker.port) as wire, context.agent(writer) as agent:
        wire.create_topic(TOPIC, 1, TOPIC_CONFIG)
        wire.create_topic(EMPTY_TOPIC, 1, TOPIC_CONFIG)
        agent.call("produce", topic=TOPIC, partition=0, file=str(file), codec="gzip", acks="all")


def watermarks(agent: Agent) -> None:
    for topic, end in ((TOPIC, RECORDS), (EMPTY_TOPIC, 0)):
        found = agent.call("watermarks", topic=topic, partition=0)
        expect(found == {"low": 0, "high": end}, f"{topic}: {found}, not 0 and {end}")


def times(agent: Agent) -> None:
    wanted = [first_not_earlier(at) for at in QUESTIONS]
    found = agent.call("times", topic=TOPIC, partition=0, timestamps=QUESTIONS)["offsets"]
    expect(found == wanted, f"asked {QUESTIONS}, got {found}, not {wanted}")
    found = agent.call("times", topic=EMPTY_TOPIC, partition=0, timestamps=[0])["offsets"]
    expect(found == [None], f"an empty partition: {found}")


def run(context: Context) -> None:
    prepare(context)

    def ask(client: Client) -> None:
        with context.agent(client) as agent:
            if "watermarks" in client.ops:
                context.report.check(f"offsets: watermarks by {client.name}", lambda: watermarks(agent))
            if "times" in client.ops:
                context.report.check(f"offsets: by time by {client.name}", lambda: times(agent))

    context.each(ask, context.clients)
