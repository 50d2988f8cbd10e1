"""The output of Kafka's stock tools, compared with what they print against Apache Kafka 3.7.2."""

import difflib
import json
import pathlib
import re
import subprocess
from dataclasses import dataclass

from lib import jvm
from lib.context import Context
from lib.report import expect

EXPECTED = pathlib.Path(__file__).resolve().parents[2] / "expected"
DIFFERENCES = EXPECTED / "differences.json"
TOOL_TIMEOUT_S = 90

# What differs between any two runs, and what it becomes. The order counts.
VARIABLE = [
    (re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+\] ", re.M), ""),  # time of a log line
    (re.compile(r"127\.0\.0\.1:\d+ \(id: \d+ rack: null\)"), "BROKER"),
    (re.compile(r"127\.0\.0\.1:\d+"), "HOST:PORT"),
    (re.compile(r"TopicId: [\w-]{22}"), "TopicId: ID"),
    (re.compile(r"\b(Leader|Replicas|Isr): \d+"), r"\1: N"),
    (re.compile(r"CreateTime:\d+"), "CreateTime:T"),
    (re.compile(r'"timestamp":\d+'), '"timestamp":T'),
    # A stack trace says where the tool was, not what the broker answered.
    (re.compile(r"^\s+at .*\n|^\s+\.\.\. \d+ more\n", re.M), ""),
]
RATES = [(re.compile(r"\b\d+\.\d+\b"), "X"), (re.compile(r"\b\d+ ms\b"), "X ms")]
WITH_RATES = {"kafka-producer-perf-test", "kafka-verifiable-producer"}


@dataclass(frozen=True)
class Step:
    """One run of a tool; `{broker}` in an argument is the broker's id."""

    name: str
    tool: str
    arguments: tuple[str, ...]
    data: bytes | None = None
    # Keeps of the output only what these match; everything when there are none.
    only: tuple[str, ...] = ()


def topics(name: str, *arguments: str) -> Step:
    return Step(name, "kafka-topics", arguments)


LINES = b"k1\tone\nk2\ttwo\nk1\tthree\nk3\t\n"
KEYED = ("--property", "parse.key=true")
PRINT_ALL = tuple(
    part for name in ("timestamp", "offset", "partition", "headers", "key") for part in ("--property", f"print.{name}=true")
)
# The APIs that this broker serves; others it does not announce, and their lines are not compared.
SERVED = (
    "ApiVersions", "Metadata", "Produce", "Fetch", "ListOffsets", "CreateTopics", "DeleteTopics", "DescribeConfigs",
    "DescribeCluster", "InitProducerId", "OffsetForLeaderEpoch", "OffsetCommit", "OffsetFetch", "FindCoordinator", "JoinGroup",
    "Heartbeat", "LeaveGroup", "SyncGroup", "DescribeGroups", "ListGroups", "DeleteGroups", "OffsetDelete", "AddPartitionsToTxn",
    "AddOffsetsToTxn", "EndTxn", "WriteTxnMarkers", "TxnOffsetCommit", "DescribeProducers", "DescribeTransactions", "ListTransactions",
)

STEPS = [
    topics("topics-list-empty", "--list"),
    topics("topics-create", "--create", "--topic", "stock", "--partitions", "3", "--config", "retention.ms=86400000"),
    topics("topics-create-again", "--create", "--topic", "stock"),
    topics("topics-create-if-not-exists", "--create", "--topic", "stock", "--if-not-exists"),
    topics("topics-create-bad-name", "--create", "--topic", "not/a/name"),
    topics("topics-create-unknown-config", "--create", "--topic", "other", "--config", "no.such.key=1"),
    topics("topics-create-bad-config", "--create", "--topic", "other", "--config", "retention.ms=soon"),
    topics("topics-create-no-partitions", "--create", "--topic", "other", "--partitions", "0"),
    topics("topics-create-lines", "--create", "--topic", "lines"),
    topics("topics-list", "--list"),
    topics("topics-describe", "--describe", "--topic", "stock"),
    topics("topics-describe-missing", "--describe", "--topic", "missing"),
    Step("configs-topic", "kafka-configs", ("--describe", "--entity-type", "topics", "--entity-name", "stock")),
    Step("configs-topic-missing", "kafka-configs", ("--describe", "--entity-type", "topics", "--entity-name", "missing")),
    Step("configs-topic-all", "kafka-configs", ("--describe", "--entity-type", "topics", "--entity-name", "stock", "--all")),
    Step("console-producer", "kafka-console-producer", ("--topic", "lines", *KEYED), LINES),
    Step("console-producer-gzip", "kafka-console-producer", ("--topic", "lines", "--compression-codec", "gzip", *KEYED), LINES),
    Step("console-consumer", "kafka-console-consumer",
         ("--topic", "lines", "--partition", "0", "--offset", "earliest", "--max-messages", "8")),
    Step("console-consumer-all", "kafka-console-consumer",
         ("--topic", "lines", "--partition", "0", "--offset", "2", "--max-messages", "4", *PRINT_ALL)),
    Step("get-offsets", "kafka-get-offsets", ("--topic", "lines")),
    Step("get-offsets-earliest", "kafka-get-offsets", ("--topic", "lines", "--time", "earliest")),
    Step("get-offsets-max-timestamp", "kafka-get-offsets", ("--topic", "stock", "--time", "max-timestamp")),
    Step("get-offsets-future", "kafka-get-offsets", ("--topic", "lines", "--time", "99999999999999")),
    Step("get-offsets-all-topics", "kafka-get-offsets", ()),
    Step("producer-perf-test", "kafka-producer-perf-test",
         ("--topic", "stock", "--num-records", "1000", "--record-size", "100", "--throughput", "-1",
          "--producer-props", "bootstrap.servers={bootstrap}")),
    Step("verifiable-producer", "kafka-verifiable-producer", ("--topic", "lines", "--max-messages", "10", "--acks", "-1")),
    Step("broker-api-versions", "kafka-broker-api-versions", (), only=tuple(rf"^\t{api}\(\d+\): .*" for api in SERVED)),
    topics("topics-delete", "--delete", "--topic", "stock"),
    topics("topics-delete-again", "--delete", "--topic", "stock"),
    topics("topics-list-after", "--list"),
]


def run_step(step: Step, port: int, class_path: str) -> str:
    """Exit code, output and errors of a tool, in that order."""
    bootstrap = f"127.0.0.1:{port}"
    arguments = [part.format(bootstrap=bootstrap) for part in step.arguments]
    if step.tool != "kafka-producer-perf-test":
        arguments = ["--bootstrap-server", bootstrap, *arguments]
    done = subprocess.run(
        jvm.tool(step.tool, class_path, arguments),
        input=step.data or b"", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TOOL_TIMEOUT_S,
    )
    return f"exit code {done.returncode}\n{done.stdout.decode(errors='replace')}"


def normalised(step: Step, output: str) -> str:
    """The output without what differs between two runs."""
    for pattern, replacement in VARIABLE + (RATES if step.tool in WITH_RATES else []):
        output = pattern.sub(replacement, output)
    if step.only:
        first, _, rest = output.partition("\n")
        kept = [line for line in rest.splitlines() if any(re.match(pattern, line) for pattern in step.only)]
        output = "\n".join([first, *sorted(kept)]) + "\n"
    return output


def recorded(step: Step, kind: str) -> str:
    """What Kafka printed; for kaas with the known differences, each of which has its reason beside it."""
    wanted = (EXPECTED / f"{step.name}.txt").read_text()
    if kind == "kaas":
        for difference in json.loads(DIFFERENCES.read_text()):
            if difference["step"] == step.name:
                expect(difference["kafka"] in wanted, f"a known difference is no more: {difference['kafka']!r}")
                wanted = wanted.replace(difference["kafka"], difference["kaas"])
    return wanted


def compare(step: Step, output: str, kind: str) -> None:
    """Fails with the lines that differ from the recorded ones."""
    wanted = recorded(step, kind)
    if output != wanted:
        lines = difflib.unified_diff(wanted.splitlines(), output.splitlines(), "kafka", "this broker", lineterm="", n=0)
        raise AssertionError("\n        ".join(["the output differs", *list(lines)[2:]]))


def run(context: Context) -> None:
    """All tools in turn on a broker of their own, so that what they list is known."""
    class_path = jvm.class_path()
    EXPECTED.mkdir(exist_ok=True)
    with context.another_broker("stock") as broker:
        for step in STEPS:
            def work() -> None:
                output = normalised(step, run_step(step, broker.port, class_path))
                if context.record:
                    (EXPECTED / f"{step.name}.txt").write_text(output)
                compare(step, output, context.kind)

            context.report.check(f"stock: {step.name}", work)
