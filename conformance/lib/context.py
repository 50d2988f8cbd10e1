"""What every group of checks is given."""

import pathlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Callable, Iterable

from lib.agent import Agent
from lib.broker import Broker
from lib.clients import Client, NotAvailable
from lib.report import Report

# How many client programs work at a time: twice the cores of a small machine, for they mostly wait.
PARALLEL = 4
# Room for records of 1 MiB in one batch, and no retention: the timestamps of the records are years old.
TOPIC_CONFIG = {"max.message.bytes": str(4 << 20), "retention.ms": "-1"}


@dataclass
class Context:
    """The run: its broker, the clients that are there, and a folder for files."""

    kind: str
    broker: Broker
    clients: list[Client]
    report: Report
    folder: pathlib.Path
    full: bool
    text_bytes: int
    record: bool

    def agent(self, client: Client, broker: Broker | None = None) -> Agent:
        """Starts a client program."""
        return Agent(client, (broker or self.broker).port, self.folder)

    def another_broker(self, name: str, overrides: dict[str, str] | None = None) -> Broker:
        """A fresh broker of the same kind."""
        return Broker(self.kind, self.folder / name, overrides)

    def able(self, op: str) -> list[Client]:
        """The clients that have a verb."""
        return [client for client in self.clients if op in client.ops]

    def timestamp_writer(self) -> Client:
        """A client that chooses the timestamps of what it writes."""
        for client in self.clients:
            if "timestamps" not in client.cannot_write:
                return client
        raise NotAvailable("none of the chosen clients can set timestamps")

    def each(self, work: Callable, items: Iterable) -> list:
        """Does the work for all items, a few at a time; a run that is ended begins no further ones."""
        pool = ThreadPoolExecutor(PARALLEL)
        try:
            return list(pool.map(work, items))
        finally:
            pool.shutdown(cancel_futures=True)
