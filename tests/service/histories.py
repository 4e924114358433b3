"""A small history that takes every path through a store, and what was acknowledged on its way."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np

from olrank.service.log import CloseEntry, Event, Log, RankingEntry, Record
from olrank.service.sqlite import SqliteLog

SHOWN = ["a", "b", "c"]


class Ledger:
    """What was acknowledged so far, noted in the very moment; `dropped` ids may be gone."""

    def __init__(self) -> None:
        self.facts: set[tuple[str, str]] = set()
        self.dropped: set[str] = set()

    def note(self, future: Future[Any], *facts: tuple[str, str]) -> Future[Any]:
        def done(resolved: Future[Any]) -> None:
            if resolved.exception() is None:
                self.facts.update(facts)

        future.add_done_callback(done)
        return future

    def copy(self) -> Ledger:
        other = Ledger()
        other.facts, other.dropped = set(self.facts), set(self.dropped)
        return other


def live(log: Log, ledger: Ledger, n_rankings: int = 6, compacting: bool = True) -> None:
    """Create, rank, click, close, take a snapshot, compact, delete: some of it at the same time."""
    birth = ledger.note(log.create_ranker("shop", {"k": 3}), ("ranker", "shop")).result()
    start = birth.record.position
    ids = [f"r{number}" for number in range(n_rankings)]
    _wait(*(ledger.note(_rank(log, start, one), ("ranking", one)) for one in ids))
    for one in ids:
        click = Event(one, [("a", 1.0)], event_id=f"e-{one}", close=True)
        ledger.note(log.append_feedback("shop", [click]), ("event", one)).result()
    epoch = log.claim().result()
    half = n_rankings // 2
    for part in (ids[:half], ids[half:]):
        closes = [CloseEntry(one, "client") for one in part]
        batch = log.append_batch(epoch, "shop", closes)
        ledger.note(batch, *(("close", one) for one in part)).result()
        covers = log.head().position
        log.append_snapshot(epoch, "shop", f"s-{part[0]}", covers).result()
        if compacting and part == ids[:half]:
            ledger.dropped |= set(part)
            while log.compact({"shop": covers}, 10**15).result():
                pass
    log.create_ranker("gone", {}).result()
    log.delete_ranker("gone").result()
    if compacting:
        log.compact({}, 0).result()
    _wait(*(ledger.note(_rank(log, start, f"x{n}"), ("ranking", f"x{n}")) for n in range(3)))


def check(folder: Path, ledger: Ledger) -> list[Record]:
    """Open the folder as after a crash: all is whole, and nothing acknowledged is missing."""
    log = SqliteLog(folder)
    try:
        log.verify()
        for kind, name in sorted(ledger.facts):
            if kind == "ranker":
                assert [row.name for row in log.rankers() if row.name == name] == [name]
            elif name not in ledger.dropped:
                stored = log.ranking("shop", name)
                assert stored is not None, f"ranking {name} was acknowledged and is lost"
                assert kind != "event" or stored.events, f"the event of {name} is lost"
                assert kind != "close" or stored.close, f"the close of {name} is lost"
        return log.read(0, 10_000)
    finally:
        log.close()


def _rank(log: Log, birth: int, ranking_id: str) -> Future[Any]:
    rows = np.full((3, 2), len(ranking_id), np.float32)
    entry = RankingEntry("shop", birth, ranking_id, "d", SHOWN, {"answer": 1}, {"rows": rows})
    return log.append_ranking(entry)


def _wait(*futures: Future[Any]) -> None:
    for one in futures:
        one.result()
