"""Every client writes with every codec, and every client reads what the others wrote."""

import pathlib
import threading
from collections import defaultdict
from dataclasses import dataclass

from lib import compare, corpus, records
from lib.agent import Agent, ClientFailure
from lib.clients import Client
from lib.context import TOPIC_CONFIG, Context
from lib.report import expect
from lib.wire import Wire



@dataclass(frozen=True)
class Mode:
    """How a producer is set up."""

    name: str
    acks: str
    idempotent: bool


READ_TIMEOUT_S = 30

MODES = [Mode("acks=1", "1", False), Mode("acks=all", "all", False), Mode("idempotent", "all", True)]


@dataclass(frozen=True)
class Cell:
    """One topic: what one producer wrote in one codec and mode."""

    producer: str
    codec: str
    mode: Mode
    topic: str
    file: pathlib.Path
    count: int

    @property
    def name(self) -> str:
        return f"{self.codec}/{self.mode.name}"


def modes(client: Client, index: int, full: bool) -> list[Mode]:
    """All modes that the client has in a full run; one of them, turning with the index, in a quick one."""
    possible = [mode for mode in MODES if client.idempotent or not mode.idempotent]
    return possible if full else [possible[index % len(possible)]]


def plan(context: Context) -> dict[str, list[Cell]]:
    """The topics of each producer, with the files of what goes in written."""
    cells: dict[str, list[Cell]] = defaultdict(list)
    for row, client in enumerate(context.clients):
        for column, codec in enumerate(client.codecs):
            for mode in modes(client, row + column, context.full):
                topic = f"matrix-{client.name}-{codec}-{mode.name.replace('=', '-')}"
                file = context.folder / f"{topic}.sent"
                count = records.write(str(file), corpus.writable(topic, client.cannot_write))
                cells[client.name].append(Cell(client.name, codec, mode, topic, file, count))
    return cells


def write_cell(context: Context, agent: Agent, cell: Cell) -> None:
    """Creates the topic, lets the client write, and compares the number of records."""
    with Wire(context.broker.port) as wire:
        wire.create_topic(cell.topic, 1, TOPIC_CONFIG)
        agent.call(
            "produce", topic=cell.topic, partition=0, file=str(cell.file), codec=cell.codec,
            acks=cell.mode.acks, idempotent=cell.mode.idempotent,
        )
        end = wire.end_offset(cell.topic)
        expect(end == cell.count, f"{cell.count} records written, but the partition ends at {end}")


class Reader:
    """Reads cells with one client and compares them."""

    def __init__(self, context: Context) -> None:
        self._context = context
        # The first reader's timestamps where the producer chose none: all others must see the same.
        self._timestamps: dict[str, list[int]] = {}
        self._lock = threading.Lock()

    def read(self, agent: Agent, cell: Cell) -> str | None:
        """What is wrong with what the client read, or None."""
        client = agent.client
        out = self._context.folder / f"{cell.topic}.{client.name}.received"
        try:
            agent.call(
                "consume", READ_TIMEOUT_S, topic=cell.topic, partition=0, offset=0, count=cell.count, file=str(out)
            )
        except ClientFailure as failure:
            return str(failure)
        if out.read_bytes() == cell.file.read_bytes():
            out.unlink()
            return None
        found = compare.difference(records.read(str(cell.file)), records.read(str(out)), client.groups_headers)
        return found or self._disagreement(cell, out)

    def _disagreement(self, cell: Cell, out: pathlib.Path) -> str | None:
        seen = [record.timestamp for record in records.read(str(out))]
        out.unlink()
        with self._lock:
            first = self._timestamps.setdefault(cell.topic, seen)
        return None if first == seen else "timestamps differ from those that another client read"


def run(context: Context) -> None:
    """Writes all cells, then reads all cells."""
    cells = plan(context)

    def write(client: Client) -> list[Cell]:
        failures, written = [], []
        with context.agent(client) as agent:
            for cell in cells[client.name]:
                try:
                    write_cell(context, agent, cell)
                    written.append(cell)
                except Exception as failure:  # one line for the producer, whatever went wrong
                    failures.append(f"{cell.name}: {type(failure).__name__}: {failure}")
        detail = " ".join(cell.name for cell in written)
        context.report.result(f"matrix: {client.name} writes", failures, detail)
        return written

    written = dict(zip((client.name for client in context.clients), context.each(write, context.clients)))
    reader = Reader(context)

    def read(client: Client) -> None:
        with context.agent(client) as agent:
            for producer, theirs in written.items():
                chosen = theirs if context.full else client.chosen(theirs)
                failures = [(cell.name, reader.read(agent, cell)) for cell in chosen]
                wrong = [f"{name}: {what}" for name, what in failures if what]
                detail = " ".join(cell.codec for cell in chosen)
                context.report.result(f"matrix: {producer} -> {client.name}", wrong, detail)

    context.each(read, context.clients)
    for cell in (cell for theirs in written.values() for cell in theirs):
        cell.file.unlink()
