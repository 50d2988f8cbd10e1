"""Processes of Kafka Connect: a worker with its REST interface, or MirrorMaker, which is workers of its own."""

import json
import pathlib
import subprocess
import time
import urllib.error
import urllib.request

from lib import jvm
from lib.broker import free_port

DISTRIBUTED = "org.apache.kafka.connect.cli.ConnectDistributed"
MIRROR = "org.apache.kafka.connect.mirror.MirrorMaker"
PATIENCE_S = 120
STOP_TIMEOUT_S = 30
# What a worker answers while it starts, while its group is rebalanced, and while it has no leader.
NOT_NOW = (404, 409, 500, 503)


class Process:
    """A program of Kafka Connect with a file of settings; its log is beside that."""

    def __init__(self, main: str, name: str, folder: pathlib.Path, settings: dict[str, object]) -> None:
        self.log = folder / f"{name}.log"
        self._main, self._settings = main, folder / f"{name}.properties"
        folder.mkdir(parents=True, exist_ok=True)
        self._settings.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self._process: subprocess.Popen | None = None

    def start(self) -> None:
        with open(self.log, "ab") as log:
            command = jvm.command(self._main, jvm.class_path(), [str(self._settings)], level="INFO")
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """Ends it as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """Ends it with SIGTERM, or else as a crash would."""
        if self.running():
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.kill()

    def until(self, what: str, done) -> None:
        """Waits for something that the process brings about."""
        deadline = time.monotonic() + PATIENCE_S
        while not done():
            if not self.running():
                raise AssertionError(f"{self.log.name.removesuffix('.log')} ended before {what}: {self.log}")
            if time.monotonic() > deadline:
                raise AssertionError(f"waited in vain: {what}; its log is {self.log}")
            time.sleep(0.2)


class Worker(Process):
    """One distributed worker of a group."""

    def __init__(self, name: str, folder: pathlib.Path, settings: dict[str, object]) -> None:
        self._rest = free_port()
        super().__init__(DISTRIBUTED, name, folder, {**settings, "listeners": f"http://127.0.0.1:{self._rest}"})

    def call(self, method: str, path: str, body: object = None) -> tuple[int, object]:
        """The status code and the answer of a request, which is text when it is an error; 0 when nobody listens."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._rest}{path}", method=method,
            data=None if body is None else json.dumps(body).encode(), headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as failure:
            return failure.code, failure.read().decode(errors="replace")
        except OSError:
            return 0, None

    def configure(self, connector: str, config: dict[str, object]) -> None:
        """Makes a connector, or changes it."""
        answer: tuple[int, object] = 0, None

        def accepted() -> bool:
            nonlocal answer
            answer = self.call("PUT", f"/connectors/{connector}/config", config)
            return answer[0] not in (0, *NOT_NOW)

        self.until(f"{connector} is accepted", accepted)
        if answer[0] not in (200, 201):
            raise AssertionError(f"{connector} is refused: {answer}")

    def states(self, connector: str) -> list[str]:
        """The states of the connector and its tasks; nothing while the worker cannot say."""
        code, answer = self.call("GET", f"/connectors/{connector}/status")
        if code != 200:
            return []
        return [answer["connector"]["state"], *(task["state"] for task in answer["tasks"])]

    def owners(self, *connectors: str) -> set[str]:
        """The workers that run the connectors and their tasks."""
        answers = [self.call("GET", f"/connectors/{connector}/status") for connector in connectors]
        running = [one for code, answer in answers if code == 200 for one in (answer["connector"], *answer["tasks"])]
        return {one["worker_id"] for one in running if one["state"] == "RUNNING"}

    def offsets(self, connector: str) -> list[dict]:
        """What the connector has committed."""
        code, answer = self.call("GET", f"/connectors/{connector}/offsets")
        return answer["offsets"] if code == 200 else []
