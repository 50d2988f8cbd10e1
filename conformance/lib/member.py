"""A member of a consumer group that is a process of its own: a tool whose output says what it has and what it got."""

import ctypes
import queue
import signal
import subprocess
import sys
import threading
import time
from typing import Callable

PR_SET_PDEATHSIG = 1
LEAVE_TIMEOUT_S = 30
SESSION_MS = 6000

_members: dict[str, "Member"] = {}


class Member:
    """A running tool. `record` makes partition and offset of a line of its output, None of a line that is no record; `assignment` makes
    the partitions that it has from now on of a line of its errors, None of a line about something else."""

    def __init__(
        self,
        command: list[str],
        record: Callable[[bytes], tuple[int, int] | None],
        assignment: Callable[[str], list[int] | None],
    ) -> None:
        libc = ctypes.CDLL(None)
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            # When this program is killed, so is the member.
            preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
        )
        self._record, self._assignment = record, assignment
        self._records: queue.SimpleQueue = queue.SimpleQueue()
        self._assigned: list[int] = []
        self._rebalances = 0
        threading.Thread(target=self._read_records, daemon=True).start()
        threading.Thread(target=self._read_assignments, daemon=True).start()

    def _read_records(self) -> None:
        for line in self._process.stdout:
            if (record := self._record(line)) is not None:
                self._records.put(record)

    def _read_assignments(self) -> None:
        for line in self._process.stderr:
            sys.stderr.buffer.write(line)
            if (assigned := self._assignment(line.decode(errors="replace"))) is not None:
                self._assigned = assigned
                self._rebalances += bool(assigned)

    def poll(self, command: dict) -> dict:
        """What came in since the last time; the member goes on by itself."""
        time.sleep(command["ms"] / 1000)
        received = []
        while not self._records.empty():
            received.append(self._records.get())
        return {"assigned": self._assigned, "records": received, "rebalances": self._rebalances}

    def leave(self) -> None:
        """Ends the tool, which then leaves its group."""
        self._process.terminate()
        self._process.wait(LEAVE_TIMEOUT_S)


def settings(command: dict, refresh: str) -> dict[str, object]:
    """A member's settings, by the names that Java and librdkafka share; `refresh` is what the client calls the age of its metadata."""
    shared = {
        "session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": SESSION_MS // 12, "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 100, refresh: 1000,
    }
    return shared | ({"group.instance.id": command["instance"]} if "instance" in command else {})


def verbs(start: Callable[[dict], Member]) -> dict[str, Callable[[dict], dict | None]]:
    """The verbs of a client program whose members `start` starts."""

    def member(command: dict) -> None:
        _members[command["handle"]] = start(command)

    def poll(command: dict) -> dict:
        return _members[command["handle"]].poll(command)

    def leave(command: dict) -> None:
        _members.pop(command["handle"]).leave()

    return {"member": member, "poll": poll, "leave": leave}
