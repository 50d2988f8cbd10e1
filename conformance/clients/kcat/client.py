"""kcat as a client program: every command is one or a few runs of the kcat binary."""

import itertools
import json
import pathlib
import re
import subprocess
import sys
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from lib import member, program, records

BOOTSTRAP = sys.argv[1]
MESSAGE_BYTES_MAX = 8 << 20
# What separates messages, and a key from its value, on kcat's input: drawn afresh, so it is not in the data.
MESSAGE_END = uuid.uuid4().hex.encode()
KEY_END = uuid.uuid4().hex.encode()


def kcat(*arguments: str, data: bytes | None = None, timeout_s: float = 120) -> bytes:
    """Runs kcat and returns its output; its complaint becomes the error."""
    done = subprocess.run(
        ["kcat", "-b", BOOTSTRAP, *arguments], input=data, capture_output=True, timeout=timeout_s
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr.decode(errors="replace").strip()[-400:])
    return done.stdout


def old(command: dict) -> list[str]:
    """The settings that make librdkafka speak to an old broker."""
    if "api" not in command:
        return []
    return ["-X", "api.version.request=false", "-X", f"broker.version.fallback={command['api']}"]


def shape(record: records.Record) -> tuple:
    """What one run of kcat has in common: its headers, and whether an empty part means null (`-Z`)."""
    return record.headers, record.value is None


def piece(record: records.Record) -> bytes:
    """A record on kcat's input: without the key's end there is no key."""
    key = b"" if record.key is None else record.key + KEY_END
    return key + (record.value or b"")


def header_arguments(record: records.Record) -> list[bytes]:
    """`-H name=value`; without the equals sign kcat sends a null value."""
    pairs = ((name.encode(), value) for name, value in record.headers)
    return [part for name, value in pairs for part in (b"-H", name if value is None else name + b"=" + value)]


def produce(command: dict) -> dict:
    settings = ["-X", f"message.max.bytes={MESSAGE_BYTES_MAX}", "-X", f"acks={command['acks']}", *old(command)]
    if command.get("idempotent"):
        settings += ["-X", "enable.idempotence=true"]
    count = 0
    for _, group in itertools.groupby(records.read(command["file"]), key=shape):
        batch = list(group)
        # A null key beside a null value needs no key at all on the input, and -Z for the value.
        flags = ["-Z"] if batch[0].value is None else []
        kcat(
            "-P", "-t", command["topic"], "-p", str(command["partition"]), "-z", command["codec"],
            "-D", MESSAGE_END.decode(), "-K", KEY_END.decode(), *settings, *flags,
            *header_arguments(batch[0]),
            data=b"".join(piece(record) + MESSAGE_END for record in batch),
        )
        count += len(batch)
    return {"records": count}


def text(value: str | None) -> bytes | None:
    """kcat copies bytes into its JSON unchecked; read as Latin-1, every character is one byte of them."""
    return None if value is None else value.encode("latin-1")


def parse(line: bytes) -> records.Record:
    message = json.loads(line.decode("latin-1"))
    flat = message.get("headers", [])
    headers = tuple(
        (text(flat[i]).decode(), text(flat[i + 1])) for i in range(0, len(flat), 2)
    )
    # The oldest format has no timestamps, and kcat leaves the field out.
    return records.Record(message.get("ts", -1), text(message["key"]), text(message["payload"]), headers)


def consume(command: dict) -> dict:
    fetch = ["-X", f"fetch.message.max.bytes={command['fetch_bytes']}"] if "fetch_bytes" in command else []
    out = kcat(
        "-C", "-q", "-J", "-t", command["topic"], "-p", str(command["partition"]),
        "-o", "beginning" if command["offset"] == "earliest" else str(command["offset"]), "-c", str(command["count"]),
        *fetch, *old(command),
        timeout_s=command["timeout_ms"] / 1000,
    )
    lines = out.split(b"\n")[:-1]
    return {"records": records.write(command["file"], (parse(line) for line in lines))}


def query(topic: str, partition: int, timestamp: int) -> int:
    out = kcat("-Q", "-t", f"{topic}:{partition}:{timestamp}").decode()
    return int(out.rsplit("offset", 1)[1])


def watermarks(command: dict) -> dict:
    return {key: query(command["topic"], command["partition"], at) for key, at in (("low", -2), ("high", -1))}


def times(command: dict) -> dict:
    found = [query(command["topic"], command["partition"], at) for at in command["timestamps"]]
    return {"offsets": [None if offset < 0 else offset for offset in found]}


def topics(_: dict) -> dict:
    listed = json.loads(kcat("-L", "-J"))
    return {"topics": {topic["topic"]: len(topic["partitions"]) for topic in listed["topics"]}}


def received(line: bytes) -> tuple[int, int]:
    message = json.loads(line.decode("latin-1"))
    return message["partition"], message["offset"]


def assignment(line: str) -> list[int] | None:
    if "rebalanced" not in line:
        return None
    return [int(index) for index in re.findall(r"\[(\d+)\]", line)] if "assigned:" in line else []


def start(command: dict) -> member.Member:
    """A balanced consumer, which may begin at an offset of its own."""
    settings = member.settings(command, "topic.metadata.refresh.interval.ms")
    options = [part for name, value in settings.items() for part in ("-X", f"{name}={value}")]
    if "offset" in command:
        options += ["-o", str(command["offset"])]
    return member.Member(["kcat", "-b", BOOTSTRAP, *options, "-J", "-u", "-G", command["group"], command["topic"]], received, assignment)


program.serve(
    {
        "produce": produce, "consume": consume, "watermarks": watermarks, "times": times, "topics": topics,
        **member.verbs(start),
    }
)
