"""The broker under test: kaas, or Apache Kafka 3.7.2 to check the checks."""

import functools
import os
import pathlib
import socket
import subprocess
import time

from lib.wire import Wire

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
READY_TIMEOUT_S = 60
STOP_TIMEOUT_S = 30
# kaas takes KAAS_* for its configuration, and KAAS_BIN is ours.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "KAAS_BIN"}


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@functools.cache
def kaas_binary() -> str:
    """`KAAS_BIN`, or the release build of this work tree."""
    if binary := os.environ.get("KAAS_BIN"):
        return binary
    subprocess.run(["cargo", "build", "--release", "--package", "kaas-broker"], cwd=REPOSITORY, check=True)
    target = os.environ.get("CARGO_TARGET_DIR") or REPOSITORY / "target"
    return str(pathlib.Path(target) / "release" / "kaas")


class Broker:
    """A broker process on a loopback port, with its data in a folder of its own."""

    def __init__(self, kind: str, folder: pathlib.Path, overrides: dict[str, str] | None = None) -> None:
        self.kind, self.folder, self.port = kind, folder, free_port()
        self._controller_port = free_port()
        self._overrides = overrides or {}
        self._binary = kaas_binary() if kind == "kaas" else None
        folder.mkdir(parents=True, exist_ok=True)
        self._process: subprocess.Popen | None = None

    def __enter__(self) -> "Broker":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _command(self) -> list[str]:
        if self.kind == "kafka":
            script = str(pathlib.Path(__file__).with_name("kafka.sh"))
            settings = [f"{key}={value}" for key, value in self._overrides.items()]
            return ["bash", script, str(self.folder), str(self.port), str(self._controller_port), *settings]
        settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(self.folder / "data"),
            **self._overrides,
        }
        flags = [part for key, value in settings.items() for part in ("--override", f"{key}={value}")]
        return [self._binary, "serve", *flags]

    def start(self) -> None:
        """Starts the broker and waits until it answers ApiVersions."""
        with open(self.folder / "broker.log", "ab") as log:
            self._process = subprocess.Popen(
                self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=ENVIRONMENT
            )
        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            try:
                with Wire(self.port) as wire:
                    wire.api_versions()
                    wire.topics()
                return
            except OSError:
                if self._process.poll() is not None:
                    raise RuntimeError(f"the broker ended with {self._process.returncode}:\n{self.log_tail()}") from None
                if time.monotonic() > deadline:
                    raise RuntimeError(f"the broker is not ready:\n{self.log_tail()}") from None
                time.sleep(0.05)

    def stop(self) -> int:
        """Stops the broker with SIGTERM and returns its exit code; SIGKILL comes when that takes too long."""
        self._process.terminate()
        try:
            return self._process.wait(timeout=STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def kill(self) -> None:
        """Ends the broker as a crash would."""
        self._process.kill()
        self._process.wait()

    def log_tail(self) -> str:
        """The last lines of the broker's log."""
        lines = (self.folder / "broker.log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-15:])
