"""The few requests that the runner itself sends, so that it depends on none of the clients under test."""

import socket
import struct
import time

API_PRODUCE, API_LIST_OFFSETS, API_METADATA, API_OFFSET_FETCH = 0, 2, 3, 9
API_VERSIONS, API_CREATE_TOPICS, API_DELETE_TOPICS, API_DESCRIBE_CONFIGS = 18, 19, 20, 32
RESOURCE_TOPIC = 2
REQUEST_TIMEOUT_MS = 30_000
LATEST = -1
ALL = -1
# UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER: a new topic is not everywhere at once.
NOT_LEADING_YET = (3, 5, 6)


class WireError(Exception):
    """An error code in an answer."""

    def __init__(self, what: str, code: int) -> None:
        super().__init__(f"{what}: error {code}")
        self.code = code


def _string(text: str | None) -> bytes:
    if text is None:
        return struct.pack(">h", -1)
    data = text.encode()
    return struct.pack(">h", len(data)) + data


class _Answer:
    """A cursor over the body of a response."""

    def __init__(self, body: bytes) -> None:
        self._body, self._at = body, 0

    def take(self, form: str) -> int:
        (value,) = struct.unpack_from(">" + form, self._body, self._at)
        self._at += struct.calcsize(">" + form)
        return value

    def string(self) -> str | None:
        length = self.take("h")
        if length < 0:
            return None
        self._at += length
        return self._body[self._at - length : self._at].decode()


class Wire:
    """One connection to a broker."""

    def __init__(self, port: int, timeout_s: float = 60) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self._correlation = 0

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self._socket.recv(count - len(data))
            if not piece:
                raise ConnectionError("the broker closed the connection")
            data += piece
        return data

    def _call(self, key: int, version: int, body: bytes) -> _Answer:
        self._correlation += 1
        frame = struct.pack(">hhi", key, version, self._correlation) + _string("conformance") + body
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        (length,) = struct.unpack(">i", self._exactly(4))
        answer = _Answer(self._exactly(length))
        if answer.take("i") != self._correlation:
            raise ConnectionError("an answer with another correlation id")
        return answer

    def api_versions(self) -> dict[int, tuple[int, int]]:
        """The lowest and highest version of every API that the broker announces (ApiVersions v0)."""
        answer = self._call(API_VERSIONS, 0, b"")
        code = answer.take("h")
        if code:
            raise WireError("ApiVersions", code)
        return {answer.take("h"): (answer.take("h"), answer.take("h")) for _ in range(answer.take("i"))}

    def create_topic(self, name: str, partitions: int = 1, configs: dict[str, str] | None = None) -> None:
        """Creates a topic (CreateTopics v2) and waits until its partitions have a leader."""
        entries = list((configs or {}).items())
        body = struct.pack(">i", 1) + _string(name) + struct.pack(">ihi", partitions, 1, 0)
        body += struct.pack(">i", len(entries))
        body += b"".join(_string(key) + _string(value) for key, value in entries)
        answer = self._call(API_CREATE_TOPICS, 2, body + struct.pack(">i?", REQUEST_TIMEOUT_MS, False))
        self._topic_results("CreateTopics", answer, with_message=True)
        self.wait_made(name, partitions)

    def produce(self, topic: str, batch: bytes, transactional_id: str | None = None) -> int:
        """Writes one batch to the topic's first partition (Produce v7); returns its offset."""
        body = _string(transactional_id) + struct.pack(">hii", ALL, REQUEST_TIMEOUT_MS, 1) + _string(topic)
        body += struct.pack(">iii", 1, 0, len(batch)) + batch
        answer = self._call(API_PRODUCE, 7, body)
        answer.take("i"), answer.string(), answer.take("i"), answer.take("i")
        code, offset = answer.take("h"), answer.take("q")
        if code:
            raise WireError(f"Produce {topic}", code)
        return offset

    def delete_topic(self, name: str) -> None:
        """Deletes a topic (DeleteTopics v1) and waits until Metadata no longer lists it."""
        body = struct.pack(">i", 1) + _string(name) + struct.pack(">i", REQUEST_TIMEOUT_MS)
        self._topic_results("DeleteTopics", self._call(API_DELETE_TOPICS, 1, body), with_message=False)
        self.wait_gone(name)

    def wait_made(self, name: str, partitions: int) -> None:
        """Waits until a topic has so many partitions with a leader: Kafka answers a creation before that."""
        self._until(lambda: self.topics([name]).get(name) == partitions, f"{name} has {partitions} leaders")

    def wait_gone(self, name: str) -> None:
        """Waits until a topic is no longer listed."""
        self._until(lambda: name not in self.topics(), f"{name} is gone")

    def _topic_results(self, what: str, answer: _Answer, with_message: bool) -> None:
        answer.take("i")  # throttle time
        for _ in range(answer.take("i")):
            name, code = answer.string(), answer.take("h")
            message = answer.string() if with_message else None
            if code:
                raise WireError(f"{what} {name} {message or ''}", code)

    def topics(self, names: list[str] | None = None) -> dict[str, int]:
        """How many partitions with a leader each topic has (Metadata v4, without auto-creation)."""
        if names is None:
            body = struct.pack(">i", -1)
        else:
            body = struct.pack(">i", len(names)) + b"".join(_string(name) for name in names)
        answer = self._call(API_METADATA, 4, body + b"\0")
        answer.take("i")  # throttle time
        for _ in range(answer.take("i")):
            answer.take("i"), answer.string(), answer.take("i"), answer.string()
        answer.string(), answer.take("i")  # cluster id, controller
        found: dict[str, int] = {}
        for _ in range(answer.take("i")):
            code, name, _ = answer.take("h"), answer.string(), answer.take("b")
            led = 0
            for _ in range(answer.take("i")):
                partition_code, _, leader = answer.take("h"), answer.take("i"), answer.take("i")
                for _ in range(2):  # replicas, in-sync replicas
                    for _ in range(answer.take("i")):
                        answer.take("i")
                led += partition_code == 0 and leader >= 0
            if code == 0:
                found[name] = led
        return found

    def topic_configs(self, topic: str) -> dict[str, str | None]:
        """A topic's settings (DescribeConfigs v0)."""
        answer = self._call(API_DESCRIBE_CONFIGS, 0, struct.pack(">ib", 1, RESOURCE_TOPIC) + _string(topic) + struct.pack(">i", -1))
        answer.take("i"), answer.take("i")  # throttle time, one resource
        code, message = answer.take("h"), answer.string()
        if code:
            raise WireError(f"DescribeConfigs {topic} {message or ''}", code)
        answer.take("b"), answer.string()
        found: dict[str, str | None] = {}
        for _ in range(answer.take("i")):
            name = answer.string()
            found[name] = answer.string()
            answer.take("b"), answer.take("b"), answer.take("b")  # read-only, default, sensitive
        return found

    def end_offset(self, topic: str, partition: int = 0) -> int:
        """The high watermark of a partition (ListOffsets v1), once its leader leads."""
        found = 0, 0

        def led() -> bool:
            nonlocal found
            found = self._latest(topic, partition)
            return found[0] not in NOT_LEADING_YET

        self._until(led, f"{topic} has a leader that leads")
        code, offset = found
        if code:
            raise WireError(f"ListOffsets {topic}", code)
        return offset

    def _latest(self, topic: str, partition: int) -> tuple[int, int]:
        body = struct.pack(">ii", -1, 1) + _string(topic) + struct.pack(">iiq", 1, partition, LATEST)
        answer = self._call(API_LIST_OFFSETS, 1, body)
        answer.take("i"), answer.string(), answer.take("i"), answer.take("i")
        code, _, offset = answer.take("h"), answer.take("q"), answer.take("q")
        return code, offset

    def committed(self, group: str, topic: str, partitions: int) -> list[int | None]:
        """What a group has committed (OffsetFetch v1), None where nothing."""
        body = _string(group) + struct.pack(">i", 1) + _string(topic) + struct.pack(">i", partitions)
        answer = self._call(API_OFFSET_FETCH, 1, body + b"".join(struct.pack(">i", one) for one in range(partitions)))
        answer.take("i")  # one topic
        answer.string()
        found: dict[int, int | None] = {}
        for _ in range(answer.take("i")):
            partition, offset = answer.take("i"), answer.take("q")
            answer.string()
            code = answer.take("h")
            if code:
                raise WireError(f"OffsetFetch {group}", code)
            found[partition] = None if offset < 0 else offset
        return [found[partition] for partition in range(partitions)]

    def _until(self, done, what: str) -> None:
        deadline = time.monotonic() + REQUEST_TIMEOUT_MS / 1000
        while not done():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited in vain until {what}")
            time.sleep(0.01)
