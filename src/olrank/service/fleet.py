"""The live rankers of a service: opened with its log, kept current by what the learner says.

Lists are drawn in a few threads, so that one request is read while another's list is computed;
shapes that are not compiled yet go to a thread of their own, so that nobody waits for a compiler
who need not.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from olrank.errors import UnknownRankerError
from olrank.service import snapshots
from olrank.service.auth import read_secret
from olrank.service.options import Options
from olrank.service.retention import keep_house
from olrank.service.serving import LiveRanker
from olrank.service.sqlite import SqliteLog
from olrank.service.supervisor import Message, Supervisor
from olrank.service.telemetry import Metrics

_LOG = logging.getLogger("olrank.service")
_DRAWING = 2  # threads; more would only take the processor from the learner
_Value = TypeVar("_Value")


@dataclass
class Fleet:
    """The live rankers of a service.

    Attributes:
        options: how it runs.
        log: every fact, durable.
        metrics: what is counted.
        rankers: by name.
    """

    options: Options
    log: SqliteLog
    secret: bytes
    metrics: Metrics = field(default_factory=Metrics)
    rankers: dict[str, LiveRanker] = field(default_factory=dict)
    caught_up: bool = False
    position: int = 0
    _drawing: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(_DRAWING, "olrank-draw")
    )
    _compiling: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(1, "olrank-compile")
    )
    _reading: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(2, "olrank-read")
    )
    _housekeeping: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(1, "olrank-house")
    )
    _news: threading.Condition = field(default_factory=threading.Condition)
    _adopting: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def open(cls, options: Options) -> Self:
        """Open the folder's log, check it, and start the learner."""
        folder = options.folder
        folder.mkdir(parents=True, exist_ok=True)
        log = SqliteLog(folder)
        try:
            fleet = cls(options, log, read_secret(folder))
            kept: dict[int, set[str]] = {}
            for row in log.rankers():
                fleet.rankers[row.name] = LiveRanker.of(row)
                kept[row.birth] = {one.snapshot_id for one in log.snapshots(row.name)}
            snapshots.sweep(folder, kept)
        except BaseException:
            log.close()
            raise
        fleet.supervisor = Supervisor(log, folder, options.learner, fleet.hear)
        fleet.supervisor.start()
        return fleet

    supervisor: Supervisor = field(init=False)

    def close(self) -> None:
        """Let the learner take its snapshots, finish what is queued, let go of the folder."""
        self.supervisor.stop()
        for pool in (self._housekeeping, self._compiling, self._drawing, self._reading):
            pool.shutdown(wait=True, cancel_futures=True)
        self.log.close()

    def problems(self) -> list[str]:
        """Why the service is not ready; empty when it is."""
        found = [] if self.caught_up else ["the learner has not replayed the log yet"]
        if self.log.broken:
            found.append(f"the log cannot be written: {self.log.broken}")
        for one in list(self.rankers.values()):
            if one.state == "warming":
                found.append(f"ranker {one.name} is being compiled")
        return found

    def find(self, name: str) -> LiveRanker:
        """The ranker of this name."""
        if name not in self.rankers:
            raise UnknownRankerError(f'no ranker is called "{name}".')
        return self.rankers[name]

    # What the learner says, in the supervisor's thread.

    def hear(self, message: Message) -> None:
        """Take in a message of the learner."""
        op = message["op"]
        if op == "publish":
            self._take_publication(message)
        elif op == "ready":
            self.caught_up = True
            self.metrics.learner_starts.inc()
        elif op == "snapshot":
            self._submit(lambda: keep_house(self.log, self.options.folder, self.options.retention))
        elif op == "broken":
            self._note_broken(message)
        elif op == "complaint":
            _LOG.error("the learner complains", extra={"facts": {"text": message["text"]}})
        self.position = max(self.position, int(message.get("position", 0)))
        with self._news:
            self._news.notify_all()

    def _take_publication(self, message: Message) -> None:
        name = message["ranker"]
        ranker = self.rankers.get(name)
        if ranker is None or ranker.birth != message["birth"]:
            ranker = self._adopt(name, message["birth"])
        if ranker is None:
            return
        if message["leaves"]:
            ranker.publish(message["leaves"], message["version"])
        ranker.n_trained = message["n_trained"]
        ranker.position = message["position"]
        ranker.problem = None
        if message["diverged"] and ranker.serving is None:
            ranker.problem = "its parameters are no finite numbers. Promote a snapshot."
        self.metrics.version.labels(name).set(message["version"])
        self.metrics.diverged.labels(name).set(message["diverged"])
        self.metrics.learned(name, message["tally"])
        if not ranker.warm and ranker.serving is not None:
            self._compiling.submit(self._warm_up, ranker)

    def _adopt(self, name: str, birth: int) -> LiveRanker | None:
        """A ranker that the learner knew of before this thread did."""
        for row in self.log.rankers():
            if row.name == name and row.birth == birth:
                with self._adopting:
                    known = self.rankers.get(name)
                    if known is None or known.birth != birth:
                        self.rankers[name] = LiveRanker.of(row)
                    return self.rankers[name]
        return None

    def _note_broken(self, message: Message) -> None:
        ranker = self.rankers.get(message["ranker"])
        _LOG.error("a ranker is broken", extra={"facts": {"text": message["text"]}})
        if ranker is not None and ranker.birth == message["birth"]:
            ranker.problem = message["text"]

    def _warm_up(self, ranker: LiveRanker) -> None:
        if ranker.warm:
            return
        began_s = time.monotonic()
        try:
            # The greedy shapes, too: a kill switch that has to wait for a compiler is none.
            for mode in (ranker.mode(False), "greedy"):
                for size in self.options.warm_sizes:
                    if self.rankers.get(ranker.name) is ranker:
                        ranker.warm_up(size, mode)
        except Exception:
            _LOG.exception("a ranker cannot be compiled", extra={"facts": {"ranker": ranker.name}})
            ranker.problem = "its programs cannot be compiled; the service's logs say why."
            return
        # What compiling has left stays for good: searches for garbage need not look at it again.
        gc.collect()
        gc.freeze()
        ranker.warm = True
        facts = {"ranker": ranker.name, "seconds": round(time.monotonic() - began_s, 2)}
        _LOG.info("a ranker is ready", extra={"facts": facts})
        with self._news:
            self._news.notify_all()

    def _submit(self, work: Callable[[], Any]) -> None:
        def done() -> None:
            try:
                work()
            except Exception:
                _LOG.exception("housekeeping failed")

        try:
            self._housekeeping.submit(done)
        except RuntimeError:  # the service is closing
            return

    def measure(self) -> None:
        """Bring the gauges up to date."""
        head = self.log.head().position
        self.metrics.log_position.set(head)
        self.metrics.lag_records.set(max(head - self.position, 0))
        self.metrics.queue.set(self.log.backlog)
        self.metrics.learner_up.set(self.supervisor.pid is not None)
        for name, ranker in list(self.rankers.items()):
            moved = ranker.drift.largest()
            if moved is not None:
                self.metrics.drift.labels(name).set(moved[0])

    async def run(self, work: Callable[[], _Value]) -> _Value:
        """Do something that reads the log, or computes a little, out of the loop's way."""
        return await self._in(self._reading, work)

    @staticmethod
    async def _in(pool: ThreadPoolExecutor, work: Callable[[], _Value]) -> _Value:
        return await asyncio.get_running_loop().run_in_executor(pool, work)
