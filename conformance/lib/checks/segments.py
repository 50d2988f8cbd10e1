"""Segment files, exchanged: Kafka's kafka-dump-log reads what kaas wrote, and `kaas inspect` what Kafka wrote."""

import json
import pathlib
import re
import shutil
import subprocess

from lib import jvm
from lib.broker import Broker, REPOSITORY, kaas_binary
from lib.context import Context
from lib.report import expect
from lib.wire import Wire

TIMEOUT_S = 300
# The name under which Kafka knows a segment; it reads the first offset out of it.
KAFKA_NAME = "00000000000000000000.log"
# The same facts in the words of the two programs.
FACTS = {
    "baseOffset": "base_offset", "lastOffset": "last_offset", "count": "count", "baseSequence": "base_sequence",
    "producerId": "producer_id", "producerEpoch": "producer_epoch", "partitionLeaderEpoch": "leader_epoch",
    "isTransactional": "transactional", "isControl": "control", "position": "position", "size": "size",
    "compresscodec": "codec", "crc": "crc",
}
FIELD = re.compile(r"(\w+): (\S+)")


def dumped(segment: pathlib.Path) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """The batches and the records that kafka-dump-log finds, all of them valid."""
    arguments = ["--deep-iteration", "--print-data-log", "--files", str(segment)]
    command = jvm.tool("kafka-dump-log", jvm.class_path(), arguments)
    text = subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT_S).stdout
    lines = text.splitlines()
    batches = [dict(FIELD.findall(line)) for line in lines if line.startswith("baseOffset: ")]
    expect(bool(batches), f"kafka-dump-log finds no batch:\n{text}")
    for batch in batches:
        expect(batch["isvalid"] == "true" and batch["magic"] == "2", f"kafka-dump-log does not like {batch}")
    return batches, [dict(FIELD.findall(line)) for line in lines if line.startswith("| offset: ")]


def inspected(segment: pathlib.Path) -> list[dict]:
    """The batches that `kaas inspect` finds."""
    command = [kaas_binary(), "inspect", "--json", str(segment)]
    text = subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT_S).stdout
    return [json.loads(line) for line in text.splitlines()]


def agree(segment: pathlib.Path) -> str:
    """Both programs say the same of every batch, and see the same records."""
    batches, records = dumped(segment)
    theirs = [{ours: batch[name] for name, ours in FACTS.items()} for batch in batches]
    ours = [{name: str(batch[name]).lower() for name in FACTS.values()} for batch in inspected(segment)]
    expect(theirs == ours, f"kafka-dump-log: {theirs}\nkaas inspect: {ours}")
    expect(len(records) == sum(batch["last_offset"] - batch["base_offset"] + 1 for batch in inspected(segment)),
           f"{len(records)} records in {len(batches)} batches")
    text = subprocess.run([kaas_binary(), "inspect", str(segment)], check=True, capture_output=True, text=True).stdout
    shown = [int(offset) for offset in re.findall(r"^  offset (\d+) ", text, re.M)]
    data = [int(record["offset"]) for record in records if "endTxnMarker" not in record]
    expect(shown == data, f"kaas inspect shows offsets {shown}, kafka-dump-log {data}")
    return f"{len(batches)} batches, {len(records)} records"


def written_by_kaas(context: Context) -> None:
    """Every kind of batch in every codec, control records included, copied under Kafka's name."""
    volume = context.folder / "segments-kaas"
    command = ["cargo", "run", "--release", "-q", "-p", "kaas-core", "--example", "segments", "--", str(volume)]
    subprocess.run(command, cwd=REPOSITORY, check=True, timeout=TIMEOUT_S)
    for source in sorted(volume.glob("topics/*/0/*.log")):
        codec = source.parents[1].name.split("~")[0]
        copy = context.folder / f"segments-{codec}" / KAFKA_NAME
        copy.parent.mkdir()
        shutil.copy(source, copy)

        def check() -> str:
            detail = agree(copy)
            batches, records = dumped(copy)
            codecs = {batch["compresscodec"] for batch in batches if batch["isControl"] == "false"}
            expect(codecs == {codec}, f"codecs {codecs}")
            producers = {int(batch["producerId"]) for batch in batches}
            expect(producers == {-1, 4000, 5000, 5001}, f"producers {producers}")
            markers = [(r["endTxnMarker"], r["coordinatorEpoch"]) for r in records if "endTxnMarker" in r]
            expect(markers == [("COMMIT", "9"), ("ABORT", "9")], f"markers {markers}")
            return detail

        context.report.check(f"segments: kafka-dump-log reads what kaas wrote, {codec}", check)


def written_by_kafka(context: Context) -> None:
    """A transactional producer's segments in each codec, read where Kafka left them."""
    folder = context.folder / "segments-kafka"
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    with Broker("kafka", folder) as broker:
        for codec in codecs:
            with Wire(broker.port) as wire:
                wire.create_topic(codec, 1)
            arguments = [
                "--topic", codec, "--num-records", "2000", "--record-size", "80", "--throughput", "-1",
                "--transactional-id", codec, "--transaction-duration-ms", "50",
                "--producer-props", f"bootstrap.servers=127.0.0.1:{broker.port}", f"compression.type={codec}",
            ]
            command = jvm.tool("kafka-producer-perf-test", jvm.class_path(), arguments)
            subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT_S)
    for codec in codecs:
        segment = folder / "data" / f"{codec}-0" / KAFKA_NAME

        def check() -> str:
            detail = agree(segment)
            expect(any(batch["control"] for batch in inspected(segment)), "no marker")
            return detail

        context.report.check(f"segments: kaas inspect reads what Kafka wrote, {codec}", check)


def run(context: Context) -> None:
    """Both ways, whichever broker is under test."""
    written_by_kaas(context)
    written_by_kafka(context)
