"""Transactional producers: what they commit is read, what they abort is not, and one that was replaced is fenced."""

import pathlib

from lib import records
from lib.agent import ClientFailure
from lib.clients import Client
from lib.context import Context
from lib.records import Record
from lib.report import expect
from lib.wire import Wire

COUNT = 5
# What becomes of one transaction after the other.
OUTCOMES = ("commit", "abort", "commit", "abort", "abort", "commit")


def write(folder: pathlib.Path, topic: str, label: str) -> pathlib.Path:
    file = folder / f"{topic}-{label}.sent"
    records.write(str(file), (Record(1_700_000_000_000 + i, b"k", f"{label} {i}".encode()) for i in range(COUNT)))
    return file


def decided(context: Context, client: Client, reader: Client) -> None:
    """A read_committed consumer finds the committed transactions, whole and in order, and nothing else."""
    topic = f"transactions-{client.name}"
    wanted = []
    with Wire(context.broker.port) as wire, context.agent(client) as agent, context.agent(reader) as other:
        wire.create_topic(topic, 1, {"retention.ms": "-1"})
        for number, outcome in enumerate(OUTCOMES):
            sent = write(context.folder, topic, f"{outcome}-{number}")
            agent.call("transact", handle="t", id=topic, topic=topic, partition=0, file=str(sent), outcome=outcome)
            wanted += list(records.read(str(sent))) if outcome == "commit" else []
        out = context.folder / f"{topic}.received"
        other.call("consume_committed", 60, topic=topic, partition=0, offset=0, count=len(wanted), file=str(out))
        found = [record.value for record in records.read(str(out))]
        expect(found == [record.value for record in wanted], f"found {found}")


def fenced(context: Context, client: Client) -> None:
    """Of two producers with one transactional id the older one can commit no more."""
    topic = f"fenced-{client.name}"
    with Wire(context.broker.port) as wire, context.agent(client) as old, context.agent(client) as new:
        wire.create_topic(topic, 1, {"retention.ms": "-1"})
        arguments = {"handle": "t", "id": topic, "topic": topic, "partition": 0}
        old.call("transact", **arguments, file=str(write(context.folder, topic, "old")), outcome="open")
        new.call("transact", **arguments, file=str(write(context.folder, topic, "new")), outcome="commit")
        try:
            old.call("transact", **arguments, file=str(write(context.folder, topic, "late")), outcome="commit")
        except ClientFailure:
            return
        raise AssertionError("the replaced producer has committed")


def run(context: Context) -> None:
    able = context.able("transact")
    reader = next((client for client in able if client.name == "confluent-kafka"), None)

    def work(client: Client) -> None:
        if reader is not None:
            context.report.check(f"transactions: {client.name} commits and aborts", lambda: decided(context, client, reader))
        context.report.check(f"transactions: {client.name} is fenced", lambda: fenced(context, client))

    context.each(work, able)
