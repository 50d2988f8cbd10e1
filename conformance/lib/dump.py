"""What is in topics, as Kafka's own consumer of committed records finds it."""

import subprocess
from dataclasses import dataclass

from lib import jvm, records
from lib.records import Record


@dataclass(frozen=True, slots=True)
class Found:
    """A record and where it was."""

    partition: int
    offset: int
    record: Record


def dump(port: int, *topics: str) -> dict[str, list[Found]]:
    """Everything that is committed by now, by topic, each partition in the order of its offsets."""
    command = jvm.command(str(jvm.LIB / "Dump.java"), jvm.class_path(), [f"127.0.0.1:{port}", *topics])
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, list[Found]] = {topic: [] for topic in topics}
    for line in out.stdout.splitlines():
        topic, partition, offset, record = line.split("\t", 3)
        found[topic].append(Found(int(partition), int(offset), records.parse_line(record)))
    return found
