"""The log: what every store promises. Several stores, one contract (tests/service).

Every ranking, every feedback event and every decision is a record here before its reply leaves.
Order is commit order: a reader who has seen position p will never see a new record at or below p.

- Writing methods return a future at once; it resolves when the records are durable, so that
  concurrent requests share a sync (`await asyncio.wrap_future(future)`, or `future.result()`).
  Statuses are decided inside the writing transaction. A future that raises acknowledges nothing;
  after LogUnavailableError the append may or may not have happened, as when a reply is lost:
  retry with the same ids.
- Reading methods block and are safe from any thread. They see only committed records, check every
  record they return, and raise LogDamagedError rather than return a changed one.
- Errors (olrank.errors): UnknownRankerError, StaleEpochError, LogRefusedError (the request makes
  no sense: a close of a closed ranking, a snapshot nobody recorded), LogUnavailableError (disk
  full, I/O error, closed), LogDamagedError, LogLockedError (another process has the folder open),
  LogVersionError (written by a newer olrank).

How the learner uses it: `claim` once at its start, then in a loop: `wait`, `due` for each ranker,
`append_batch`; and `read` everything after the position it has applied, in order. It applies a
batch when it *reads* the batch record, never from what it had in mind when it appended: events
that were accepted before the close record count, also those it had not seen. So the live learner
and replay run the same code. What a close record closes, both ask of `closed(close)`, not of
`ranking`: it reads only records, each checked, so that damage in the derived tables cannot change
a replayed model.

Stores: `sqlite.SqliteLog(folder)` is a whole Log and holds the folder's lock;
`sqlite.SqliteReader(folder)` reads beside it, from any process (replay: with `check`). A child
process writes through its parent: `remote.connect(connection, reader)` there is a whole Log,
while here `remote.serve(log, connection)` runs in a thread, until the connection closes. Crash
tests stop a process at `crashpoints.reach("learner.batch_appended")` and the like.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from olrank.service.records import (
    Appended,
    Arrays,
    CloseEntry,
    Event,
    Head,
    Kind,
    Learned,
    OpenImpression,
    Outcome,
    RankerRow,
    RankingEntry,
    Record,
    SnapshotRow,
    Status,
    StoredRanking,
    clicks_of,
)

__all__ = [
    "Appended",
    "Arrays",
    "CloseEntry",
    "Event",
    "Head",
    "Kind",
    "Learned",
    "Log",
    "LogReader",
    "LogWriter",
    "OpenImpression",
    "Outcome",
    "RankerRow",
    "RankingEntry",
    "Record",
    "SnapshotRow",
    "Status",
    "StoredRanking",
    "clicks_of",
]


class LogReader(Protocol):
    """What can be asked of a log; also of one that is open for reading only."""

    def head(self) -> Head:
        """The end of the log."""

    def read(self, after: int, limit: int = 1000, ranker: str | None = None) -> list[Record]:
        """Records behind a position, in log order.

        Args:
            after: a position; 0 reads from the start.
            limit: at most so many; go on with the last one's position. Fewer (also none) means
                that the end was reached when the call was made.
            ranker: only records about this one (its name; all rankers that ever had it).
        """

    def wait(self, after: int, timeout_s: float) -> bool:
        """Block until there is a record behind `after`; False when the time ran out first."""

    def rankers(self) -> list[RankerRow]:
        """Rankers that are not deleted, by name."""

    def ranking(self, ranker: str, ranking_id: str) -> StoredRanking | None:
        """A ranking of a ranker that is not deleted, with its events; None when there is none.

        None too when compaction has dropped it: that is the horizon of the promise that the same
        ranking_id gets the stored answer, and that its events are known again.
        """

    def closed(self, close: Record) -> StoredRanking:
        """What a close record closes: its ranking and its events, by the positions that it names.

        Nothing but records is asked, and each is checked, so that replay depends on nothing else.
        LogDamagedError when one of them is missing: replay from a snapshot that covers the close.
        """

    def open_impressions(self, ranker: str) -> list[OpenImpression]:
        """The ranker's rankings that have no close record, in log order."""

    def due(
        self, ranker: str, now_ms: int, window_ms: int, limit_ms: int, most: int
    ) -> list[OpenImpression]:
        """Open impressions that should be closed, in log order of their rankings, at most `most`.

        Due is: an event wants it closed; or the last event is at least window_ms old; or it was
        served at least limit_ms ago. `last_event_ms is None` marks one that is closed as "unshown".
        """

    def snapshots(self, ranker: str) -> list[SnapshotRow]:
        """Kept snapshots of a ranker that is not deleted, in log order."""

    def verify(self) -> Head:
        """Check every record, the chain, the positions and the derived tables; the end it found.

        Raises:
            LogDamagedError: names the first position that is wrong.
        """

    def close(self) -> None:
        """Finish what is queued, then let go of the files. Later calls are unavailable."""


class LogWriter(Protocol):
    """What can be written. `header` and `arrays` are the caller's additions to the record's body.

    A header must not use the store's names (records.py lists them). Ids and names are any text.
    """

    def create_ranker(self, name: str, config: Mapping[str, Any]) -> Future[Appended]:
        """Begin a ranker: stored; existing when it lives with an equal config; else conflict."""

    def delete_ranker(self, name: str) -> Future[Record]:
        """A tombstone: the ranker is unknown from here on, its records go with compaction."""

    def switch(self, ranker: str, switches: Mapping[str, bool]) -> Future[Record]:
        """Set some of explore, learn, serve. While learn is off, events are `paused`."""

    def append_ranking(self, entry: RankingEntry) -> Future[Appended]:
        """Store a ranking, before it is answered.

        Answers `stored`; or `existing` with the stored record when ranking_id and digest are
        known (answer from that record's header, not from the new draw); or `conflict` when the id
        is known with another digest. UnknownRankerError when entry.birth is not alive.
        """

    def append_feedback(self, ranker: str, events: Sequence[Event]) -> Future[list[Status]]:
        """Store feedback events; a status for each, in order, decided one after the other.

        The first that fits: rejected (a weight is not finite or negative, shown_upto negative);
        duplicate or conflict (the event's id is known, with the same body or another);
        unknown_ranking; unknown_item (a click on an id that was not shown); rejected (shown_upto
        beyond what was shown); late (closed); paused (learn is off); accepted. An event without
        event_id is known by its body. Only accepted and paused events become records.
        """

    def claim(self) -> Future[int]:
        """Become the one learner: a new epoch, larger than all before; older ones are fenced."""

    def append_batch(
        self,
        epoch: int,
        ranker: str,
        closes: Sequence[CloseEntry],
        header: Mapping[str, Any] | None = None,
    ) -> Future[Learned]:
        """Close impressions and record them as the ranker's next batch: all of it, or nothing.

        The positions are neighbours: closes in the order given, then the batch. At least one
        close. StaleEpochError when another learner claimed since; LogRefusedError when a ranking
        is unknown or already closed.
        """

    def append_snapshot(
        self,
        epoch: int,
        ranker: str,
        snapshot_id: str,
        covers: int,
        header: Mapping[str, Any] | None = None,
    ) -> Future[Record]:
        """Record a snapshot whose file is already durable. `covers` is at most the log's end.

        StaleEpochError like `append_batch`; LogRefusedError when the id was used before.
        """

    def append_import(
        self, ranker: str, snapshot_id: str, header: Mapping[str, Any] | None = None
    ) -> Future[Record]:
        """Record an imported snapshot whose file is already durable; covers nothing (0)."""

    def promote(
        self, ranker: str, snapshot_id: str, header: Mapping[str, Any] | None = None
    ) -> Future[Record]:
        """From this record on the model is the snapshot's. LogRefusedError when it is not kept."""

    def forget(self, ranker: str, snapshot_id: str) -> Future[Record]:
        """A snapshot is no longer kept. Delete its file after this is durable, never before.

        LogRefusedError when it is not kept, and when it is the one that dropped records are
        covered by (a kept snapshot must cover `RankerRow.compacted`, unless that is 0).
        """

    def compact(
        self,
        covered: Mapping[str, int],
        closed_before_ms: int,
        erase: Mapping[str, Sequence[str]] | None = None,
        most: int = 100,
    ) -> Future[int]:
        """Drop records that no kept state needs, and overwrite them on disk; how many were dropped.

        Only `most` impressions at a time, so that writers wait only briefly: call it until it
        returns 0 (until then, and until readers let go, what was dropped may lie in the files).

        Dropped are: everything of deleted rankers; and of the others, up to covered[ranker], the
        rankings closed there (with their events and closes) whose close is older than
        closed_before_ms, batches older than that, and snapshots that were forgotten. Create,
        switch, promote, kept snapshots and open rankings stay. A later event for a dropped ranking
        is `unknown_ranking`.

        Args:
            covered: for each ranker to compact, the position that a kept snapshot of it covers;
                LogRefusedError when none covers that much. Take the oldest one that must stay
                usable.
            closed_before_ms: the retention: now less the age that records are kept for.
            erase: ranking ids to drop whatever their age ("delete what you know of this user");
                LogRefusedError when one is open, or closed behind covered[ranker].
            most: impressions to drop in this call.
        """


class Log(LogReader, LogWriter, Protocol):
    """A whole log."""
