"""Kafka Connect: a distributed worker copies a file through a topic to another file, while the broker and the worker are killed."""

import pathlib
import threading
import time
from collections import Counter

from lib.broker import Broker
from lib.connect import Worker
from lib.context import Context
from lib.dump import dump
from lib.report import expect
from lib.wire import Wire

TOPIC = "copied"
OVERRIDES = {"group.initial.rebalance.delay.ms": "0"}
INTERNAL = {"connect-configs": 1, "connect-offsets": 5, "connect-status": 3}
# Lines that are written one after the other while something is killed, and how long the writer waits between two of them.
FLOWING, BETWEEN_S = 400, 0.005


def settings(broker: Broker, exactly_once: bool) -> dict[str, object]:
    """What a worker is told."""
    found = {
        "bootstrap.servers": f"127.0.0.1:{broker.port}",
        "group.id": "connect",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "config.storage.topic": "connect-configs",
        "offset.storage.topic": "connect-offsets",
        "offset.storage.partitions": INTERNAL["connect-offsets"],
        "status.storage.topic": "connect-status",
        "status.storage.partitions": INTERNAL["connect-status"],
        "offset.flush.interval.ms": 1000,
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 500,
        "consumer.session.timeout.ms": 6000,
        "consumer.heartbeat.interval.ms": 500,
        # The work of a worker that was killed is given to another one at once.
        "scheduled.rebalance.max.delay.ms": 0,
        "plugin.discovery": "service_load",
    } | {f"{name}.storage.replication.factor": 1 for name in ("config", "offset", "status")}
    if exactly_once:
        found |= {"exactly.once.source.support": "enabled", "consumer.isolation.level": "read_committed"}
    return found


class Copy:
    """A file, the topic that it goes through, and the file that it comes out in."""

    def __init__(self, folder: pathlib.Path, exactly_once: bool) -> None:
        self.source, self.sink = folder / "in.txt", folder / "out.txt"
        self.count = 0
        self._exactly_once = exactly_once
        self.source.touch()

    def configure(self, worker: Worker) -> None:
        """Makes both connectors and waits until they run."""
        source = {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector", "tasks.max": 1,
            "file": str(self.source), "topic": TOPIC,
        }
        if self._exactly_once:
            source["exactly.once.support"] = "required"
        worker.configure("source", source)
        worker.configure("sink", {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector", "tasks.max": 1,
            "file": str(self.sink), "topics": TOPIC,
        })
        self.running(worker)

    def running(self, worker: Worker) -> None:
        for connector in ("source", "sink"):
            worker.until(f"{connector} runs", lambda: worker.states(connector) == ["RUNNING", "RUNNING"])

    def write(self, count: int, between_s: float = 0) -> None:
        """Adds lines to the file; no two are the same."""
        with open(self.source, "a", encoding="ascii", buffering=1) as out:
            for _ in range(count):
                out.write(f"line {self.count}\n")
                self.count += 1
                time.sleep(between_s)

    def lines(self) -> list[str]:
        return [f"line {number}" for number in range(self.count)]

    def arrived(self, worker: Worker) -> None:
        """Waits until every line has come out."""
        wanted = set(self.lines())
        worker.until(
            f"{self.count} lines have come out", lambda: self.sink.exists() and wanted <= set(self.sink.read_text().splitlines())
        )

    def stored(self, worker: Worker) -> None:
        """Waits until the source's offset is stored: it will not begin again before it."""
        end = self.source.stat().st_size
        worker.until(
            "the source's offset is stored", lambda: [one["offset"] for one in worker.offsets("source")] == [{"position": end}]
        )

    def while_flowing(self, act) -> None:
        """Does something in the middle of lines that are being written."""
        writer = threading.Thread(target=self.write, args=(FLOWING, BETWEEN_S))
        begun = self.count
        writer.start()
        while self.count < begun + FLOWING // 4:
            time.sleep(BETWEEN_S)
        act()
        writer.join()


def internal_topics(broker: Broker) -> None:
    """The worker has made its three topics, and compacted ones."""
    with Wire(broker.port) as wire:
        for topic, partitions in INTERNAL.items():
            found = wire.topics([topic]).get(topic)
            expect(found == partitions, f"{topic} has {found} partitions, not {partitions}")
            policy = wire.topic_configs(topic)["cleanup.policy"]
            expect(policy == "compact", f"{topic} is cleaned by {policy}")


def restart(process) -> None:
    process.kill()
    process.start()


def copied(broker: Broker, copy: Copy, exactly_once: bool) -> int:
    """Every line is in the topic and in the sink's file, in its order; how many are in the topic again, which not all may be."""
    wanted = copy.lines()
    topic = [one.record.value.decode() for one in dump(broker.port, TOPIC)[TOPIC]]
    expect(list(dict.fromkeys(topic)) == wanted, "the topic does not have what the file has")
    expect(list(dict.fromkeys(copy.sink.read_text().splitlines())) == wanted, "the sink's file does not have what the file has")
    again = len(topic) - len(wanted)
    expect(not (again and exactly_once), f"{again} lines are in the topic again: {Counter(topic).most_common(3)}")
    return again


def guarantee(context: Context, exactly_once: bool) -> str:
    """One worker on a broker of its own; whichever is killed, everything comes out, and in the order in which it went in."""
    folder = context.folder / ("connect-exactly-once" if exactly_once else "connect-at-least-once")
    with context.another_broker(f"{folder.name}/broker", OVERRIDES) as broker:
        worker = Worker("worker", folder, settings(broker, exactly_once))
        copy = Copy(folder, exactly_once)
        worker.start()
        try:
            copy.configure(worker)
            internal_topics(broker)
            copy.write(100)
            copy.arrived(worker)
            copy.while_flowing(lambda: restart(broker))
            copy.arrived(worker)
            # What is stored is not read again.
            copy.stored(worker)
            before = copied(broker, copy, exactly_once)
            restart(worker)
            copy.write(100)
            copy.arrived(worker)
            after = copied(broker, copy, exactly_once)
            expect(after == before, f"{after - before} lines are in the topic again, though their offsets had been stored")
            copy.while_flowing(lambda: restart(worker))
            copy.arrived(worker)
            again = copied(broker, copy, exactly_once)
        finally:
            worker.stop()
    return f"{copy.count} lines, {again} of them again"


def taken_over(context: Context) -> str:
    """Two workers share the work; one is killed amid lines, and the other one does all of it."""
    folder = context.folder / "connect-two"
    with context.another_broker(f"{folder.name}/broker", OVERRIDES) as broker:
        first, second = (Worker(name, folder, settings(broker, exactly_once=True)) for name in ("first", "second"))
        copy = Copy(folder, exactly_once=True)
        first.start()
        try:
            copy.configure(first)
            second.start()
            second.until("both have work", lambda: len(second.owners("source", "sink")) == 2)
            copy.while_flowing(first.kill)
            copy.arrived(second)
            copied(broker, copy, exactly_once=True)
        finally:
            first.stop()
            second.stop()
    return f"{copy.count} lines"


def run(context: Context) -> None:
    def work(exactly_once: bool) -> None:
        name = "exactly once" if exactly_once else "at least once"
        context.report.check(f"connect: {name} by a worker", lambda: guarantee(context, exactly_once))

    context.each(work, [False, True])
    if context.full:
        context.report.check("connect: a worker takes over from another", lambda: taken_over(context))
