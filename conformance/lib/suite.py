"""The groups of checks, in the order in which a run does them."""

import argparse
import pathlib

from lib.broker import Broker
from lib.checks import connect, coordination, groups, live, matrix, mirror, offsets, old, reset, segments, stock, text, topics, transactions, waiting
from lib.clients import Client, NotAvailable
from lib.context import Context
from lib.report import Report

MB = 1_000_000
QUICK_TEXT_MB, FULL_TEXT_MB = 5, 100

CHECKS = {
    "matrix": matrix.run,
    "text": text.run,
    "stock": stock.run,
    "offsets": offsets.run,
    "old": old.run,
    "topics": topics.run,
    "live": live.run,
    "waiting": waiting.run,
    "groups": groups.run,
    "coordination": coordination.run,
    "transactions": transactions.run,
    "segments": segments.run,
    "reset": reset.run,
    "connect": connect.run,
    "mirror": mirror.run,
}


def run(chosen: argparse.Namespace, clients: list[Client], report: Report, folder: pathlib.Path) -> None:
    """Starts a broker and runs the chosen groups against it."""
    names = chosen.checks.split(",") if chosen.checks else list(CHECKS)
    text_mb = chosen.size or (FULL_TEXT_MB if chosen.full else QUICK_TEXT_MB)
    with Broker(chosen.broker, folder / "broker") as broker:
        report.say(f"{chosen.broker} serves on 127.0.0.1:{broker.port}")
        context = Context(
            chosen.broker, broker, clients, report, folder, chosen.full, text_mb * MB, chosen.record
        )
        for name in names:
            group(context, name)
        report.check("the broker stops on SIGTERM", lambda: stopped(broker))


def group(context: Context, name: str) -> None:
    """Runs a group; what keeps it from running to its end is a failure, and the next group has its turn."""
    try:
        CHECKS[name](context)
    except NotAvailable as reason:
        context.report.not_available(f"{name}: {reason}")
    except Exception as failure:  # a broker that died, for one
        context.report.result(f"{name}: did not end", [f"{type(failure).__name__}: {failure}"])
    context.report.say(f"{name}: done")


def stopped(broker: Broker) -> None:
    """A broker that is asked to stop ends by itself, with a good exit code."""
    code = broker.stop()
    # A JVM that ends on SIGTERM says so in its exit code.
    expected = (0, 143) if broker.kind == "kafka" else (0,)
    if code not in expected:
        raise AssertionError(f"exit code {code}")
