"""How long a killed service takes to come back, and how fast a roll-back is served under load.

    python benchmarks/service/recovery.py [--events 100000] [--report FILE]

Fills a log with rankings and their events (136 features, default ranker), lets the service learn
from all of them under the default snapshot policy, kills it with SIGKILL and times how long it
takes until it is ready again with nothing lost. Then promotes a snapshot while lists are served.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
from load import N_DOCS, N_FEATURES, Service

from olrank.service.records import Event, RankingEntry, Status
from olrank.service.sqlite import SqliteLog

K, EVENTS_EACH, IN_FLIGHT = 10, 2, 200
RECOVERY_S, ROLL_BACK_S = 30.0, 1.0


def fill(folder: Path, n_events: int) -> int:
    """Append rankings with two events each, the second of which closes; how many rankings."""
    log, rng = SqliteLog(folder), np.random.default_rng(0)
    (row,) = log.rankers()
    waiting: list[Future[Any]] = []
    n = n_events // EVENTS_EACH
    for number in range(n):
        shown = [f"d{i}" for i in range(K)]
        arrays = {
            "features": rng.random((K, N_FEATURES)).astype(np.float32),
            "choices": np.full(K, 2, np.int32),
            "certain": np.zeros((K, K), bool),
            "log_p": np.asarray(-K * np.log(2.0), np.float32),
        }
        header = {"trains": True, "answer": {"model_version": 0}, "ids": shown}
        entry = RankingEntry("load", row.birth, f"r{number}", "d", shown, header, arrays)
        click = (shown[int(rng.integers(K))], 1.0)
        waiting += [
            log.append_ranking(entry),
            log.append_feedback("load", [Event(f"r{number}", [click], event_id=f"{number}-1")]),
            log.append_feedback("load", [Event(f"r{number}", event_id=f"{number}-2", close=True)]),
        ]
        if len(waiting) >= IN_FLIGHT:
            _settle(waiting)
            waiting = []
    _settle(waiting)
    log.close()
    return n


def _settle(waiting: list[Future[Any]]) -> None:
    for future in waiting:
        found = future.result()
        assert not isinstance(found, list) or found == [Status.ACCEPTED], found


def wait_trained(service: Service, n: int) -> float:
    """Seconds until all impressions are learned from."""
    began = time.monotonic()
    while service.client.ranker("load")["n_trained"] < n:
        time.sleep(0.5)
    return time.monotonic() - began


def roll_back(service: Service, rate: float) -> float:
    """Seconds from a promote request to its served model, with lists being asked for."""
    rng, stopping = np.random.default_rng(1), threading.Event()
    x = rng.random((N_DOCS, N_FEATURES)).tolist()
    listed = [{"id": f"d{i}", "features": row} for i, row in enumerate(x)]

    def ask() -> None:
        while not stopping.wait(1 / rate):
            service.client.rank("load", listed)

    taken = service.client.take_snapshot("load")
    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(2.0)
    oldest = (service.client.snapshots("load") or [taken])[0]["snapshot_id"]
    began = time.monotonic()
    answer = service.client.promote("load", oldest)
    seconds = time.monotonic() - began
    stopping.set()
    thread.join()
    assert answer["serving"]
    return seconds


def main(n_events: int, report: Path | None) -> int:
    """Run it all, print it, and write it down."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "data"
        service = Service(folder)
        service.stop()
        n = fill(folder, n_events)
        service = Service(folder)
        learned_s = wait_trained(service, n)
        print(f"{n_events} events, {n} impressions; learned in {learned_s:.0f} s", flush=True)
        before = service.client.ranker("load")["model_version"]
        service.process.kill()
        service.process.wait()
        began = time.monotonic()
        service = Service(folder)
        back_s = time.monotonic() - began
        after = service.client.ranker("load")
        assert (after["n_trained"], after["model_version"]) == (n, before), "something was lost"
        print(f"ready again after {back_s:.1f} s (aim: {RECOVERY_S:.0f} s)", flush=True)
        promoted_s = roll_back(service, rate=20.0)
        print(f"rolled back under load in {promoted_s:.2f} s (aim: {ROLL_BACK_S:.0f} s)")
        service.stop()
    if report is not None:
        facts = {
            "events": n_events, "impressions": n, "learned_s": round(learned_s, 1),
            "ready_again_s": round(back_s, 1), "rolled_back_s": round(promoted_s, 2),
        }  # fmt: skip
        report.write_text(json.dumps(facts, indent=1) + "\n")
    return int(back_s > RECOVERY_S or promoted_s > ROLL_BACK_S)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--report", type=Path, help="a JSON file to write")
    given = parser.parse_args()
    sys.exit(main(given.events, given.report))
