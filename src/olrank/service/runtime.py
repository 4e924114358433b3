"""The service without HTTP: what clients may ask of its rankers and its log.

Every answer leaves after its record is durable.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any

from pydantic import ValidationError

from olrank.errors import ConfigError, LogRefusedError, UnknownRankerError
from olrank.service import blueprint as blueprints
from olrank.service import snapshots
from olrank.service.fleet import Fleet
from olrank.service.problems import Problem, of_validation, warming
from olrank.service.records import (
    Appended,
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

_HEAVIEST = 1e6  # of a click; beyond it 32-bit sums of many clicks lose the light ones
_PROMOTE_S = 10.0  # longest wait for a promoted model to be served

_Drawn = tuple[RankingEntry, Future[Appended]]
"""A list, and the future of its record."""


class Runtime(Fleet):
    """A running service: its rankers, and what may be asked of them."""

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

        def drawn_or_not() -> _Drawn | RankRequest:
            request: RankRequest = parse(RankRequest, body)
            return self._draw(ranker, request) if ranker.is_compiled(request) else request

        found = await self._in(self._drawing, drawn_or_not)
        if isinstance(found, RankRequest):
            request = found
            found = await self._in(self._compiling, lambda: self._draw(ranker, request))
        entry, stored = found
        appended = await asyncio.wrap_future(stored)
        if appended.outcome is Outcome.CONFLICT:
            raise Problem(
                409,
                "ranking_exists",
                f'ranking_id "{entry.ranking_id}" was used for another request.',
                "Use a new ranking_id for every request, and the same one only for its retries.",
            )
        if appended.outcome is Outcome.EXISTING:
            known: dict[str, Any] = appended.record.header["answer"]
            return known
        answer: dict[str, Any] = entry.header["answer"]
        pairs = answer["certain_pairs"], answer["uncertain_pairs"]
        self.metrics.ranked(name, answer["mode"], answer["choices"], *pairs)
        return answer

    def _draw(self, ranker: LiveRanker, request: RankRequest) -> _Drawn:
        entry = ranker.entry(request, self.secret)
        return entry, self.log.append_ranking(entry)

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

    async def catch_up(self, name: str) -> dict[str, int]:
        """Return when all that is due by now is learned and served: its version and impressions."""
        self.find(name)
        # The learner publishes before it answers, through the same pipe.
        reached: dict[str, int] = await asyncio.wrap_future(self.supervisor.ask("catch_up", name))
        return reached

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


def parse(kind: type[Any], body: bytes) -> Any:
    """A request from its bytes, by pydantic's own parser."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise of_validation(error) from None


def _event(one: FeedbackEvent) -> Event:
    clicks = [(click.id, click.weight) for click in one.clicks]
    return Event(one.ranking_id, clicks, one.shown_upto, one.close, one.event_id)
