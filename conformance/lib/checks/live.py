"""Clients that stay: a topic is deleted and made anew under them, and the broker restarts under them."""

import pathlib

from lib import records
from lib.agent import Agent
from lib.clients import Client
from lib.context import Context
from lib.records import Record
from lib.report import expect
from lib.wire import Wire

BEFORE, AFTER = 10, 5
BASE_MS = 1_700_000_000_000


class Pair:
    """A producer and a consumer of one client that outlive what happens to the broker."""

    def __init__(self, context: Context, agent: Agent, topic: str) -> None:
        self._context, self._agent, self._topic = context, agent, topic

    def write(self, label: str, count: int) -> pathlib.Path:
        file = self._context.folder / f"{self._topic}-{label}.sent"
        records.write(str(file), (Record(BASE_MS + i, b"%d" % i, f"{label} {i}".encode()) for i in range(count)))
        self._agent.call(
            "produce", topic=self._topic, partition=0, file=str(file), codec="lz4", acks="all",
            idempotent=self._agent.client.idempotent, handle="stays",
        )
        return file

    def read(self, sent: pathlib.Path, count: int) -> None:
        out = sent.with_suffix(".received")
        self._agent.call(
            "consume", 60, topic=self._topic, partition=0, offset=0, count=count, file=str(out), handle="stays"
        )
        expect(out.read_bytes() == sent.read_bytes(), f"{sent.stem}: not what was sent")


def recreate(context: Context, agent: Agent, wire: Wire) -> None:
    """The new topic starts empty, takes the old producer's records and hands them to the old consumer."""
    topic = f"recreated-{agent.client.name}"
    pair = Pair(context, agent, topic)
    wire.create_topic(topic, 1, {"retention.ms": "-1"})
    pair.read(pair.write("before", BEFORE), BEFORE)
    wire.delete_topic(topic)
    wire.create_topic(topic, 1, {"retention.ms": "-1"})
    expect(wire.end_offset(topic) == 0, "the new topic is not empty")
    sent = pair.write("after", AFTER)
    expect(wire.end_offset(topic) == AFTER, f"the new topic ends at {wire.end_offset(topic)}, not {AFTER}")
    if "reset" in agent.client.ops:
        pair.read(sent, AFTER)


def recreated(context: Context) -> None:
    """Every client that stays, each with a topic of its own."""

    def work(client: Client) -> None:
        with Wire(context.broker.port) as wire, context.agent(client) as agent:
            consumer = "and consumer" if "reset" in client.ops else "only"
            context.report.check(
                f"live: topic recreated under {client.name}, producer {consumer}",
                lambda: recreate(context, agent, wire),
            )

    context.each(work, context.able("live"))


def restarted(context: Context) -> None:
    """The broker stops and starts again on the same folder: everything is there, and clients go on."""
    with context.another_broker("restarted") as broker:
        agents = [context.agent(client, broker) for client in context.able("live")]
        pairs = [Pair(context, agent, f"restart-{agent.client.name}") for agent in agents]
        with Wire(broker.port) as wire:
            for agent in agents:
                wire.create_topic(f"restart-{agent.client.name}", 1, {"retention.ms": "-1"})
        failed = set()

        def step(agent: Agent, pair: Pair, label: str, count: int) -> None:
            try:
                pair.read(pair.write(label, count), count)
            except Exception as failure:  # reported once for each client
                failed.add(agent.client.name)
                context.report.result(f"live: {agent.client.name} {label} a restart", [f"{type(failure).__name__}: {failure}"])

        context.each(lambda both: step(*both, "before", BEFORE), zip(agents, pairs))
        broker.stop()
        broker.start()
        context.each(lambda both: step(*both, "after", AFTER), zip(agents, pairs))
        with Wire(broker.port) as wire:
            for agent in agents:
                agent.close()
                topic = f"restart-{agent.client.name}"
                if agent.client.name not in failed:
                    end = wire.end_offset(topic)
                    wrong = [] if end == BEFORE + AFTER else [f"the partition ends at {end}"]
                    context.report.result(f"live: {agent.client.name} goes on after a restart", wrong)


def run(context: Context) -> None:
    recreated(context)
    restarted(context)
