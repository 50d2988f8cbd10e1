"""Consumer groups: members come, go, are killed and come back under their own name, and offsets stay where they were put."""

import pathlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from lib import records
from lib.agent import Agent
from lib.broker import Broker
from lib.clients import Client, NotAvailable
from lib.context import Context
from lib.records import Record
from lib.report import expect
from lib.wire import Wire

PARTITIONS = 6
RECORDS = 10
LATER = 3
POLL_MS = 300
PATIENCE_S = 60
# What a reset goes back to.
RESET = 2
# A group is balanced at once instead of after three seconds.
OVERRIDES = {"group.initial.rebalance.delay.ms": "0"}


class Member:
    """One member of a group, in a process of its own."""

    def __init__(self, context: Context, broker: Broker, client: Client, group: str, topic: str, **extra: object) -> None:
        self.agent: Agent = context.agent(client, broker)
        self.assigned: frozenset[int] = frozenset()
        self.received: list[tuple[int, int]] = []
        self.rebalances = 0
        self.agent.call("member", handle="m", group=group, topic=topic, **extra)

    def poll(self, commit: bool = False) -> None:
        answer = self.agent.call("poll", handle="m", ms=POLL_MS, commit=commit)
        self.assigned = frozenset(answer["assigned"])
        self.received += [tuple(one) for one in answer["records"]]
        self.rebalances = answer.get("rebalances", 0)

    def leave(self) -> None:
        self.agent.call("leave", handle="m")
        self.agent.close()

    def kill(self) -> None:
        self.agent.kill()


def until(what: str, members: list[Member], done, commit: bool = False) -> None:
    """Polls every member in a loop of its own, for some wait in a poll until the others have joined, until it is done."""
    deadline = time.monotonic() + PATIENCE_S
    ended = threading.Event()

    def loop(member: Member) -> None:
        try:
            while not ended.is_set() and time.monotonic() < deadline:
                member.poll(commit)
                if done():
                    ended.set()
        except BaseException:
            ended.set()
            raise

    with ThreadPoolExecutor(len(members)) as pool:
        list(pool.map(loop, members))
        # What one member said may have been out of date when another one's word made it complete: then it goes on.
        while not done():
            expect(time.monotonic() < deadline, f"{what}: {[sorted(member.assigned) for member in members]}")
            ended.clear()
            list(pool.map(loop, members))


def balanced(members: list[Member]) -> bool:
    """Everyone has something, nobody what another has, and nothing is left over."""
    owned = [partition for member in members for partition in member.assigned]
    return sorted(owned) == list(range(PARTITIONS)) and all(member.assigned for member in members)


def committed_by_now(wire: Wire, members: list[Member], group: str, offset: int) -> None:
    """Every partition is committed; the topic is called as the group is."""
    wanted = [offset] * PARTITIONS
    until("committed", members, lambda: wire.committed(group, group, PARTITIONS) == wanted)


def write(agent: Agent, folder: pathlib.Path, topic: str, count: int) -> None:
    for partition in range(PARTITIONS):
        file = folder / f"{topic}-{partition}.sent"
        records.write(str(file), (Record(-1, b"k", b"v %d" % i) for i in range(count)))
        agent.call(
            "produce", topic=topic, partition=partition, file=str(file), codec="none", acks="all",
            idempotent=agent.client.idempotent,
        )


def writer_for(context: Context, client: Client) -> Client:
    """The client itself when it can choose partitions, or else one that can."""
    able = [one for one in (client, *context.clients) if one.chooses_partition]
    if not able:
        raise NotAvailable(f"no chosen client can write to the partitions that {client.name} is to read")
    return able[0]


def everything(first: int, end: int) -> list[tuple[int, int]]:
    return [(partition, offset) for partition in range(PARTITIONS) for offset in range(first, end)]


def comes_and_goes(context: Context, broker: Broker, client: Client) -> str:
    """One member, then two, then three; one leaves, one is killed; the next generation begins where the last one committed."""
    topic = group = f"group-{client.name}"
    with Wire(broker.port) as wire, context.agent(client, broker) as agent, context.agent(writer_for(context, client), broker) as writer:
        wire.create_topic(topic, PARTITIONS)
        write(writer, context.folder, topic, RECORDS)
        first = Member(context, broker, client, group, topic)
        until("one member", [first], lambda: balanced([first]) and len(first.received) >= PARTITIONS * RECORDS, commit=True)
        expect(sorted(first.received) == everything(0, RECORDS), f"received {sorted(first.received)}")
        committed_by_now(wire, [first], group, RECORDS)
        if "committed" in client.groups:
            committed = agent.call("committed", group=group, topic=topic, partitions=PARTITIONS)["offsets"]
            expect(committed == [RECORDS] * PARTITIONS, f"committed {committed}, says the client")
        members = [first]
        for count in (2, 3):
            members.append(Member(context, broker, client, group, topic))
            until(f"{count} members", members, lambda: balanced(members))
        members.pop().leave()
        until("after one left", members, lambda: balanced(members))
        members.pop().kill()
        until("after one was killed", members, lambda: balanced(members))
        expect(sum(len(member.received) for member in members) == PARTITIONS * RECORDS, "records were received twice")
        first.leave()
        write(writer, context.folder, topic, LATER)
        again = Member(context, broker, client, group, topic)
        until("a new member", [again], lambda: len(again.received) >= PARTITIONS * LATER, commit=True)
        expect(sorted(again.received) == everything(RECORDS, RECORDS + LATER), f"received {sorted(again.received)}")
        committed_by_now(wire, [again], group, RECORDS + LATER)
        again.leave()
        how = next((one for one in ("reset", "rewind") if one in client.groups), None)
        if how is not None:
            if how == "reset":
                agent.call("reset_offsets", group=group, topic=topic, partitions=PARTITIONS, offset=RESET)
            begin = {"offset": RESET} if how == "rewind" else {}
            last = Member(context, broker, client, group, topic, **begin)
            until(f"after a {how}", [last], lambda: len(last.received) >= PARTITIONS * (RECORDS + LATER - RESET))
            expect(sorted(last.received) == everything(RESET, RECORDS + LATER), f"received {sorted(last.received)}")
            last.leave()
    return how or "no reset in this client"


def stays_itself(context: Context, broker: Broker, client: Client) -> None:
    """A static member (KIP-345) is killed and comes back to its partitions; the other one does not notice."""
    topic = group = f"static-{client.name}"
    with Wire(broker.port) as wire:
        wire.create_topic(topic, PARTITIONS)
    one = Member(context, broker, client, group, topic, instance="one")
    two = Member(context, broker, client, group, topic, instance="two")
    until("two static members", [one, two], lambda: balanced([one, two]))
    before, had, seen = one.assigned, two.assigned, two.rebalances
    one.kill()
    one = Member(context, broker, client, group, topic, instance="one")
    until("the killed one is back", [one, two], lambda: bool(one.assigned))
    expect(one.assigned == before, f"it had {sorted(before)} and has {sorted(one.assigned)}")
    expect(two.assigned == had, f"the other one had {sorted(had)} and has {sorted(two.assigned)}")
    expect(two.rebalances == seen, f"the other one saw {two.rebalances - seen} rebalances")
    one.leave()
    two.leave()


def run(context: Context) -> None:
    able = [client for client in context.clients if client.groups]

    def work(client: Client) -> None:
        context.report.check(
            f"groups: {client.name} members come and go", lambda: comes_and_goes(context, broker, client)
        )
        if "static" in client.groups:
            context.report.check(
                f"groups: {client.name} static member comes back", lambda: stays_itself(context, broker, client)
            )

    with context.another_broker("groups", OVERRIDES) as broker:
        context.each(work, able)
