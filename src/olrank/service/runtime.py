"""The service without HTTP: rankers, their log, their learner, and what may be asked of them.

Lists are drawn in one thread, so that compiled programs do not fight over the processor; shapes
that are not compiled yet go to another, so that nobody waits for a compiler who need not. Every
answer leaves after its record is durable.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import ValidationError

from olrank.errors import ConfigError, LogRefusedError, UnknownRankerError
from olrank.service import blueprint as blueprints
from olrank.service import snapshots
from olrank.service.auth import read_secret
from olrank.service.options import Options
from olrank.service.problems import Problem, of_validation, warming
from olrank.service.records import (
    Event,
    Outcome,
    RankingEntry,
    Record,
    Status,
    StoredRanking,
)
from olrank.service.retention import keep_house
from olrank.service.schema import CreateRanker, Feedback, FeedbackEvent, RankRequest
from olrank.service.serving import LiveRanker
from olrank.service.sqlite import SqliteLog
from olrank.service.supervisor import Message, Supervisor
from olrank.service.telemetry import Metrics

_LOG = logging.getLogger("olrank.service")
_HEAVIEST = 1e6  # of a click; beyond it 32-bit sums of many clicks lose the light ones
_PROMOTE_S = 10.0  # longest wait for a promoted model to be served
_Value = TypeVar("_Value")


@dataclass
class Runtime:
    """A running service.

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
        default_factory=lambda: ThreadPoolExecutor(1, "olrank-draw")
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
    def open(cls, options: Options) -> Runtime:
        """Open the folder's log, check it, and start the learner."""
        folder = options.folder
        folder.mkdir(parents=True, exist_ok=True)
        log = SqliteLog(folder)
        try:
            runtime = cls(options, log, read_secret(folder))
            kept: dict[int, set[str]] = {}
            for row in log.rankers():
                runtime.rankers[row.name] = LiveRanker.of(row)
                kept[row.birth] = {one.snapshot_id for one in log.snapshots(row.name)}
            snapshots.sweep(folder, kept)
        except BaseException:
            log.close()
            raise
        runtime.supervisor = Supervisor(log, folder, options.learner, runtime.hear)
        runtime.supervisor.start()
        return runtime

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

    # What clients ask.

    async def create(self, request: CreateRanker) -> tuple[LiveRanker, bool]:
        """Begin a ranker; True when it is new."""
        config = await self._in(self._reading, lambda: self._config(request))
        appended = await asyncio.wrap_future(self.log.create_ranker(request.name, config))
        if appended.outcome is Outcome.CONFLICT:
            raise Problem(
                409,
                "ranker_exists",
                f"ranker {request.name} exists with another configuration.",
                "Choose another name, or delete it first.",
            )
        birth = appended.record.position
        ranker = self.rankers.get(request.name)
        if ranker is None or ranker.birth != birth:
            ranker = await self._in(self._reading, lambda: self._adopt(request.name, birth))
        if ranker is None:
            raise UnknownRankerError(f"ranker {request.name} was deleted meanwhile.")
        return ranker, appended.outcome is Outcome.STORED

    def _config(self, request: CreateRanker) -> dict[str, Any]:
        listed = request.features
        features: Any = listed
        if not isinstance(listed, int):
            features = [(f, None) if isinstance(f, str) else (f.name, f.default) for f in listed]
        same = ("algorithm", "settings", "k", "history", "normalise", "seed", "window_s")
        more = ("limit_s", "explore_share", "keep_candidates")
        given = {name: getattr(request, name) for name in (*same, *more)}
        config = blueprints.resolve(features=features, **given)
        size, limit = blueprints.make(config).size_bytes, self.options.limits.model_bytes
        if size > limit:
            raise ConfigError(
                f"ranker {request.name}: its state would take {size >> 20} MiB, more than the "
                f"{limit >> 20} MiB that this service allows. Lower history, k, features or width."
            )
        if len(self.rankers) >= self.options.limits.rankers and request.name not in self.rankers:
            raise Problem(
                409,
                "too_many_rankers",
                f"this service holds {self.options.limits.rankers} rankers already.",
                "Delete one, or start the service with a higher limit.",
            )
        return config

    async def delete(self, name: str) -> None:
        """Log a tombstone; the data goes with compaction."""
        await asyncio.wrap_future(self.log.delete_ranker(name))
        self.rankers.pop(name, None)
        self._submit(lambda: keep_house(self.log, self.options.folder, self.options.retention))

    async def switch(self, name: str, switches: dict[str, bool]) -> dict[str, bool]:
        """Set switches; they hold for every request after the answer."""
        ranker = self.find(name)
        if switches:
            record = await asyncio.wrap_future(self.log.switch(name, switches))
            ranker.set_switches(switches, record.position)
        return dict(ranker.switches)

    async def rank(self, name: str, body: bytes) -> dict[str, Any]:
        """Draw a list, store it, answer it."""
        ranker = self.find(name)
        if ranker.serving is None:
            raise warming(name)

        def drawn_or_not() -> RankingEntry | RankRequest:
            request: RankRequest = parse(RankRequest, body)
            return ranker.entry(request, self.secret) if ranker.is_compiled(request) else request

        entry = await self._in(self._drawing, drawn_or_not)
        if isinstance(entry, RankRequest):
            request = entry
            entry = await self._in(self._compiling, lambda: ranker.entry(request, self.secret))
        appended = await asyncio.wrap_future(self.log.append_ranking(entry))
        if appended.outcome is Outcome.CONFLICT:
            raise Problem(
                409,
                "ranking_exists",
                f'ranking_id "{entry.ranking_id}" was used for another request.',
                "Use a new ranking_id for every request, and the same one only for its retries.",
            )
        answer: dict[str, Any] = appended.record.header["answer"]
        if appended.outcome is Outcome.STORED:
            self.metrics.ranked(
                name,
                answer["mode"],
                answer["choices"],
                answer["certain_pairs"],
                answer["uncertain_pairs"],
            )
        return answer

    async def feedback(self, name: str, request: Feedback) -> list[dict[str, Any]]:
        """Store events; a status for each."""
        self.find(name)
        events = [_event(one) for one in request.events]
        heavy = [any(weight > _HEAVIEST for _, weight in event.clicks) for event in events]
        kept = [event for event, is_heavy in zip(events, heavy, strict=True) if not is_heavy]
        found = await asyncio.wrap_future(self.log.append_feedback(name, kept)) if kept else []
        left = iter(found)
        statuses = [Status.REJECTED if is_heavy else next(left) for is_heavy in heavy]
        for status in statuses:
            self.metrics.events.labels(name, status.value).inc()
        return [
            {"ranking_id": event.ranking_id, "event_id": event.event_id, "status": status.value}
            for event, status in zip(events, statuses, strict=True)
        ]

    async def stored(self, name: str, ranking_id: str) -> StoredRanking:
        """A ranking that was served."""
        self.find(name)
        found = await self._in(self._reading, lambda: self.log.ranking(name, ranking_id))
        if found is None:
            raise Problem(
                404,
                "unknown_ranking",
                f'ranker {name} has no ranking "{ranking_id}".',
                "It was never served, or it is older than the service keeps rankings.",
            )
        return found

    async def take_snapshot(self, name: str) -> str:
        """Have the learner take a snapshot now; its id."""
        self.find(name)
        snapshot_id: str = await asyncio.wrap_future(self.supervisor.ask("snapshot", name))
        return snapshot_id

    async def promote(self, name: str, snapshot_id: str) -> tuple[Record, bool]:
        """Go back (or on) to a snapshot; the record, and whether it is served already."""
        ranker = self.find(name)
        await self._in(self._reading, lambda: self._check_kept(ranker, snapshot_id))
        record = await asyncio.wrap_future(self.log.promote(name, snapshot_id))
        return record, await self._in(
            self._reading, lambda: self._await_position(ranker, record.position)
        )

    def _check_kept(self, ranker: LiveRanker, snapshot_id: str) -> None:
        if all(one.snapshot_id != snapshot_id for one in self.log.snapshots(ranker.name)):
            raise LogRefusedError(f'ranker {ranker.name} keeps no snapshot "{snapshot_id}".')
        # Whole and unchanged: once the record is written, every replay needs this file.
        snapshots.check(snapshots.path(self.options.folder, ranker.birth, snapshot_id))
        snapshots.pin(self.options.folder, ranker.birth, snapshot_id)

    def _await_position(self, ranker: LiveRanker, position: int) -> bool:
        with self._news:
            return self._news.wait_for(lambda: ranker.position >= position, _PROMOTE_S)

    async def import_snapshot(self, name: str, content: bytes) -> str:
        """Store a snapshot brought from elsewhere; its id."""
        ranker = self.find(name)
        snapshot_id = snapshots.new_id(self.log.head().position)
        facts = await self._in(
            self._reading,
            lambda: snapshots.take_in(
                self.options.folder, ranker.birth, snapshot_id, content, ranker.blueprint
            ),
        )
        header = {key: facts[key] for key in ("version", "n_trained", "digest", "build")}
        await asyncio.wrap_future(
            self.log.append_import(name, snapshot_id, {**header, "reason": "import"})
        )
        return snapshot_id

    async def erase(self, name: str, ranking_ids: list[str]) -> int:
        """Overwrite what the log holds of these rankings; how many records are gone."""
        snapshot_id = await self.take_snapshot(name)
        rows = await self._in(self._reading, lambda: self.log.snapshots(name))
        covered = {name: next(row.covers for row in rows if row.snapshot_id == snapshot_id)}
        return await asyncio.wrap_future(self.log.compact(covered, 0, {name: ranking_ids}))

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


def parse(kind: type[Any], body: bytes) -> Any:
    """A request from its bytes, by pydantic's own parser."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise of_validation(error) from None


def _event(one: FeedbackEvent) -> Event:
    clicks = [(click.id, click.weight) for click in one.clicks]
    return Event(one.ranking_id, clicks, one.shown_upto, one.close, one.event_id)
