"""The clients under test: read from clients/*/client.json, installed into the cache."""

import hashlib
import json
import os
import pathlib
import subprocess
from dataclasses import dataclass, field

from lib import jvm

ROOT = pathlib.Path(__file__).resolve().parents[1]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "kaas" / "clients"
INSTALL_TIMEOUT_S = 900
# How much of what a failed install printed is its reason.
REASON_LINES = 3
# How many of a producer's topics a slow client reads in a quick run.
SLOW_SHARE = 2
INSTALLED = ".kaas-installed"


class NotAvailable(Exception):
    """A client, or checks for want of one, that cannot be had here, and why."""


@dataclass(frozen=True, eq=False)
class Client:
    """What client.json says of one client."""

    name: str
    version: str
    folder: pathlib.Path
    command: list[str]
    codecs: list[str]
    idempotent: bool
    # Verbs beyond produce and consume, and what the client is fit for: see the README.
    ops: list[str] = field(default_factory=list)
    # Kinds of records that the client's interface cannot express (the tags of lib/corpus.py).
    cannot_write: list[str] = field(default_factory=list)
    # Whether the client writes to the partition that it is told to.
    chooses_partition: bool = True
    # Headers come out of the client as a map, so their order among different names is lost.
    groups_headers: bool = False
    # Every command starts a JVM, so a quick run gives the client a part of the work.
    slow: bool = False
    # What the client can do in consumer groups: "members", and besides "static" (KIP-345), "committed", and "reset" or at least "rewind".
    groups: list[str] = field(default_factory=list)
    # Broker versions that the client can be told to speak to, with the message formats of their time.
    old: list[str] = field(default_factory=list)

    @property
    def directory(self) -> pathlib.Path:
        """Where the client's installed part lives."""
        return CACHE / self.name

    def chosen(self, items: list) -> list:
        """What of a quick run's work the client does."""
        return items[:: max(1, len(items) // SLOW_SHARE)] if self.slow else items

    def command_line(self, bootstrap: str) -> list[str]:
        """The command that starts the client program."""
        values = {"here": self.folder, "dir": self.directory, "lib": ROOT / "lib", "bootstrap": bootstrap}
        if any("{class_path}" in part for part in self.command):
            values["class_path"] = jvm.class_path()
        return [part.format(**values) for part in self.command]


def known() -> list[Client]:
    """Every client that has a folder."""
    found = []
    for file in sorted(ROOT.glob("clients/*/client.json")):
        found += [Client(folder=file.parent, **entry) for entry in json.loads(file.read_text())]
    return sorted(found, key=lambda client: client.name)


def _fingerprint(folder: pathlib.Path) -> str:
    """Changes with any file that an install may depend on."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")) + sorted((ROOT / "lib").glob("*.sh")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _reason(output: str) -> str:
    """The first lines that speak of an error, or else the last ones."""
    lines = output.strip().splitlines()
    errors = [line.strip() for line in lines if "error" in line.lower()]
    return " / ".join(errors[:REASON_LINES] or lines[-REASON_LINES:]) or "no reason given"


def install(client: Client) -> None:
    """Runs the client's install.sh unless what it installed is there already."""
    stamp = client.directory / INSTALLED
    wanted = _fingerprint(client.folder)
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    script = client.folder / "install.sh"
    client.directory.parent.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            ["bash", script, client.name, client.directory],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=INSTALL_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise NotAvailable(f"{client.name}: not installed within {INSTALL_TIMEOUT_S} s") from None
    if done.returncode != 0:
        raise NotAvailable(f"{client.name}: {_reason(done.stdout.decode(errors='replace'))}")
    client.directory.mkdir(parents=True, exist_ok=True)
    stamp.write_text(wanted)
