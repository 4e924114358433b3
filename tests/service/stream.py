"""A rough stream of events through the whole service, and a simple model beside it.

    python tests/service/stream.py FOLDER [--events 100000] [--stops 100]

10% of the events are sent again, 20% come out of order, 5% after their impression was closed. The
simple model knows nothing of the log's tables: it keeps a dictionary of what was shown and what was
answered, and predicts every status that timing leaves no choice about. Then it learns from each
ranking once, in the order of the close records, from the events it knows to be accepted. The digest
must be the service's, and that of a replay that is stopped and resumed many times.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
os.environ["JAX_PLATFORMS"] = "cpu"

import numpy as np
from service.running import Command, candidates, wait_for

from olrank import checkpoint
from olrank.service import snapshots
from olrank.service.apply import Lesson, learn_one
from olrank.service.blueprint import make
from olrank.service.records import Kind
from olrank.service.recover import recover, restorer
from olrank.service.sqlite import SqliteReader
from olrank.types import Ranking

K, D, DOCS, EVENTS = 4, 3, 6, 5  # events of one ranking, the closing one among them
CONFIG = {"algorithm": "olranknet", "k": K, "history": 100, "keep_candidates": 0.0}
SETTINGS = {"width": 4, "steps": 1, "history_batch": 8}


@dataclass
class Seen:
    """What the simple model remembers of one ranking."""

    shown: list[str]
    accepted: list[dict[str, Any]] = field(default_factory=list)
    bodies: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked_to_close: bool = False
    closed: bool = False


class Simple:
    """Statuses by the rules in words; True closing times only where the service has told them."""

    def __init__(self) -> None:
        self.rankings: dict[str, Seen] = {}
        self.counts: Counter[str] = Counter()

    def hear(self, event: dict[str, Any], status: str) -> None:
        """Check a status against the rules, and keep the event when it counts."""
        seen = self.rankings[event["ranking_id"]]
        if event["event_id"] in seen.bodies:
            same = seen.bodies[event["event_id"]] == event
            assert status == ("duplicate" if same else "conflict"), (event, status)
        elif seen.closed:
            assert status == "late", (event, status)
        elif seen.asked_to_close:
            assert status in ("accepted", "late"), (event, status)
        else:
            assert status == "accepted", (event, status)
        if status == "accepted":
            seen.bodies[event["event_id"]] = event
            seen.accepted.append(event)
            seen.asked_to_close |= event["close"]
        self.counts[status] += 1


def events_of(rng: random.Random, ranking: dict[str, Any]) -> list[dict[str, Any]]:
    """A few clicks with weights, a word on what was seen, and a close."""
    shown = [item["id"] for item in ranking["items"]]
    found = []
    for number in range(EVENTS):
        clicks = [{"id": one, "weight": rng.choice([0.5, 1.0, 3.0])} for one in shown]
        last = number == EVENTS - 1
        found.append(
            {
                "ranking_id": ranking["ranking_id"],
                "event_id": f"{ranking['ranking_id']}-{number}",
                "clicks": [click for click in clicks if rng.random() < 0.3],
                "shown_upto": rng.choice([None, None, 0, 2, len(shown)]),
                "close": last,
            }
        )
    return found


def rough(rng: random.Random, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same events, 20% of them out of order and 10% of them twice."""
    keys = [i + (rng.uniform(1, 40) if rng.random() < 0.2 else 0) for i in range(len(events))]
    order = sorted(range(len(events)), key=lambda i: keys[i])
    found = [events[i] for i in order]
    for event in rng.sample(found, len(found) // 10):
        found.insert(rng.randrange(found.index(event), len(found)) + 1, event)
    return found


def drive(command: Command, n_events: int, seed: int, group: int = 40) -> Simple:
    """Send a rough stream; what the simple model makes of the answers."""
    rng, simple, late = random.Random(seed), Simple(), []
    numbers = np.random.default_rng(seed)
    while sum(simple.counts.values()) < n_events:
        events: list[dict[str, Any]] = []
        for _ in range(group):
            ranking = command.client.rank("a", candidates(numbers.random((DOCS, D))))
            simple.rankings[ranking["ranking_id"]] = Seen([i["id"] for i in ranking["items"]])
            events += events_of(rng, ranking)
        stream = rough(rng, events)
        late.append(events[:: 20 // 1])  # 5%, each with a new id, when all of these are closed
        for start in range(0, len(stream), 50):
            part = stream[start : start + 50]
            for event, answer in zip(part, command.client.send_events("a", part), strict=True):
                simple.hear(event, answer["status"])
        if len(late) > 3:
            send_late(command, simple, late.pop(0))
    for part in late:
        send_late(command, simple, part)
    n_closed = len(simple.rankings)
    wait_for(lambda: command.client.ranking("a", list(simple.rankings)[-1])["closed"], 120)
    assert n_closed > 0
    return simple


def send_late(command: Command, simple: Simple, events: list[dict[str, Any]]) -> None:
    """New events for rankings that are closed for sure."""
    for event in events:
        seen = simple.rankings[event["ranking_id"]]
        wait_for(lambda one=event: command.client.ranking("a", one["ranking_id"])["closed"], 120)
        seen.closed = True
    fresh = [{**event, "event_id": f"late-{event['event_id']}"} for event in events]
    for event, answer in zip(fresh, command.client.send_events("a", fresh), strict=True):
        simple.hear(event, answer["status"])


def simple_digest(folder: Path, simple: Simple) -> tuple[str, int]:
    """Learn from every ranking once, in the order of the close records; digest and count."""
    log = SqliteReader(folder)
    row = log.rankers()[0]
    blueprint, n = make(row.config), 0
    state = blueprint.init()
    closes = [r.header["ranking_id"] for r in every(log) if r.kind is Kind.CLOSE]
    assert sorted(closes) == sorted(simple.rankings), "every ranking is closed, and closed once"
    for ranking_id in closes:
        lesson = lesson_by_hand(log, ranking_id, simple.rankings[ranking_id])
        if lesson is not None:
            state = learn_one(blueprint.ranker, state, np.uint32(0), np.uint32(n), lesson)
            n += 1
    log.close()
    return checkpoint.digest(state), n


def lesson_by_hand(log: SqliteReader, ranking_id: str, seen: Seen) -> Lesson | None:
    """Clicks merged by the heaviest; seen is what anybody said, or what was clicked."""
    weights = [0.0] * K
    said = [one["shown_upto"] for one in seen.accepted if one["shown_upto"] is not None]
    for event in seen.accepted:
        for click in event["clicks"]:
            slot = seen.shown.index(click["id"])
            weights[slot] = max(weights[slot], click["weight"])
    lowest = max([slot + 1 for slot in range(K) if weights[slot] > 0], default=0)
    n_seen = max([*said, lowest]) if said else K
    if not seen.accepted or n_seen == 0:
        return None
    stored = log.ranking("a", ranking_id)
    assert stored is not None
    arrays = stored.record.arrays
    drawn: dict[str, Any] = {
        "order": np.arange(K, dtype=np.int32),
        "shown": np.ones(K, bool),
        "choices": arrays["choices"],
        "log_p_shown": arrays["log_p"],
        "certain": arrays["certain"],
    }
    return Lesson(
        features=arrays["features"],
        clicks=np.array(weights, np.float32),
        seen=np.arange(K) < n_seen,
        ranking=Ranking(**drawn),
    )


def every(log: SqliteReader) -> list[Any]:
    records: list[Any] = []
    while part := log.read(records[-1].position if records else 0):
        records += part
    return records


def stopped_digest(folder: Path, stops: int, seed: int) -> str:
    """Replay that is stopped at random records and resumed from a file every time."""
    log = SqliteReader(folder)
    row, rng = log.rankers()[0], random.Random(seed)
    end = log.head().position
    model = recover(log, folder, row, row.birth, from_start=True)
    points = set(rng.sample(range(row.birth + 1, end), stops))
    aside, stopped = folder.parent / f"{folder.name}-stops", 0
    aside.mkdir(exist_ok=True)
    due = False
    for record in every(log):
        if record.position <= row.birth or record.ranker != row.name:
            due |= record.position in points
            continue
        model.apply(record, log.closed, restorer(folder, row.birth, model))
        due |= record.position in points
        if due and model.at_boundary:
            snapshots.write(aside, row.birth, f"s-{record.position}", model)
            model = snapshots.resume(aside, row.birth, f"s-{record.position}", make(row.config))
            snapshots.remove(aside, row.birth, f"s-{record.position}")
            stopped, due = stopped + 1, False
    log.close()
    assert stopped >= min(stops, 5) * 0.5, "the stops must have happened"
    return model.digest()


def run(folder: Path, n_events: int, stops: int, seed: int = 0) -> dict[str, Any]:
    """The whole comparison; what was counted."""
    began_s = time.monotonic()
    with Command(folder) as command:
        command.client.create("a", D, settings=SETTINGS, **CONFIG)
        command.client.wait_until_ready()
        simple = drive(command, n_events, seed)
        wait_for(lambda: all_closed(folder, len(simple.rankings)), 600)
        served = command.client.take_snapshot("a")
        assert command.stop() == 0
    digest, n = simple_digest(folder, simple)
    assert n == served["n_trained"], (n, served["n_trained"])
    assert digest == served["digest"], "the service learned something else than the simple model"
    assert stopped_digest(folder, stops, seed) == digest, "stopping and resuming changed the model"
    return {
        "events": sum(simple.counts.values()),
        "rankings": len(simple.rankings),
        "trained": n,
        "statuses": dict(simple.counts),
        "stops": stops,
        "digest": digest,
        "seconds": round(time.monotonic() - began_s, 1),
    }


def all_closed(folder: Path, n: int) -> bool:
    log = SqliteReader(folder)
    try:
        return not log.open_impressions("a") and log.rankers()[0].version > 0
    finally:
        log.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--stops", type=int, default=100)
    given = parser.parse_args()
    for name, value in run(given.folder, given.events, given.stops).items():
        print(f"{name:10} {value}")
    sys.exit(0)
