"""The command loop of a client program that is written in Python.

A client program reads one JSON object a line on standard input, does what its `op` says and answers with
one JSON object a line on standard output: the result, or `{"error": "..."}`. It ends when its input ends.
Whatever else the client library prints goes to standard error.
"""

import json
import os
import sys
from typing import Callable


def serve(verbs: dict[str, Callable[[dict], dict | None]]) -> None:
    """Answers commands until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for text in sys.stdin:
        command = json.loads(text)
        verb = verbs.get(command["op"])
        try:
            answer = {"error": f"unknown op {command['op']}"} if verb is None else verb(command) or {}
        except Exception as failure:  # the client's failure is the check's result, whatever its type
            answer = {"error": f"{type(failure).__name__}: {failure}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


class Handles:
    """Producers and consumers that outlive one command, by the name that the command gives them."""

    def __init__(self) -> None:
        self._open: dict[str, object] = {}

    def get(self, command: dict, make: Callable[[], object]) -> tuple[object, bool]:
        """The object of the command's handle, made when new, and whether it must be closed after the command."""
        name = command.get("handle")
        if name is None:
            return make(), True
        if name not in self._open:
            self._open[name] = make()
        return self._open[name], False

    def known(self, command: dict) -> bool:
        """Whether the command's handle is open already."""
        return command.get("handle") in self._open
