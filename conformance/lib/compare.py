"""Whether what came out is what went in."""

import itertools
from dataclasses import replace
from typing import Iterable

from lib.records import Record

SHOWN_BYTES = 40


def grouped(record: Record) -> Record:
    """The record with its headers grouped by name, in the order in which the names appear."""
    names = list(dict.fromkeys(name for name, _ in record.headers))
    headers = tuple(pair for name in names for pair in record.headers if pair[0] == name)
    return replace(record, headers=headers)


def shown(record: Record | None) -> str:
    """A record for a failure line, cut short."""
    if record is None:
        return "nothing"

    def part(data: bytes | None) -> str:
        if data is None:
            return "null"
        return repr(data) if len(data) <= SHOWN_BYTES else f"{data[:SHOWN_BYTES]!r}... ({len(data)} bytes)"

    headers = ", ".join(f"{name}={part(value)}" for name, value in record.headers[:4])
    return f"[{record.timestamp} {part(record.key)} {part(record.value)} {{{headers}}}]"


def difference(
    sent: Iterable[Record], received: Iterable[Record], groups_headers: bool = False
) -> str | None:
    """The first difference in words, or None. A sent record without a timestamp may have any above zero."""
    for index, (left, right) in enumerate(itertools.zip_longest(sent, received)):
        if left is not None and right is not None:
            if groups_headers:
                left, right = grouped(left), grouped(right)
            if left.timestamp < 0 < right.timestamp:
                left = replace(left, timestamp=right.timestamp)
        if left != right:
            return f"record {index}: sent {shown(left)}, received {shown(right)}"
    return None
