"""A proxy in front of a broker that notes what clients ask, without changing a byte.

The broker advertises the proxy's address, so everything passes through it.
"""

import socket
import struct
import threading
from collections import Counter
from dataclasses import dataclass

API_FETCH = 1
FETCH_SESSIONS_FROM = 7
FETCH_FLEXIBLE_FROM = 12
FETCH_WITHOUT_REPLICA_FROM = 15
# Session epoch 0 asks for a session, -1 refuses one; above, the fetch is incremental.
FIRST_INCREMENTAL_EPOCH = 1


@dataclass(frozen=True)
class Fetch:
    """What a Fetch request says about waiting and about its session."""

    version: int
    max_wait_ms: int
    session_id: int
    session_epoch: int

    @property
    def incremental(self) -> bool:
        return self.session_id != 0 and self.session_epoch >= FIRST_INCREMENTAL_EPOCH


def parse_fetch(frame: bytes) -> Fetch:
    """The head of a Fetch request: header, then replica id (until v14), waits, bytes, isolation, session."""
    version, _correlation, client_length = struct.unpack_from(">hih", frame, 2)
    at = 10 + max(client_length, 0)
    if version >= FETCH_FLEXIBLE_FROM:
        at += 1  # an empty tag section
    if version < FETCH_WITHOUT_REPLICA_FROM:
        at += 4
    (max_wait_ms,) = struct.unpack_from(">i", frame, at)
    session = (0, -1)
    if version >= FETCH_SESSIONS_FROM:
        session = struct.unpack_from(">ii", frame, at + 13)
    return Fetch(version, max_wait_ms, *session)


class Proxy:
    """Listens on a port and forwards to the broker's; what it saw can be taken."""

    def __init__(self, port: int, broker_port: int) -> None:
        self._broker_port = broker_port
        self._lock = threading.Lock()
        self._fetches: list[Fetch] = []
        self._fetch_errors: Counter[int] = Counter()
        self._listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def take(self) -> tuple[list[Fetch], Counter]:
        """The fetches, and the error codes of whole Fetch answers, since the last call."""
        with self._lock:
            seen = self._fetches, self._fetch_errors
            self._fetches, self._fetch_errors = [], Counter()
        return seen

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            broker = socket.create_connection(("127.0.0.1", self._broker_port))
            pending: dict[int, int] = {}  # version of each Fetch by its correlation id
            for source, target, note in ((client, broker, self._request), (broker, client, self._response)):
                threading.Thread(target=self._pump, args=(source, target, note, pending), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, note, pending: dict[int, int]) -> None:
        """Forwards whole frames, noting each before it goes on."""
        reader = source.makefile("rb")
        try:
            while len(head := reader.read(4)) == 4:
                frame = reader.read(struct.unpack(">i", head)[0])
                note(frame, pending)
                target.sendall(head + frame)
        except OSError:
            pass
        finally:
            for end in (source, target):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def _request(self, frame: bytes, pending: dict[int, int]) -> None:
        key, version, correlation = struct.unpack_from(">hhi", frame)
        if key == API_FETCH:
            with self._lock:
                self._fetches.append(parse_fetch(frame))
            pending[correlation] = version

    def _response(self, frame: bytes, pending: dict[int, int]) -> None:
        (correlation,) = struct.unpack_from(">i", frame)
        version = pending.pop(correlation, 0)
        if version >= FETCH_SESSIONS_FROM:
            at = 8 + (version >= FETCH_FLEXIBLE_FROM)  # after the throttle time
            (code,) = struct.unpack_from(">h", frame, at)
            with self._lock:
                self._fetch_errors[code] += 1
