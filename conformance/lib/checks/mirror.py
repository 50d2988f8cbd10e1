"""MirrorMaker 2 between the broker under test and Apache Kafka 3.7.2, in both directions at once."""

import json
import pathlib
from collections import defaultdict
from dataclasses import dataclass

from lib import corpus, jvm, records
from lib.broker import Broker, free_port
from lib.connect import MIRROR, Process
from lib.checks.stock import Step, run_step
from lib.context import TOPIC_CONFIG, Context
from lib.dump import Found, dump
from lib.records import Record
from lib.report import expect
from lib.wire import Wire

TOPIC, GROUP = "orders", "readers"
PARTITIONS = 2
CODECS = ("zstd", "lz4")
# The first records of a partition are removed before MirrorMaker sees them: then offsets differ between the two sides.
REMOVED = 5
LATER = 7
OVERRIDES = {"group.initial.rebalance.delay.ms": "0"}
REQUEST_BYTES = 8 << 20


@dataclass(frozen=True)
class Flow:
    """One direction."""

    name: str
    source: Broker
    target: Broker
    source_alias: str
    target_alias: str

    @property
    def remote(self) -> str:
        """The topic's name on the other side."""
        return f"{self.source_alias}.{TOPIC}"


def settings(flows: list[Flow], exactly_once: bool) -> dict[str, object]:
    """One process of MirrorMaker for all flows, quick to notice what is new."""
    found: dict[str, object] = {
        "clusters": ", ".join(flow.source_alias for flow in flows),
        "topics": TOPIC,
        "groups": GROUP,
        "sync.group.offsets.enabled": "true",
        # No broker here has an authorizer.
        "sync.topic.acls.enabled": "false",
        "offset.lag.max": 0,
        "offset.flush.interval.ms": 1000,
        "scheduled.rebalance.max.delay.ms": 0,
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 500,
        "plugin.discovery": "service_load",
        "replication.factor": 1,
    }
    for name in ("checkpoints.topic", "heartbeats.topic", "offset-syncs.topic", "offset.storage", "status.storage", "config.storage"):
        found[f"{name}.replication.factor"] = 1
    for name in ("refresh.topics", "refresh.groups", "sync.group.offsets", "sync.topic.configs", "emit.checkpoints", "emit.heartbeats"):
        found[f"{name}.interval.seconds"] = 1
    if exactly_once:
        found |= {"dedicated.mode.enable.internal.rest": "true", "listeners": f"http://127.0.0.1:{free_port()}"}
    for flow in flows:
        found |= {
            f"{flow.source_alias}.bootstrap.servers": f"127.0.0.1:{flow.source.port}",
            f"{flow.target_alias}.producer.max.request.size": REQUEST_BYTES,
            f"{flow.source_alias}->{flow.target_alias}.enabled": "true",
        }
        if exactly_once:
            found[f"{flow.target_alias}.exactly.once.source.support"] = "enabled"
    return found


def tool(name: str, port: int, *arguments: str) -> list[str]:
    """Runs a stock tool, which must end well, and returns what it prints."""
    head, *lines = run_step(Step(name, name, arguments), port, jvm.class_path()).splitlines()
    expect(head == "exit code 0", f"{name}: {head}: {lines[-5:]}")
    return lines


def partitions(found: list[Found]) -> dict[int, list[Found]]:
    by_partition = defaultdict(list)
    for one in found:
        by_partition[one.partition].append(one)
    return by_partition


def later(seed: str) -> list[Record]:
    """What is written when everything else has been read."""
    return [Record(-1, b"k", f"{seed} {number}".encode()) for number in range(LATER)]


class Mirror:
    """A flow while it is examined."""

    def __init__(self, context: Context, process: Process, flow: Flow, folder: pathlib.Path) -> None:
        self.context, self.process, self.flow, self.folder = context, process, flow, folder

    def prepare(self) -> None:
        """The source's topic, which does not begin at its first offset."""
        with Wire(self.flow.source.port) as wire:
            wire.create_topic(TOPIC, PARTITIONS, {**TOPIC_CONFIG, "segment.bytes": str(3 << 20)})
        self.write("first", lambda client, seed: corpus.writable(seed, client.cannot_write))
        plan = self.folder / f"{self.flow.source_alias}-removed.json"
        removed = [{"topic": TOPIC, "partition": index, "offset": REMOVED} for index in range(PARTITIONS)]
        plan.write_text(json.dumps({"partitions": removed, "version": 1}))
        tool("kafka-delete-records", self.flow.source.port, "--offset-json-file", str(plan))

    def write(self, label: str, made) -> None:
        writer = self.context.timestamp_writer()
        with self.context.agent(writer, self.flow.source) as agent:
            for partition in range(PARTITIONS):
                file = self.folder / f"{self.flow.source_alias}-{label}-{partition}.sent"
                records.write(str(file), made(writer, f"{label} {partition}"))
                agent.call("produce", topic=TOPIC, partition=partition, file=str(file), codec=CODECS[partition], acks="all")

    def write_later(self) -> None:
        self.write("later", lambda _, seed: later(seed))

    def mirrored(self) -> dict[int, list[tuple[Found, Found]]]:
        """Waits until everything is on the other side; the same records, partition by partition, with their offsets here and there."""
        port, target = self.flow.source.port, self.flow.target.port
        here = partitions(dump(port, TOPIC)[TOPIC])
        there: dict[int, list[Found]] = {}

        def all_there() -> bool:
            nonlocal there
            with Wire(target) as wire:
                if wire.topics([self.flow.remote]).get(self.flow.remote) != PARTITIONS:
                    return False
                if any(wire.end_offset(self.flow.remote, index) < len(here[index]) for index in here):
                    return False
            there = partitions(dump(target, self.flow.remote)[self.flow.remote])
            return all(len(there[index]) >= len(here[index]) for index in here)

        self.process.until(f"{self.flow.name} has everything", all_there)
        for index, records_here in here.items():
            same = [one.record for one in records_here] == [one.record for one in there[index]]
            expect(same, f"{self.flow.name}: partition {index} differs, {len(records_here)} records here and {len(there[index])} there")
        return {index: list(zip(here[index], there[index])) for index in here}

    def consume(self, broker: Broker, topic: str, count: int) -> list[str]:
        """So many records, by a member of the group, which then commits."""
        arguments = ("--topic", topic, "--group", GROUP, "--from-beginning", "--max-messages", str(count))
        lines = tool("kafka-console-consumer", broker.port, *arguments)
        return [line for line in lines if line != f"Processed a total of {count} messages"]

    def committed(self, broker: Broker, topic: str) -> list[int | None]:
        with Wire(broker.port) as wire:
            return wire.committed(GROUP, topic, PARTITIONS)

    def translated(self, pairs: dict[int, list[tuple[Found, Found]]]) -> list[int]:
        """The group has read everything here; waits until it has done so there."""
        self.consume(self.flow.source, TOPIC, sum(map(len, pairs.values())))
        here = self.committed(self.flow.source, TOPIC)
        ends = [pairs[index][-1][0].offset + 1 for index in range(PARTITIONS)]
        expect(here == ends, f"{self.flow.name}: the group has committed {here}, not {ends}")
        wanted = [pairs[index][-1][1].offset + 1 for index in range(PARTITIONS)]
        expect(wanted != ends, f"{self.flow.name}: offsets are the same on both sides, which proves nothing")
        self.process.until(
            f"{self.flow.name}: {here} is translated to {wanted}", lambda: self.committed(self.flow.target, self.flow.remote) == wanted
        )
        return wanted

    def goes_on(self) -> None:
        """The group, on the other side, reads what came later and nothing else."""
        found = self.consume(self.flow.target, self.flow.remote, PARTITIONS * LATER)
        wanted = sorted(record.value.decode() for partition in range(PARTITIONS) for record in later(f"later {partition}"))
        expect(sorted(found) == wanted, f"{self.flow.name}: the group went on with {found}")

    def topics(self) -> None:
        """What MirrorMaker keeps on either side is there and used, and the topic has its settings."""
        flow = self.flow
        with Wire(flow.source.port) as here, Wire(flow.target.port) as there:
            for wire, topic in (
                (here, f"mm2-offset-syncs.{flow.target_alias}.internal"),
                (there, f"{flow.source_alias}.checkpoints.internal"),
                (there, "heartbeats"),
                (there, f"{flow.source_alias}.heartbeats"),
            ):
                self.process.until(f"{flow.name}: {topic} is used", lambda: topic in wire.topics() and wire.end_offset(topic) > 0)
            for kind in ("configs", "offsets", "status"):
                topic = f"mm2-{kind}.{flow.source_alias}.internal"
                policy = there.topic_configs(topic)["cleanup.policy"]
                expect(policy == "compact", f"{flow.name}: {topic} is cleaned by {policy}")
            source, target = here.topic_configs(TOPIC), there.topic_configs(flow.remote)
            for key in (*TOPIC_CONFIG, "segment.bytes"):
                expect(target[key] == source[key], f"{flow.name}: {key} is {target[key]}, not {source[key]}")


def both(context: Context, exactly_once: bool) -> str:
    """Both directions from the first record on; with exactly-once support MirrorMaker is killed in between."""
    folder = context.folder / ("mirror-exactly-once" if exactly_once else "mirror")
    with context.another_broker(f"{folder.name}/tested", OVERRIDES) as tested, Broker("kafka", folder / "kafka", OVERRIDES) as kafka:
        flows = [
            Flow(f"{context.kind} to kafka", tested, kafka, "tested", "kafka"),
            Flow(f"kafka to {context.kind}", kafka, tested, "kafka", "tested"),
        ]
        process = Process(MIRROR, "mirror-maker", folder, settings(flows, exactly_once))
        mirrors = [Mirror(context, process, flow, folder) for flow in flows]
        context.each(Mirror.prepare, mirrors)
        process.start()
        try:
            offsets = context.each(lambda mirror: mirror.translated(mirror.mirrored()), mirrors)
            context.each(Mirror.topics, mirrors)
            context.each(Mirror.write_later, mirrors)
            if exactly_once:
                process.kill()
                process.start()
            context.each(Mirror.mirrored, mirrors)
            context.each(Mirror.goes_on, mirrors)
        finally:
            process.stop()
    return f"groups at {', '.join(f'{flow.remote} {found}' for flow, found in zip(flows, offsets))}"


def run(context: Context) -> None:
    context.report.check("mirror: there and back", lambda: both(context, exactly_once=False))
    if context.full:
        context.report.check("mirror: there and back, exactly once", lambda: both(context, exactly_once=True))
