"""What the run prints: one line a check and a closing line."""

import threading
import time
from typing import Callable


class Report:
    """Counts checks; usable from several threads."""

    def __init__(self) -> None:
        self.passed, self.failed = 0, 0
        self.missing: list[str] = []
        self._lock = threading.Lock()
        self._start = time.monotonic()

    def say(self, text: str) -> None:
        """A line that is not a check."""
        with self._lock:
            print(f"      {time.monotonic() - self._start:6.1f}s  {text}", flush=True)

    def result(self, name: str, failures: list[str], detail: str = "") -> None:
        """The outcome of a check: no failures is a pass."""
        with self._lock:
            if failures:
                self.failed += 1
                print(f"FAIL  {name}", flush=True)
                for failure in failures[:10]:
                    print(f"        {failure}", flush=True)
                if len(failures) > 10:
                    print(f"        and {len(failures) - 10} more", flush=True)
            else:
                self.passed += 1
                print(f"ok    {name}" + (f"  ({detail})" if detail else ""), flush=True)

    def check(self, name: str, work: Callable[[], str | None]) -> None:
        """Runs a check that raises when it fails; what it returns is the detail of its line."""
        try:
            detail = work()
        except Exception as failure:  # a check fails for whatever reason, and the run goes on
            self.result(name, [f"{type(failure).__name__}: {failure}"])
        else:
            self.result(name, [], detail or "")

    def not_available(self, reason: str) -> None:
        """A client that could not be had, loudly."""
        with self._lock:
            self.missing.append(reason)
            print(f"MISSING  {reason}", flush=True)

    def close(self) -> int:
        """Prints the closing line and returns the exit code."""
        line = f"conformance: {self.passed} passed, {self.failed} failed, {len(self.missing)} not available"
        print(line + (": " + "; ".join(self.missing) if self.missing else ""), flush=True)
        return 1 if self.failed else 0


def expect(condition: bool, message: str) -> None:
    """Fails the running check unless the condition holds."""
    if not condition:
        raise AssertionError(message)
