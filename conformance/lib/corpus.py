"""The records of the matrix: every shape of key, value, header and timestamp that has ever been mistaken.

Each record has tags that say what a client must be able to express to write it; a client names in its
client.json what it cannot, and is then given the others.
"""

import random
from dataclasses import dataclass, field

from lib.records import Record

MIB = 1 << 20
# Some past Monday: timestamps are data here, so they are fixed.
EPOCH_MS = 1_700_000_000_000
SMALL_RECORDS = 40
WORDS = "the log is a sequence of records and a record is a key a value and what was said about them".split()


@dataclass(frozen=True)
class Case:
    """A record and the tags of what it needs."""

    record: Record
    tags: frozenset[str] = field(default_factory=frozenset)


def _prose(chance: random.Random, size: int) -> bytes:
    """Text without line ends, as compressible as text is."""
    words: list[str] = []
    length = 0
    while length < size:
        word = chance.choice(WORDS) + str(chance.randrange(100))
        words.append(word)
        length += len(word) + 1
    return " ".join(words).encode()[:size]


def cases(seed: str) -> list[Case]:
    """The records for one topic; the seed makes them differ from another topic's."""
    chance = random.Random(seed)
    made: list[Case] = []

    def add(key: bytes | None, value: bytes | None, *tags: str, headers=(), at: int | None = None) -> None:
        timestamp = EPOCH_MS + len(made) * 1000 if at is None else at
        made.append(Case(Record(timestamp, key, value, tuple(headers)), frozenset(tags)))

    add(b"key", f"first of {seed}".encode())
    add(None, b"no key")
    add(b"", b"an empty key")
    add(b"tombstone", None)
    add(b"empty value", b"")
    add(None, b"", "no-key-and-empty-value")
    add(None, None, "null-key-and-value")
    add(b"one header", b"v", headers=[("name", b"value")])
    add(b"same header twice", b"v", headers=[("twice", b"1"), ("twice", b"2")])
    add(b"same header twice, apart", b"v", "headers-apart", headers=[("a", b"1"), ("b", b"2"), ("a", b"3")])
    add(b"empty header", b"v", headers=[("empty", b"")])
    add(b"null header", b"v", "null-header", headers=[("null", None), ("after", b"x")])
    add(b"header and tombstone", None, headers=[("deleted-by", b"nobody")])
    add(b"binary header", b"v", "binary", headers=[("binary", bytes(range(1, 256)))])
    add(b"nul in header", b"v", "binary", "nul-in-header", headers=[("nul", b"a\0b")])
    add("ключ".encode(), "значение, 値, 🗝".encode())
    add(b"unicode header", b"v", "unicode-header", headers=[("имя", "значение".encode())])
    add(bytes(range(256)), bytes(range(256)) * 3, "binary")
    add(b"lines", b"one\ntwo\r\nthree\n", "multi-line", "binary")
    add(b"year 2001", b"old", at=1_000_000_000_000)
    add(b"before the one before", b"older", at=999_999_999_999)
    add(b"first millisecond", b"oldest", at=1)
    add(b"k" * 10_000, b"a long key")
    add(b"many headers", b"v", headers=[(f"h{i:03}", str(i).encode()) for i in range(200)])
    for i in range(SMALL_RECORDS):
        add(f"small {i}".encode(), _prose(chance, chance.randrange(1, 300)))
    add(b"64 KiB of noise", chance.randbytes(64 << 10), "binary")
    add(b"300 KiB of prose", _prose(chance, 300 << 10))
    add(b"1 MiB of prose", _prose(chance, MIB))
    add(b"1 MiB of noise", chance.randbytes(MIB), "binary")
    add(b"last", b"after the large ones")
    return made


def writable(seed: str, cannot_write: list[str]) -> list[Record]:
    """The records that a client is able to write; without control of time they carry no timestamp."""
    lacking = frozenset(cannot_write)
    chosen = [case.record for case in cases(seed) if not case.tags & lacking]
    if "timestamps" in lacking:
        chosen = [Record(-1, record.key, record.value, record.headers) for record in chosen]
    return chosen
