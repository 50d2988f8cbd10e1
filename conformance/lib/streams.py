"""The Kafka Streams application of streams/Streams.java: how it is run, and what its output must be."""

import collections
import pathlib
import subprocess
import time

from lib import jvm
from lib.dump import Found, dump
from lib.wire import Wire

SOURCE = jvm.LIB.parent / "streams" / "Streams.java"
APPLICATION = "kaas-streams"
PARTITIONS = 4
INPUTS, INTERMEDIATE, OUTPUTS = ("lines", "users", "clicks"), ("seen",), ("word-counts", "joined", "windowed")
# What Streams.java writes and computes with.
USERS, WINDOW_MS, EPOCH_MS, STEP_MS = 20, 10_000, 1_700_000_000_000, 7
SETTLE_S = 180

# The values of each key, in order, by topic.
Output = dict[str, dict[str, list[str]]]


class Application:
    """The application and what feeds it, on the broker of a port."""

    def __init__(self, folder: pathlib.Path, port: int) -> None:
        self.folder, self.port = folder, port
        folder.mkdir(parents=True, exist_ok=True)
        classes = folder / "classes"
        subprocess.run(["javac", "-nowarn", "-cp", jvm.class_path(), "-d", classes, SOURCE], check=True)
        self._class_path = f"{classes}:{jvm.class_path()}"

    def _command(self, verb: str, *words: str) -> list[str]:
        return jvm.command("Streams", self._class_path, [verb, f"127.0.0.1:{self.port}", *words])

    def create_topics(self) -> None:
        """The topics that are not the application's own."""
        with Wire(self.port) as wire:
            for topic in INPUTS + INTERMEDIATE + OUTPUTS:
                wire.create_topic(topic, PARTITIONS, {"retention.ms": "-1"})

    def state(self, name: str) -> pathlib.Path:
        """Where an instance keeps its stores."""
        return self.folder / f"state-{name}"

    def instance(self, name: str, static: bool) -> subprocess.Popen:
        """Starts an instance, as a static member of its group or not; SIGTERM closes it."""
        identity = [f"instance-{name}"] if static else []
        with open(self.folder / f"instance-{name}.log", "ab") as log:
            return subprocess.Popen(
                self._command("app", str(self.state(name)), *identity), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def feeder(self, per_second: int, count: int | None = None) -> subprocess.Popen:
        """Starts to write input, until a line comes in or so many records are written; the table is complete when this returns."""
        limit = [] if count is None else [str(count)]
        with open(self.folder / "feed.log", "ab") as log:
            feeder = subprocess.Popen(
                self._command("feed", str(per_second), *limit),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            )
        feeder.stdout.readline()
        return feeder

    def verdict(self, expected: Output) -> list[str]:
        """Waits until every input record has its output, and says what is wrong with it."""
        deadline = time.monotonic() + SETTLE_S
        while True:
            found = dump(self.port, *OUTPUTS)
            missing = {topic: sum(map(len, expected[topic].values())) - len(found[topic]) for topic in OUTPUTS}
            if all(left <= 0 for left in missing.values()) or time.monotonic() > deadline:
                break
            time.sleep(2)
        return [wrong for topic in OUTPUTS for wrong in compare(topic, expected[topic], found[topic])]


def expectation(count: int) -> Output:
    """What comes out when so many records went in."""
    words: collections.Counter = collections.Counter()
    joined, windows = collections.defaultdict(list), collections.Counter()
    for i in range(count):
        words.update(("w%d" % (i % 7), "w%d" % (i % 11), "x%d" % (i % 101)))
        user = "user-%d" % (i % USERS)
        joined[user].append("name-%d:%d" % (i % USERS, i))
        time_ms = EPOCH_MS + i * STEP_MS
        windows[f"{user}@{time_ms - time_ms % WINDOW_MS}"] += 1
    up_to = lambda counter: {key: [str(n) for n in range(1, total + 1)] for key, total in counter.items()}
    return {"word-counts": up_to(words), "joined": joined, "windowed": up_to(windows)}


def compare(topic: str, expected: dict[str, list[str]], found: list[Found]) -> list[str]:
    """What is wrong with a topic, a line a key."""
    by_key = collections.defaultdict(list)
    for one in found:
        by_key[one.record.key.decode()].append(one.record.value.decode())
    wrong = [f"{topic}: unexpected key {key}" for key in by_key.keys() - expected.keys()]
    for key, values in expected.items():
        if by_key[key] != values:
            at = next((i for i, pair in enumerate(zip(by_key[key], values)) if pair[0] != pair[1]), min(len(by_key[key]), len(values)))
            wrong.append(
                f"{topic}: {key} has {len(by_key[key])} values instead of {len(values)}, and differs from its {at}th on: "
                f"{by_key[key][at : at + 3]} instead of {values[at : at + 3]}"
            )
    return wrong
