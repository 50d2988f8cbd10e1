"""How clients wait: long polls and fetch sessions, seen by a proxy between client and broker."""

import statistics
import time

from lib import records
from lib.broker import free_port
from lib.clients import Client
from lib.context import Context
from lib.proxy import Proxy
from lib.records import Record
from lib.report import expect
from lib.wire import Wire

TOPIC = "idle"
# On a machine too busy for enough fetches the client is asked to idle for longer.
IDLE_MS = (3000, 6000, 20_000)
ENOUGH_FETCHES = 4
RECORDS = 10
# Fetches beyond those that their own waiting times allow: the first ones of a connection do not wait.
SPARE_FETCHES = 8
WITH_SESSIONS = {"java", "franz-go"}


def idle(context: Context, client: Client, broker, proxy: Proxy, proxied_port: int) -> str:
    """An idle consumer's fetches wait as long as they ask to, so there are few of them."""
    with context.agent(client, _At(proxied_port)) as agent:
        for idle_ms in IDLE_MS:
            proxy.take()
            start = time.monotonic()
            agent.call("idle", topic=TOPIC, partition=0, offset=RECORDS, ms=idle_ms)
            elapsed_ms = (time.monotonic() - start) * 1000
            fetches, errors = proxy.take()
            if len(fetches) >= ENOUGH_FETCHES:
                break
    expect(len(fetches) >= ENOUGH_FETCHES, f"only {len(fetches)} fetches in {elapsed_ms:.0f} ms")
    waited = statistics.median_low(fetch.max_wait_ms for fetch in fetches)
    allowed = elapsed_ms / max(waited, 1) + SPARE_FETCHES
    expect(len(fetches) <= allowed, f"{len(fetches)} fetches that wait {waited} ms in {elapsed_ms:.0f} ms")
    incremental = sum(fetch.incremental for fetch in fetches)
    expect(set(errors) <= {0}, f"error codes of whole answers: {dict(errors)}")
    if client.name in WITH_SESSIONS:
        expect(incremental > 0, "no fetch of a session was seen")
    versions = sorted({fetch.version for fetch in fetches})
    return f"{len(fetches)} fetches of {waited} ms, {incremental} incremental, v{'/'.join(map(str, versions))}"


class _At:
    """What an agent needs to know of a broker."""

    def __init__(self, port: int) -> None:
        self.port = port


def run(context: Context) -> None:
    proxied_port = free_port()
    advertised = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxied_port}"}
    file = context.folder / "idle.sent"
    records.write(str(file), (Record(-1, b"k", b"v") for _ in range(RECORDS)))
    with context.another_broker("proxied", advertised) as broker:
        proxy = Proxy(proxied_port, broker.port)
        with Wire(broker.port) as wire, context.agent(context.clients[0], _At(proxied_port)) as agent:
            wire.create_topic(TOPIC)
            agent.call("produce", topic=TOPIC, partition=0, file=str(file), codec="none", acks="all")
        for client in context.able("idle"):
            context.report.check(
                f"waiting: {client.name} idle",
                lambda: idle(context, client, broker, proxy, proxied_port),
            )
        proxy.close()
