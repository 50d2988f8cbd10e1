"""A large file of real text, made of what lies on the machine.

The sources of this repository come first, then those that come with Python, Go and the system, in the order
of their paths, until the size is reached; on a machine with little text the whole is repeated. Nothing is
invented, and the same machine makes the same file.
"""

import itertools
import pathlib
import sysconfig
from typing import Iterator

from lib.records import Record

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
ROOTS = [
    *(REPOSITORY / name for name in ("schema", "codegen", "kaas-proto", "kaas-core", "kaas-broker", "book", "conformance")),
    pathlib.Path(sysconfig.get_path("stdlib")),
    pathlib.Path("/usr/local/go/src"),
    pathlib.Path("/usr/lib/go"),
    pathlib.Path("/usr/share"),
]
SUFFIXES = {".rs", ".py", ".go", ".md", ".txt", ".json", ".h", ".c", ".pl", ".pm", ".html", ".tex", ".java", ".toml"}
# A record holds whole lines of the text, so many bytes of them or one line more.
RECORD_BYTES = 600
EPOCH_MS = 1_700_000_000_000
# What a text may hold besides its letters, and no other control character.
CONTROL = set(range(32)) - {ord("\t"), ord("\n")}
NOT_TEXT = bytes(CONTROL) + b"\x7f"


def _texts() -> Iterator[bytes]:
    for root in ROOTS:
        for path in sorted(root.rglob("*")):
            if path.suffix in SUFFIXES and path.is_file() and not path.is_symlink():
                data = path.read_bytes()
                if _is_text(data):
                    yield data if data.endswith(b"\n") else data + b"\n"


def _is_text(data: bytes) -> bool:
    """Plain UTF-8 without control characters, as a line-based client can carry it."""
    if not data or data.translate(None, NOT_TEXT) != data:
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def make(size: int) -> bytes:
    """At least `size` bytes of text, ending with a whole line."""
    pieces: list[bytes] = []
    length = 0
    while length < size:
        before = length
        for data in _texts():
            pieces.append(data)
            length += len(data)
            if length >= size:
                break
        if length == before:
            raise RuntimeError("no text on this machine")
    text = b"".join(pieces)
    return text[: text.index(b"\n", size - 1) + 1]


def chunks(text: bytes) -> Iterator[Record]:
    """The text as records of some whole lines each, line ends included."""
    start = number = 0
    while start < len(text):
        end = text.find(b"\n", min(start + RECORD_BYTES, len(text) - 1)) + 1
        yield Record(EPOCH_MS + number, b"%08d" % number, text[start:end])
        start, number = end, number + 1


def lines(text: bytes) -> Iterator[Record]:
    """The text as one record a line, without line ends, for a client that reads lines."""
    for number, line in enumerate(itertools.islice(text.split(b"\n"), text.count(b"\n"))):
        yield Record(-1, b"%08d" % number, line)
