"""Kafka's application reset tool: what it prints is what it prints about Apache Kafka 3.7.2, and the application does everything again."""

import re
import shutil
import subprocess

from lib import jvm, streams
from lib.checks.stock import EXPECTED, Step, compare, normalised, run_step
from lib.context import Context
from lib.report import expect
from lib.wire import Wire

COUNT = 1000
PER_SECOND = 1000
STOP_TIMEOUT_S = 60
TOPICS = ("--input-topics", ",".join(streams.INPUTS), "--intermediate-topics", ",".join(streams.INTERMEDIATE))
DRY = ("--dry-run",)
PLAN = "{folder}/plan.csv"

VARIABLE = [
    (re.compile(r"members: \[.*\]"), "members: [MEMBERS]"),
    # In the order of the tool's hash map, which depends on what other topics there are.
    (re.compile(r"(?<=internal topics )\[(.*)\]"), lambda found: f"[{', '.join(sorted(found[1].split(', ')))}]"),
]


def reset(name: str, *arguments: str) -> Step:
    return Step(f"reset-{name}", "kafka-streams-application-reset", ("--application-id", streams.APPLICATION, *arguments))


ACTIVE = reset("active", *TOPICS)
# The instance has ended, but as a static member it is still there; the tool removes it also when it is to change nothing.
LEFT_OVER = reset("left-over", "--force", *TOPICS, *DRY)
DRY_RUNS = [
    reset("no-topics", *DRY),
    reset("missing-topics", "--input-topics", "lines,none", "--intermediate-topics", "neither", *DRY),
    reset("not-internal", "--internal-topics", "lines", *DRY),
    reset("latest", *TOPICS, "--to-latest", *DRY),
    reset("offset", *TOPICS, "--to-offset", "20", *DRY),
    reset("shift", *TOPICS, "--shift-by", "-3", *DRY),
    reset("datetime", "--input-topics", "lines", "--to-datetime", "2023-11-14T22:13:21.000", *DRY),
    reset("duration", "--input-topics", "lines", "--by-duration", "PT1H", *DRY),
    reset("file", "--input-topics", "lines", "--from-file", PLAN, *DRY),
]
# What nobody has read when the application is reset, and nobody may read afterwards.
IN_BETWEEN = Step(
    "in-between", "kafka-console-producer", ("--topic", *streams.INTERMEDIATE, "--property", "parse.key=true"), b"user-0\tx\nuser-1\ty\n"
)
EXECUTE = reset("execute", *TOPICS)
AGAIN = reset("again", *TOPICS)


class Check:
    """An application that ran once, and the steps from there on."""

    def __init__(self, context: Context, application: streams.Application) -> None:
        self.context, self.application = context, application
        self._class_path = jvm.class_path()

    def tool(self, step: Step) -> None:
        """One run of the tool, and its output."""

        def work() -> None:
            known = Step(step.name, step.tool, tuple(part.format(folder=self.application.folder) for part in step.arguments))
            output = normalised(step, run_step(known, self.application.port, self._class_path))
            for pattern, replacement in VARIABLE:
                output = pattern.sub(replacement, output)
            head, _, rest = output.partition("\n")
            output = "\n".join([head, *sorted(rest.splitlines())]) + "\n"
            if self.context.record:
                (EXPECTED / f"{step.name}.txt").write_text(output)
            compare(step, output, self.context.kind)

        self.context.report.check(f"reset: {step.name.removeprefix('reset-')}", work)

    def output(self, times: int) -> str:
        """Everything is there so many times, in order."""
        once = streams.expectation(COUNT)
        wanted = {topic: {key: values * times for key, values in by_key.items()} for topic, by_key in once.items()}
        wrong = self.application.verdict(wanted)
        expect(not wrong, "; ".join(wrong[:3]))
        return f"{sum(len(values) for by_key in wanted.values() for values in by_key.values())} records"

    def is_reset(self) -> None:
        """The application's own topics are gone; it will read its input from the start, and what it had put in between not again."""
        with Wire(self.application.port) as wire:
            own = [topic for topic in wire.topics() if topic.startswith(f"{streams.APPLICATION}-")]
            expect(not own, f"still there: {own}")
            for topic in streams.INPUTS:
                committed = wire.committed(streams.APPLICATION, topic, streams.PARTITIONS)
                expect(committed == [0] * streams.PARTITIONS, f"{topic}: {committed}")
            for topic in streams.INTERMEDIATE:
                committed = wire.committed(streams.APPLICATION, topic, streams.PARTITIONS)
                ends = [wire.end_offset(topic, partition) for partition in range(streams.PARTITIONS)]
                expect(committed == ends and any(ends), f"{topic}: {committed}, and it ends at {ends}")


def stop(instance: subprocess.Popen) -> None:
    instance.terminate()
    instance.wait(STOP_TIMEOUT_S)


def run(context: Context) -> None:
    """The application runs, is reset, and runs again."""
    with context.another_broker("reset", {"group.initial.rebalance.delay.ms": "0"}) as broker:
        application = streams.Application(context.folder / "reset", broker.port)
        (application.folder / "plan.csv").write_text("".join(f"lines,{index},{index + 1}\n" for index in range(streams.PARTITIONS)))
        application.create_topics()
        application.feeder(PER_SECOND, COUNT).communicate()
        check = Check(context, application)
        instance = application.instance("0", static=True)
        try:
            context.report.check("reset: the application's output", lambda: check.output(1))
            check.tool(ACTIVE)
            stop(instance)
            check.tool(LEFT_OVER)
            context.each(check.tool, DRY_RUNS)
            run_step(IN_BETWEEN, broker.port, jvm.class_path())
            check.tool(EXECUTE)
            context.report.check("reset: topics and offsets", check.is_reset)
            check.tool(AGAIN)
            shutil.rmtree(application.state("0"))
            instance = application.instance("0", static=True)
            context.report.check("reset: everything is done again", lambda: check.output(2))
        finally:
            stop(instance)
