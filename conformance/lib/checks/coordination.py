"""The stock tools about groups and transactions: what they print against Apache Kafka 3.7.2 is what they print here."""

import re
import subprocess
import time

from lib import batch, jvm
from lib.checks.stock import EXPECTED, Step, compare, normalised, run_step
from lib.context import Context
from lib.wire import Wire

TOPIC, ONE_PARTITION, HANGS = "in", "single", "hangs"
PARTITIONS = 2
LINES = b"".join(b"k%d\tv%d\n" % (i % 5, i) for i in range(12))
PATIENCE_S = 30
# What `--export` prints, and `--from-file` reads.
PLAN = EXPECTED / "reset-plan.csv"
HOUR_MS = 3_600_000
# As an old client's may: nobody asks the coordinator (KIP-890).
OVERRIDES = {"group.initial.rebalance.delay.ms": "0", "transaction.partition.verification.enable": "false"}

# Columns are as wide as what is in them, and what is in them is random.
VARIABLE = [
    (re.compile(r"[ \t]+"), " "),
    (re.compile(r"(console-consumer|consumer-g\d+-\d+)-[0-9a-f-]{36}"), r"\1-UUID"),
    (re.compile(r"\(\d+\) "), "(N) "),
    (re.compile(r"\b1[6-9]\d{11}\b"), "TIME"),
    (re.compile(r"TIME \d+ ?$", re.M), "TIME FOR"),
    # Epochs of coordinators are counted by whoever coordinates.
    (re.compile(r"^(\d+ \d+) \d+ (\d+ TIME)", re.M), r"\1 EPOCH \2"),
    (re.compile(r"\b(AVERAGE|[0-9.]+) (records/sec|MB/sec|ms)"), "X"),
    (re.compile(r"^(-1|\d+)(\s+)(?=\w+-id)", re.M), r"N\2"),
    (re.compile(r" +$", re.M), ""),
]


def groups(name: str, *arguments: str) -> Step:
    return Step(f"groups-{name}", "kafka-consumer-groups", arguments)


def transactions(name: str, *arguments: str) -> Step:
    return Step(f"transactions-{name}", "kafka-transactions", arguments)


def consume(name: str, group: str, count: int, *arguments: str) -> Step:
    return Step(name, "kafka-console-consumer", ("--topic", TOPIC, "--group", group, "--max-messages", str(count), *arguments))


def reset(name: str, *arguments: str) -> Step:
    return groups(f"reset-{name}", "--group", "g1", "--reset-offsets", *arguments)


EMPTY = [
    groups("list-empty", "--list"),
    groups("describe-missing", "--describe", "--group", "missing"),
    consume("groups-console-consumer", "g1", 12, "--from-beginning"),
    groups("list", "--list"),
    groups("list-state", "--list", "--state"),
    groups("list-state-stable", "--list", "--state", "Stable"),
    groups("describe", "--describe", "--group", "g1"),
    groups("describe-members", "--describe", "--group", "g1", "--members"),
    groups("describe-state", "--describe", "--group", "g1", "--state"),
    reset("dry-run", "--topic", TOPIC, "--to-earliest"),
    reset("earliest", "--all-topics", "--to-earliest", "--execute"),
    reset("offset", "--topic", f"{TOPIC}:0", "--to-offset", "2", "--execute"),
    reset("offset-too-high", "--topic", f"{TOPIC}:0", "--to-offset", "200", "--execute"),
    reset("shift", "--topic", TOPIC, "--shift-by", "-1", "--execute"),
    reset("duration", "--topic", TOPIC, "--by-duration", "PT1H", "--execute"),
    reset("datetime", "--topic", TOPIC, "--to-datetime", "2100-01-01T00:00:00.000", "--execute"),
    reset("current", "--topic", TOPIC, "--to-current", "--execute"),
    reset("export", "--topic", TOPIC, "--to-latest", "--dry-run", "--export"),
    reset("latest", "--topic", TOPIC, "--to-latest", "--execute"),
    reset("from-file", "--from-file", str(PLAN), "--dry-run"),
    groups("describe-all", "--describe", "--all-groups"),
    groups("delete-offsets", "--delete-offsets", "--group", "g1", "--topic", f"{TOPIC}:1"),
    groups("describe-after", "--describe", "--group", "g1"),
    groups("delete-offsets-missing", "--delete-offsets", "--group", "missing", "--topic", TOPIC),
    groups("delete", "--delete", "--group", "g1"),
    groups("delete-again", "--delete", "--group", "g1"),
]
# While somebody is a member of g2.
ACTIVE = [
    groups("active-list-state", "--list", "--state"),
    groups("active-describe", "--describe", "--group", "g2"),
    groups("active-members", "--describe", "--group", "g2", "--members", "--verbose"),
    groups("active-state", "--describe", "--group", "g2", "--state"),
    groups("active-reset", "--group", "g2", "--reset-offsets", "--topic", TOPIC, "--to-earliest", "--execute"),
    groups("active-delete", "--delete", "--group", "g2"),
    groups("active-delete-offsets", "--delete-offsets", "--group", "g2", "--topic", TOPIC),
]
TRANSACTIONS = [
    transactions("list-empty", "list"),
    transactions("describe-missing", "describe", "--transactional-id", "missing"),
    Step("transactions-perf-test", "kafka-producer-perf-test",
         ("--topic", ONE_PARTITION, "--num-records", "200", "--record-size", "10", "--throughput", "-1", "--transactional-id", "perf-id",
          "--transaction-duration-ms", "10000", "--producer-props", "bootstrap.servers={bootstrap}"), only=(r"^200 records",)),
    transactions("list", "list"),
    transactions("describe", "describe", "--transactional-id", "perf-id"),
    transactions("describe-producers", "describe-producers", "--topic", ONE_PARTITION, "--partition", "0"),
    transactions("find-hanging", "find-hanging", "--topic", ONE_PARTITION),
    transactions("abort", "abort", "--topic", ONE_PARTITION, "--partition", "0", "--start-offset", "0"),
]
# While the topic has a transaction that no coordinator knows of.
HANGING = [
    transactions("hanging-describe-producers", "describe-producers", "--topic", HANGS, "--partition", "0"),
    transactions("hanging-find", "find-hanging", "--topic", HANGS),
    transactions("hanging-find-on-the-broker", "find-hanging", "--broker-id", "1"),
    transactions("hanging-find-old", "find-hanging", "--topic", HANGS, "--max-transaction-timeout", "1000"),
    transactions("hanging-abort-elsewhere", "abort", "--topic", HANGS, "--partition", "0", "--start-offset", "1"),
    transactions("hanging-abort", "abort", "--topic", HANGS, "--partition", "0", "--start-offset", "0"),
    transactions("hanging-find-none", "find-hanging", "--topic", HANGS),
    transactions("hanging-describe-none", "describe-producers", "--topic", HANGS, "--partition", "0"),
]


def flat(step: Step, output: str) -> str:
    output = normalised(step, output)
    for pattern, replacement in VARIABLE:
        output = pattern.sub(replacement, output)
    head, _, rest = output.partition("\n")
    lines = rest.splitlines()
    # The tool's own hash maps decide the order of partitions and groups.
    return "\n".join([head, *sorted(lines)]) + "\n"


def run(context: Context) -> None:
    """All tools in turn on a broker of their own."""
    class_path = jvm.class_path()

    def check(step: Step) -> None:
        def work() -> None:
            output = flat(step, run_step(step, broker.port, class_path))
            if context.record:
                (EXPECTED / f"{step.name}.txt").write_text(output)
            compare(step, output, context.kind)

        context.report.check(f"coordination: {step.name}", work)

    with context.another_broker("coordination", OVERRIDES) as broker:
        with Wire(broker.port) as wire:
            wire.create_topic(TOPIC, PARTITIONS)
            wire.create_topic(ONE_PARTITION, 1)
        produce = Step("produce", "kafka-console-producer", ("--topic", TOPIC, "--property", "parse.key=true"), LINES)
        run_step(produce, broker.port, class_path)
        for step in EMPTY:
            check(step)
        arguments = ["--bootstrap-server", f"127.0.0.1:{broker.port}", "--topic", TOPIC, "--group", "g2", "--from-beginning"]
        member = subprocess.Popen(
            jvm.tool("kafka-console-consumer", class_path, arguments), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        try:
            # It has everything, and then commits every five seconds.
            for _ in range(12):
                member.stdout.readline()
            wait_committed(broker.port)
            for step in ACTIVE:
                check(step)
        finally:
            member.terminate()
            member.wait()
        for step in TRANSACTIONS:
            check(step)
        with Wire(broker.port) as wire:
            wire.create_topic(HANGS, 1)
            an_hour_ago = int(time.time() * 1000) - HOUR_MS
            wire.produce(HANGS, batch.transactional(producer_id=4242, producer_epoch=0, timestamp_ms=an_hour_ago), "nobody")
        for step in HANGING:
            check(step)


def wait_committed(port: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    with Wire(port) as wire:
        while None in wire.committed("g2", TOPIC, PARTITIONS):
            if time.monotonic() > deadline:
                raise AssertionError("the console consumer commits nothing")
            time.sleep(0.1)
