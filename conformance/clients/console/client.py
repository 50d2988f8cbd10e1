"""The console producer and consumer of Kafka as a client program: every command runs one of the tools, and a member is one."""

import pathlib
import re
import subprocess
import sys
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from lib import jvm, member, program, records

BOOTSTRAP, CLASS_PATH = sys.argv[1], sys.argv[2]
MESSAGE_BYTES_MAX = 8 << 20
# The producer reads lines, so its parts end with characters that text does not hold.
UNIT, GROUP, EQUALS = "\x1f", "\x1d", "\x1e"
# What stands for null, and what the consumer prints between parts: drawn afresh, so it is not in the data.
NULL = uuid.uuid4().hex
KEY_END, HEADER_END, RECORD_END = (uuid.uuid4().hex.encode() for _ in range(3))


def run(name: str, arguments: list[str], data: bytes | None = None, timeout_s: float = 120) -> bytes:
    done = subprocess.run(
        jvm.tool(name, CLASS_PATH, arguments), input=data, capture_output=True, timeout=timeout_s
    )
    if done.returncode != 0 or b"ERROR" in done.stderr:
        raise RuntimeError(done.stderr.decode(errors="replace").strip()[-400:])
    return done.stdout


def part(data: bytes | None) -> bytes:
    return NULL.encode() if data is None else data


def input_line(record: records.Record) -> bytes:
    """headers GROUP key GROUP value, a header being name EQUALS value and UNIT between headers."""
    headers = UNIT.encode().join(
        name.encode() + EQUALS.encode() + value for name, value in record.headers
    )
    if not record.headers:
        headers = NULL.encode()
    return headers + GROUP.encode() + part(record.key) + GROUP.encode() + part(record.value) + b"\n"


def properties(flag: str, values: dict[str, str]) -> list[str]:
    return [part for name, value in values.items() for part in (flag, f"{name}={value}")]


def produce(command: dict) -> dict:
    batch = list(records.read(command["file"]))
    reader = {
        "parse.key": "true", "parse.headers": "true", "key.separator": GROUP, "headers.delimiter": GROUP,
        "headers.separator": UNIT, "headers.key.separator": EQUALS, "null.marker": NULL,
    }
    settings = {
        "acks": command["acks"], "enable.idempotence": str(bool(command.get("idempotent"))).lower(),
        "max.request.size": str(MESSAGE_BYTES_MAX),
    }
    run(
        "kafka-console-producer",
        ["--bootstrap-server", BOOTSTRAP, "--topic", command["topic"], "--compression-codec", command["codec"],
         *properties("--property", reader), *properties("--producer-property", settings)],
        data=b"".join(input_line(record) for record in batch),
    )
    return {"records": len(batch)}


def output_part(data: bytes) -> bytes | None:
    return None if data == NULL.encode() else data


def parse(message: bytes) -> records.Record:
    """CreateTime:T KEY_END headers KEY_END key KEY_END value; a header is name:value."""
    time, headers, key, value = message.split(KEY_END, 3)
    pairs = [] if headers == b"NO_HEADERS" else headers.split(HEADER_END)
    parsed = tuple(
        (name.decode(), output_part(content)) for name, _, content in (pair.partition(b":") for pair in pairs)
    )
    return records.Record(int(time.split(b":")[1]), output_part(key), output_part(value), parsed)


def consume(command: dict) -> dict:
    formatter = {
        "print.timestamp": "true", "print.headers": "true", "print.key": "true", "null.literal": NULL,
        "key.separator": KEY_END.decode(), "headers.separator": HEADER_END.decode(),
        "line.separator": RECORD_END.decode(),
    }
    settings = {}
    if "fetch_bytes" in command:
        settings["max.partition.fetch.bytes"] = str(command["fetch_bytes"])
    out = run(
        "kafka-console-consumer",
        ["--bootstrap-server", BOOTSTRAP, "--topic", command["topic"], "--partition", str(command["partition"]),
         "--offset", str(command["offset"]), "--max-messages", str(command["count"]),
         "--timeout-ms", str(min(command["timeout_ms"], 30_000)),
         *properties("--property", formatter), *properties("--consumer-property", settings)],
        timeout_s=command["timeout_ms"] / 1000,
    )
    messages = out.split(RECORD_END)[:-1]
    return {"records": records.write(command["file"], (parse(message) for message in messages))}


def received(line: bytes) -> tuple[int, int] | None:
    found = re.match(rb"Partition:(\d+)\tOffset:(\d+)\t", line)
    return found and (int(found[1]), int(found[2]))


def assignment(line: str) -> list[int] | None:
    """The consumer's log; its protocol is the eager one, so what is added is all that it has."""
    if "Revoke previously assigned" in line or "Lost previously assigned" in line:
        return []
    if "Adding newly assigned partitions:" not in line:
        return None
    return [int(index) for index in re.findall(r"-(\d+)(?=[, ])", line.split("assigned partitions:")[1])]


def start(command: dict) -> member.Member:
    settings = member.settings(command, "metadata.max.age.ms")
    arguments = [
        "--bootstrap-server", BOOTSTRAP, "--topic", command["topic"], "--group", command["group"],
        *properties("--property", {"print.partition": "true", "print.offset": "true"}),
        *properties("--consumer-property", settings),
    ]
    return member.Member(jvm.tool("kafka-console-consumer", CLASS_PATH, arguments, level="INFO"), received, assignment)


def groups(command: dict, *arguments: str) -> list[list[str]]:
    """The cells of what kafka-consumer-groups prints about one topic of a group."""
    out = run("kafka-consumer-groups", ["--bootstrap-server", BOOTSTRAP, "--group", command["group"], *arguments])
    rows = [line.split() for line in out.decode().splitlines()]
    return [row for row in rows if row[:2] == [command["group"], command["topic"]]]


def committed(command: dict) -> dict:
    """GROUP TOPIC PARTITION CURRENT-OFFSET ...; a partition without an offset has a dash, or no row."""
    found = {int(row[2]): int(row[3]) for row in groups(command, "--describe") if row[3] != "-"}
    return {"offsets": [found.get(partition) for partition in range(command["partitions"])]}


def reset_offsets(command: dict) -> None:
    groups(command, "--topic", command["topic"], "--reset-offsets", "--to-offset", str(command["offset"]), "--execute")


program.serve(
    {"produce": produce, "consume": consume, **member.verbs(start), "committed": committed, "reset_offsets": reset_offsets}
)
