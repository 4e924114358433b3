"""What becomes of each request, decided inside the writing transaction. The same for every store.

Each function reads what it needs through `Transaction`, raises before it has written anything, or
appends its records. Nothing here knows of a database.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from olrank.errors import LogRefusedError, StaleEpochError, UnknownRankerError
from olrank.service import codec
from olrank.service.records import (
    Appended,
    CloseEntry,
    Event,
    Head,
    Kind,
    Learned,
    Outcome,
    RankingEntry,
    Record,
    Status,
)

SWITCHES = ("explore", "learn", "serve")


class Alive(NamedTuple):
    """A ranker that is not deleted."""

    birth: int
    learn: bool
    version: int
    compacted: int


class Served(NamedTuple):
    """A stored ranking: its record's position, what was asked, the item ids, its close record."""

    position: int
    digest: str
    shown: Sequence[str]
    closed: int | None


class Kept(NamedTuple):
    """A snapshot that was recorded; `kept` until it is forgotten."""

    covers: int
    kept: bool


class Transaction(Protocol):
    """What a decision can ask of a store while it writes. Answers include the records so far."""

    @property
    def tail(self) -> Head:
        """The end of the log, including what this transaction appended."""

    def alive(self, name: str) -> Alive | None:
        """The ranker that has this name now."""

    def served(self, birth: int, ranking_id: str) -> Served | None:
        """A ranking by its id."""

    def event_digest(self, birth: int, identity: str) -> str | None:
        """The digest of a stored event."""

    def event_positions(self, birth: int, ranking_id: str) -> list[int]:
        """Where the stored events of a ranking stand in the log."""

    def snapshot(self, birth: int, snapshot_id: str) -> Kept | None:
        """A recorded snapshot."""

    def covers(self, birth: int) -> Sequence[int]:
        """The positions that the ranker's kept snapshots cover."""

    def epoch(self) -> int:
        """The epoch of the last claim; 0 before the first."""

    def record(self, position: int) -> Record:
        """One record."""

    def append(self, kind: Kind, ranker: str, header: Mapping[str, Any], body: bytes) -> Record:
        """Write a record and all that is derived from it. `body` holds `header`, encoded."""


def write(tx: Transaction, kind: Kind, ranker: str, header: Mapping[str, Any]) -> Record:
    """Append a record without arrays."""
    return tx.append(kind, ranker, header, codec.encode(header, {}))


def living(tx: Transaction, name: str) -> Alive:
    """The ranker of this name, or an error that says there is none."""
    found = tx.alive(name)
    if found is None:
        raise UnknownRankerError(f'no ranker is called "{name}". Create it first.')
    return found


def create_ranker(tx: Transaction, name: str, header: Mapping[str, Any]) -> Appended:
    """Begin a ranker, unless one of this name lives."""
    if not name:
        raise LogRefusedError("a ranker needs a name that is not empty.")
    found = tx.alive(name)
    if found is None:
        return Appended(Outcome.STORED, write(tx, Kind.CREATE, name, header))
    stored = tx.record(found.birth)
    same = codec.encode(stored.header, {}) == codec.encode(header, {})
    return Appended(Outcome.EXISTING if same else Outcome.CONFLICT, stored)


def delete_ranker(tx: Transaction, name: str) -> Record:
    """End a ranker."""
    return write(tx, Kind.DELETE, name, {"birth": living(tx, name).birth})


def switch(tx: Transaction, ranker: str, switches: Mapping[str, bool]) -> Record:
    """Set some switches of a ranker."""
    living(tx, ranker)
    for name in switches:
        if name not in SWITCHES:
            raise LogRefusedError(f'no switch is called "{name}". Known: {", ".join(SWITCHES)}.')
    return write(tx, Kind.SWITCH, ranker, {"switches": dict(switches)})


def append_ranking(
    tx: Transaction, entry: RankingEntry, header: Mapping[str, Any], body: bytes
) -> Appended:
    """Store a ranking, unless its id is known."""
    ranker = living(tx, entry.ranker)
    if ranker.birth != entry.birth:
        raise UnknownRankerError(
            f'ranker "{entry.ranker}": it was deleted while this ranking was drawn. Ask again.'
        )
    found = tx.served(ranker.birth, entry.ranking_id)
    if found is None:
        return Appended(Outcome.STORED, tx.append(Kind.RANKING, entry.ranker, header, body))
    same = found.digest == entry.digest
    outcome = Outcome.EXISTING if same else Outcome.CONFLICT
    return Appended(outcome, tx.record(found.position))


def append_feedback(tx: Transaction, ranker: str, events: Sequence[Event]) -> list[Status]:
    """Decide events one after the other, and store those that count."""
    statuses = []
    living(tx, ranker)
    for event in events:
        status = judge(tx, living(tx, ranker), event)
        if status in (Status.ACCEPTED, Status.PAUSED):
            write(tx, Kind.FEEDBACK, ranker, _feedback_header(event, status))
        statuses.append(status)
    return statuses


def judge(tx: Transaction, ranker: Alive, event: Event) -> Status:
    """The status of one event, by all that was stored before it."""
    upto = event.shown_upto
    if any(not math.isfinite(weight) or weight < 0 for _, weight in event.clicks):
        return Status.REJECTED
    if upto is not None and upto < 0:
        return Status.REJECTED
    known = tx.event_digest(ranker.birth, event.identity)
    if known is not None:
        return Status.DUPLICATE if known == event.digest else Status.CONFLICT
    found = tx.served(ranker.birth, event.ranking_id)
    if found is None:
        return Status.UNKNOWN_RANKING
    if any(item not in found.shown for item, _ in event.clicks):
        return Status.UNKNOWN_ITEM
    if upto is not None and upto > len(found.shown):
        return Status.REJECTED
    if found.closed is not None:
        return Status.LATE
    return Status.ACCEPTED if ranker.learn else Status.PAUSED


def claim(tx: Transaction) -> int:
    """Begin a new epoch."""
    epoch = tx.epoch() + 1
    write(tx, Kind.CLAIM, "", {"epoch": epoch})
    return epoch


def append_batch(
    tx: Transaction,
    epoch: int,
    ranker: str,
    closes: Sequence[CloseEntry],
    header: Mapping[str, Any],
) -> Learned:
    """Close impressions and record the batch that they make."""
    _fence(tx, epoch)
    alive = living(tx, ranker)
    if not closes:
        raise LogRefusedError(f'ranker "{ranker}": a batch needs at least one close.')
    headers = [_close_header(tx, alive.birth, one) for one in closes]
    if len({one["ranking"] for one in headers}) < len(headers):
        raise LogRefusedError(f'ranker "{ranker}": a batch closes the same ranking twice.')
    written = [write(tx, Kind.CLOSE, ranker, one) for one in headers]
    first, last, version = written[0].position, written[-1].position, alive.version + 1
    batch = {**header, "version": version, "first": first, "last": last}
    return Learned(first, last, write(tx, Kind.BATCH, ranker, batch).position, version)


def append_snapshot(
    tx: Transaction,
    epoch: int,
    ranker: str,
    snapshot_id: str,
    covers: int,
    header: Mapping[str, Any],
) -> Record:
    """Record a snapshot that the learner has written."""
    _fence(tx, epoch)
    if not 0 <= covers <= tx.tail.position:
        raise LogRefusedError(
            f'snapshot "{snapshot_id}": it says it covers position {covers}, but the log ends at '
            f"{tx.tail.position}."
        )
    return _new_snapshot(tx, Kind.SNAPSHOT, ranker, snapshot_id, {**header, "covers": covers})


def append_import(
    tx: Transaction, ranker: str, snapshot_id: str, header: Mapping[str, Any]
) -> Record:
    """Record a snapshot that came from elsewhere."""
    return _new_snapshot(tx, Kind.IMPORT, ranker, snapshot_id, {**header, "covers": 0})


def promote(tx: Transaction, ranker: str, snapshot_id: str, header: Mapping[str, Any]) -> Record:
    """Make a kept snapshot the model."""
    _kept(tx, living(tx, ranker).birth, snapshot_id)
    return write(tx, Kind.PROMOTE, ranker, {**header, "snapshot_id": snapshot_id})


def forget(tx: Transaction, ranker: str, snapshot_id: str) -> Record:
    """Stop keeping a snapshot, unless records that it covers are gone."""
    alive = living(tx, ranker)
    going = _kept(tx, alive.birth, snapshot_id)
    covers = list(tx.covers(alive.birth))
    covers.remove(going.covers)
    if alive.compacted and not any(one >= alive.compacted for one in covers):
        raise LogRefusedError(
            f'snapshot "{snapshot_id}": records up to position {alive.compacted} were dropped '
            "because it covers them. Take another snapshot first."
        )
    return write(tx, Kind.FORGET, ranker, {"snapshot_id": snapshot_id})


def _feedback_header(event: Event, status: Status) -> dict[str, Any]:
    return {
        "event_id": event.identity,
        "digest": event.digest,
        "ranking_id": event.ranking_id,
        "clicks": [[item, float(weight)] for item, weight in event.clicks],
        "shown_upto": event.shown_upto,
        "close": event.close,
        "status": status.value,
    }


def _fence(tx: Transaction, epoch: int) -> None:
    current = tx.epoch()
    if epoch != current:
        raise StaleEpochError(
            f"epoch {epoch} is over: another learner claimed epoch {current}. Stop this one."
        )


def _close_header(tx: Transaction, birth: int, close: CloseEntry) -> dict[str, Any]:
    ranking_id = close.ranking_id
    found = tx.served(birth, ranking_id)
    if found is None:
        raise LogRefusedError(f'ranking "{ranking_id}": it cannot be closed, nobody served it.')
    if found.closed is not None:
        raise LogRefusedError(
            f'ranking "{ranking_id}": it cannot be closed twice (closed at {found.closed}).'
        )
    return {
        **close.header,
        "ranking_id": ranking_id,
        "ranking": found.position,
        "events": tx.event_positions(birth, ranking_id),
        "reason": close.reason,
    }


def _new_snapshot(
    tx: Transaction, kind: Kind, ranker: str, snapshot_id: str, header: Mapping[str, Any]
) -> Record:
    if tx.snapshot(living(tx, ranker).birth, snapshot_id) is not None:
        raise LogRefusedError(f'snapshot "{snapshot_id}": this id is taken. Choose another one.')
    return write(tx, kind, ranker, {**header, "snapshot_id": snapshot_id})


def _kept(tx: Transaction, birth: int, snapshot_id: str) -> Kept:
    found = tx.snapshot(birth, snapshot_id)
    if found is None or not found.kept:
        raise LogRefusedError(f'snapshot "{snapshot_id}": no such snapshot is kept.')
    return found
