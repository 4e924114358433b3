"""Crash safety of the real processes: kill -9 at named points, over and over, under traffic.

Two clients, each with a ranker of its own, rank and click, and retry whatever got no answer. Each
impression's list depends on all that was learned before it, so that one event lost, learned twice
or learned in another order changes everything after it. Afterwards the same traffic goes through a
service that nobody kills: both must have learned the same model, bit for bit.

    python tests/service/crashtest.py FOLDER [--kills 1000] [--seed 0] [--report FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import olrank
from olrank.errors import ServiceError
from olrank.service import crashpoints
from olrank.service.replay import replay

RANKERS = ("shop", "news")
_GROUP = 3  # impressions that are closed together
_N_CANDIDATES, _N_FEATURES = 6, 4
_PATIENCE_S = 600.0  # for one request, through many restarts
_UNREACHED_S = 45.0  # a point that the traffic does not reach is given up
_ONCE = ("store.head_made", "store.made")  # reached by a new folder only
_QUICK = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}  # a start compiles nothing again
POINTS = [one for one in crashpoints.POINTS if one not in _ONCE]
_STARTING = "learner.claimed"  # reached when a learner starts: kill the one before, anywhere
_MOST = {"store": 9, "remote": 4, "learner": 3, "snapshot": 2}
"""A process dies when it reaches a point for the n-th time, n up to this."""


class Service:
    """The real processes, started again whenever they are found dead."""

    def __init__(self, folder: Path, plan: Path, cache: Path, mutant: str = "") -> None:
        self.folder, self.plan = folder, plan
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.n_starts = 0
        self._pid: int | None = None
        script = str(Path(__file__).with_name("crash_service.py"))
        more = [str(folder), str(self.port), str(cache), *([mutant] if mutant else [])]
        with (self.folder.with_suffix(".log")).open("ab") as output:
            self._starter = subprocess.Popen(
                [sys.executable, script, *more],
                env={**os.environ, **_QUICK, "OLRANK_CRASH": f"@{self.plan}"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                bufsize=0,  # what is not read yet must be seen by select
            )

    def keep_up(self) -> None:
        """Start it if it does not run."""
        if self.ended() is not None:
            self._pid = None
        if self._pid is None:
            self.n_starts += 1
            assert self._starter.stdin is not None
            self._starter.stdin.write(b"start\n")
            self._pid = self._said()

    def ended(self, timeout_s: float = 0.0) -> int | None:
        """The exit code of a service that was started and has ended since; None otherwise."""
        if self._pid is None:
            return None
        assert self._starter.stdout is not None
        ready, _, _ = select.select([self._starter.stdout], [], [], timeout_s)
        return self._said() if ready else None

    def _said(self) -> int:
        assert self._starter.stdout is not None
        return int(self._starter.stdout.readline())

    def await_end(self) -> int:
        """The exit code, as soon as there is one."""
        code = self.ended(60.0)
        assert code is not None, "the service did not end"
        self._pid = None
        return code

    def stop(self) -> None:
        """In good order, whatever happened before."""
        self.keep_up()
        with olrank.Client(self.url) as client:
            client.wait_until_ready()
        assert self._pid is not None
        os.kill(self._pid, signal.SIGTERM)
        code = self.await_end()
        assert code in (0, -signal.SIGTERM), f"the service ended with {code}"
        self.leave()

    def kill(self) -> None:
        """Whatever it does, and its learner with it, as when a machine stops."""
        if self._pid is not None and self.ended() is None:
            with suppress(ProcessLookupError):  # it has just died by itself
                os.killpg(self._pid, signal.SIGKILL)
            self.await_end()
            time.sleep(0.1)  # the learner is nobody's child now: it cannot be waited for
        self._pid = None

    def leave(self) -> None:
        """Nothing will be started any more, and nothing runs."""
        self._starter.communicate()


@dataclass
class Traffic:
    """One client with one ranker; it goes on until told to stop, then ends with its group.

    Attributes:
        n_groups: that everything was acknowledged of.
        retried: requests that were sent again without need.
        twice: events that were accepted a second time, which must not be.
    """

    url: str
    ranker: str
    seed: int
    most: int | None = None
    n_groups: int = 0
    retried: int = 0
    twice: int = 0
    failure: BaseException | None = None
    stopping: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        try:
            with olrank.Client(self.url, tries=1, timeout_s=20.0) as client:
                while not self.stopping.is_set() and self.n_groups != self.most:
                    self._group(client)
                    self.n_groups += 1
        except BaseException as reason:
            self.failure = reason

    def _group(self, client: olrank.Client) -> None:
        again = random.Random(f"{time.monotonic_ns()}").random  # what is retried is left to chance
        events = []
        for number in range(_GROUP):
            name = f"{self.ranker}-{self.n_groups}-{number}"
            draw = random.Random(f"{self.seed} {name}")
            candidates = [
                {"id": f"d{one}", "features": [draw.random() for _ in range(_N_FEATURES)]}
                for one in range(_N_CANDIDATES)
            ]
            answer = _insist(client.rank, self.ranker, candidates, ranking_id=name)
            if again() < 0.2:
                self.retried += 1
                assert _insist(client.rank, self.ranker, candidates, ranking_id=name) == answer
            liked = max(answer["items"], key=lambda item: _taste(candidates, item["id"]))
            clicks = [{"id": liked["id"], "weight": draw.choice([1.0, 2.0])}]
            event = {"event_id": f"e-{name}", "ranking_id": name, "clicks": clicks, "close": True}
            events.append(event)
        found = _insist(client.send_events, self.ranker, events)
        assert {one["status"] for one in found} <= {"accepted", "duplicate"}, found
        if again() < 0.3:
            self.retried += 1
            found = _insist(client.send_events, self.ranker, events)
            self.twice += sum(one["status"] == "accepted" for one in found)
        n_trained = (self.n_groups + 1) * _GROUP
        until_s = time.monotonic() + _PATIENCE_S
        while (n := _insist(client.ranker, self.ranker)["n_trained"]) < n_trained:
            assert time.monotonic() < until_s, f"{self.ranker}: {n} of {n_trained} learned"
            time.sleep(0.005)
        assert n == n_trained, f"{self.ranker}: learned from {n} impressions, not {n_trained}"


def _taste(candidates: list[dict[str, Any]], item: str) -> float:
    features = next(one["features"] for one in candidates if one["id"] == item)
    return float(features[0] - features[1])


def _insist(call: Any, *args: Any, **kwargs: Any) -> Any:
    """Ask until there is an answer."""
    until_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return call(*args, **kwargs)
        except ServiceError as reason:
            if reason.status not in (0, 503) or time.monotonic() > until_s:
                raise
            time.sleep(0.05)


def prepare(folder: Path, plan: Path, cache: Path, kills: Counter[str]) -> None:
    """A folder with two rankers, made while the service is killed as it makes it."""
    service = Service(folder, plan, cache)
    for point in _ONCE:
        plan.write_text(f"{point}:1")
        service.keep_up()
        assert service.await_end() == -signal.SIGKILL
        kills[point] += 1
    service.keep_up()
    with olrank.Client(service.url) as client:
        client.wait_until_ready()
        for name in RANKERS:
            settings = {"algorithm": "pairrank", "k": 3, "history": 16, "seed": 7}
            client.create(name, _N_FEATURES, **settings, window_s=3600, limit_s=7200)
        client.wait_until_ready()
    service.stop()


def torment(
    service: Service,
    traffic: Sequence[Traffic],
    n_kills: int,
    draw: random.Random,
    kills: Counter[str],
) -> int:
    """Kill at every point in turn, in shuffled rounds; how often a point was not reached."""
    queue: list[str] = []
    missed = 0
    while sum(kills.values()) < n_kills and all(one.failure is None for one in traffic):
        if not queue:
            queue = draw.sample(POINTS, len(POINTS))
        point = queue.pop()
        times = 1 if point == _STARTING else draw.randint(1, _MOST[point.partition(".")[0]])
        service.plan.write_text(f"{point}:{times}:{draw.random()}")
        if point == _STARTING:
            time.sleep(draw.random() / 2)
            service.kill()
            kills["anywhere"] += 1
        until_s = time.monotonic() + _UNREACHED_S
        while service.plan.exists() and time.monotonic() < until_s:
            service.keep_up()
            time.sleep(0.01)
        if service.plan.exists():
            service.plan.unlink(missing_ok=True)
            missed += 1
        else:
            kills[point] += 1
            if sum(kills.values()) % 50 == 0:
                n_groups = sum(one.n_groups for one in traffic)
                print(f"{sum(kills.values())} kills, {n_groups * _GROUP} impressions", flush=True)
            time.sleep(0.05)  # the file goes first, then the process
        service.keep_up()
    return missed


def live(service: Service, seed: int, most: dict[str, int] | None = None) -> list[Traffic]:
    """Start the traffic; each of its threads is named after its ranker."""
    service.keep_up()
    traffic = [
        Traffic(service.url, name, seed, None if most is None else most[name]) for name in RANKERS
    ]
    for one in traffic:
        threading.Thread(target=one.run, name=one.ranker, daemon=True).start()
    return traffic


def join(service: Service) -> None:
    """Wait for the clients; the service is kept up meanwhile."""
    threads = [one for one in threading.enumerate() if one.name in RANKERS]
    while any(one.is_alive() for one in threads):
        service.keep_up()
        time.sleep(0.05)


def finish(service: Service, traffic: list[Traffic]) -> dict[str, tuple[str, int]]:
    """Wait for the clients, stop the service; digest and impressions of each ranker."""
    join(service)
    for one in traffic:
        if one.failure is not None:
            service.kill()
            service.leave()
            raise one.failure
    with olrank.Client(service.url) as client:  # so that replay has something to compare with
        client.wait_until_ready()
        for name in RANKERS:
            client.take_snapshot(name)
    service.stop()
    found = {one.ranker: one for one in replay(service.folder)}
    for name, one in found.items():
        assert one.agrees, f"{name}: replay gives another model than the service had"
    return {name: (one.digest, one.n_trained) for name, one in found.items()}


def crashtest(folder: Path, n_kills: int, seed: int, mutant: str = "") -> dict[str, Any]:
    """Everything; the figures. Raises when a client was promised what did not hold."""
    began_s = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    plan, cache, kills = folder / "plan", folder / "cache", Counter[str]()
    prepare(folder / "killed", plan, cache, kills)
    shutil.copytree(folder / "killed", folder / "undisturbed")
    service = Service(folder / "killed", plan, cache, mutant)
    traffic = live(service, seed)
    missed = torment(service, traffic, n_kills, random.Random(seed), kills)
    for one in traffic:
        one.stopping.set()
    disturbed = finish(service, traffic)
    n_groups = {one.ranker: one.n_groups for one in traffic}
    calm = Service(folder / "undisturbed", folder / "no plan", cache)
    undisturbed = finish(calm, live(calm, seed, n_groups))
    n_impressions = _GROUP * sum(n_groups.values())
    return {
        "kills": sum(kills.values()),
        "kills_by_point": dict(sorted(kills.items())),
        "points_not_reached_in_time": missed,
        "starts": service.n_starts,
        "impressions_acknowledged": n_impressions,
        "requests_repeated": sum(one.retried for one in traffic),
        "events_lost": n_impressions - sum(n for _, n in disturbed.values()),
        "events_accepted_twice": sum(one.twice for one in traffic),
        "digests_equal": disturbed == undisturbed,
        "digests": {name: digest for name, (digest, _) in disturbed.items()},
        "seconds": round(time.monotonic() - began_s),
    }


def main() -> None:
    """The long form."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    figures = crashtest(options.folder, options.kills, options.seed)
    text = json.dumps(figures, indent=2)
    print(text)
    if options.report is not None:
        options.report.write_text(f"{text}\n")
    good = figures["digests_equal"] and not figures["events_lost"]
    sys.exit(not (good and not figures["events_accepted_twice"]))


if __name__ == "__main__":
    main()
