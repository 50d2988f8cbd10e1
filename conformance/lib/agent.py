"""A running client program, and the commands that the runner gives it."""

import json
import pathlib
import select
import subprocess
import time

from lib.clients import Client

ANSWER_GRACE_S = 30
DEFAULT_TIMEOUT_S = 120


class ClientFailure(Exception):
    """What a client program answered instead of a result, or that it did not answer."""


class Agent:
    """One process of a client program; commands go in and answers come out one at a time."""

    def __init__(self, client: Client, port: int, log_folder: pathlib.Path) -> None:
        self.client = client
        self._log = open(log_folder / f"{client.name}.log", "ab")
        self._process = subprocess.Popen(
            client.command_line(f"127.0.0.1:{port}"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, bufsize=0,
        )

    def __enter__(self) -> "Agent":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, op: str, timeout_s: float = DEFAULT_TIMEOUT_S, **arguments: object) -> dict:
        """One command and its answer; an error or silence is a ClientFailure."""
        command = {"op": op, "timeout_ms": int(timeout_s * 1000), **arguments}
        try:
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
        except BrokenPipeError:
            raise ClientFailure(f"the program ended with {self._process.wait()}") from None
        answer = json.loads(self._line(op, timeout_s + ANSWER_GRACE_S))
        if "error" in answer:
            raise ClientFailure(answer["error"])
        return answer

    def _line(self, op: str, timeout_s: float) -> bytes:
        deadline = time.monotonic() + timeout_s
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([self._process.stdout], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                self._process.kill()
                raise ClientFailure(f"{op}: no answer within {timeout_s:.0f} s")
            piece = self._process.stdout.read(65536)
            if not piece:
                raise ClientFailure(f"the program ended with {self._process.wait()}")
            line += piece
        return line

    def kill(self) -> None:
        """Ends the program as a crash would: nothing is said to the broker."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        """Ends the program: its input ends, and it is killed when that does not end it."""
        self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._log.close()
