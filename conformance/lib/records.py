"""The record file: what a client program is given to produce, and what it writes when it consumes.

One record a line, fields separated by tabs: timestamp in milliseconds, key, value, then name and value
of each header. A key or a value is `-` when it is null and otherwise `+` and its base64, so that an empty
value (`+`) and a null one differ. What goes in and what comes out have the same form, so two files are the
same exactly when the records are.
"""

import base64
from dataclasses import dataclass
from typing import Iterable, Iterator


@dataclass(frozen=True, slots=True)
class Record:
    """One record as a client sees it; a missing timestamp (-1) means that the producer chose none."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def field(data: bytes | None) -> str:
    """A nullable byte string as a field of the file."""
    return "-" if data is None else "+" + base64.b64encode(data).decode()


def parse_field(text: str) -> bytes | None:
    """The inverse of `field`."""
    return None if text == "-" else base64.b64decode(text[1:])


def line(record: Record) -> str:
    """The line of one record, without its newline."""
    fields = [str(record.timestamp), field(record.key), field(record.value)]
    for name, value in record.headers:
        fields += [field(name.encode()), field(value)]
    return "\t".join(fields)


def parse_line(text: str) -> Record:
    """The inverse of `line`."""
    fields = text.rstrip("\n").split("\t")
    headers = tuple(
        (parse_field(fields[i]).decode(), parse_field(fields[i + 1])) for i in range(3, len(fields), 2)
    )
    return Record(int(fields[0]), parse_field(fields[1]), parse_field(fields[2]), headers)


def write(path: str, records: Iterable[Record]) -> int:
    """Writes a record file and returns how many records it holds."""
    count = 0
    with open(path, "w", encoding="ascii", newline="\n") as out:
        for record in records:
            out.write(line(record) + "\n")
            count += 1
    return count


def read(path: str) -> Iterator[Record]:
    """Reads a record file, one record at a time."""
    with open(path, encoding="ascii", newline="\n") as lines:
        for text in lines:
            yield parse_line(text)
