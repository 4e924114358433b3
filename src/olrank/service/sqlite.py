"""The log in SQLite: one folder, and one process that writes it.

What each method promises stands in log.py; what becomes of a request, in decisions.py; how it
becomes durable, in sqlite_write.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from olrank.errors import LogRefusedError
from olrank.service import codec, decisions
from olrank.service.head import HeadFile
from olrank.service.records import (
    Appended,
    CloseEntry,
    Event,
    Learned,
    RankingEntry,
    Record,
    Status,
)
from olrank.service.sqlite_compact import compact
from olrank.service.sqlite_read import SqliteReader
from olrank.service.sqlite_write import Writer, Writing, now_ms

__all__ = ["SqliteLog", "SqliteReader"]


class SqliteLog(SqliteReader):
    """A log in a folder, open for reading and writing by this process alone.

    Args:
        folder: made when there is none.
        clock_ms: the server's clock.
        check: read so many of the last records at the start and check them; a few seconds. The
            others are checked when they are read, and all by `verify`.
        vfs: of tests; `head_file` likewise.
        head_file: opens the head file.
    """

    def __init__(
        self,
        folder: Path,
        *,
        clock_ms: Callable[[], int] = now_ms,
        check: int = 200_000,
        vfs: str | None = None,
        head_file: Callable[[Path], HeadFile] = HeadFile,
    ) -> None:
        """Take the folder's lock, make or check the log, start the writing thread."""
        self._writer = Writer(folder, clock_ms, check=check, vfs=vfs, head_file=head_file)
        try:
            super().__init__(folder, vfs=vfs)
        except BaseException:
            self._writer.close()
            raise

    @property
    def backlog(self) -> int:
        """Requests that wait for the writing thread."""
        return self._writer.backlog

    @property
    def broken(self) -> str | None:
        """Why nothing can be written until the service is started again; None when all is well."""
        return self._writer.broken

    def wait(self, after: int, timeout_s: float) -> bool:
        """Block until there is a record behind `after`; False when the time ran out first."""
        return self._writer.wait(after, timeout_s)

    def create_ranker(self, name: str, config: Mapping[str, Any]) -> Future[Appended]:
        """Begin a ranker: stored; existing when it lives with an equal config; else conflict."""
        header = {"config": dict(config)}
        _check_text(name)
        return self._writer.ask(lambda tx: decisions.create_ranker(tx, name, header))

    def delete_ranker(self, name: str) -> Future[Record]:
        """A tombstone: the ranker is unknown from here on, its records go with compaction."""
        return self._writer.ask(lambda tx: decisions.delete_ranker(tx, name))

    def switch(self, ranker: str, switches: Mapping[str, bool]) -> Future[Record]:
        """Set some of explore, learn, serve. While learn is off, events are `paused`."""
        return self._writer.ask(lambda tx: decisions.switch(tx, ranker, switches))

    def append_ranking(self, entry: RankingEntry) -> Future[Appended]:
        """Store a ranking, before it is answered."""
        header = {
            **entry.header,
            "ranking_id": entry.ranking_id,
            "digest": entry.digest,
            "shown": list(entry.shown),
        }
        _check_text(entry.ranking_id, entry.digest)
        body = codec.encode(header, entry.arrays)  # here, not where the one writing thread is
        return self._writer.ask(lambda tx: decisions.append_ranking(tx, entry, header, body))

    def append_feedback(self, ranker: str, events: Sequence[Event]) -> Future[list[Status]]:
        """Store feedback events; a status for each, in order, decided one after the other."""
        for event in events:
            _check_text(event.ranking_id, event.identity)
        return self._writer.ask(lambda tx: decisions.append_feedback(tx, ranker, events))

    def claim(self) -> Future[int]:
        """Become the one learner: a new epoch, larger than all before."""
        return self._writer.ask(decisions.claim)

    def append_batch(
        self,
        epoch: int,
        ranker: str,
        closes: Sequence[CloseEntry],
        header: Mapping[str, Any] | None = None,
    ) -> Future[Learned]:
        """Close impressions and record them as the ranker's next batch: all of it, or nothing."""
        return self._writer.ask(
            lambda tx: decisions.append_batch(tx, epoch, ranker, closes, header or {})
        )

    def append_snapshot(
        self,
        epoch: int,
        ranker: str,
        snapshot_id: str,
        covers: int,
        header: Mapping[str, Any] | None = None,
    ) -> Future[Record]:
        """Record a snapshot whose file is already durable."""
        _check_text(snapshot_id)
        return self._writer.ask(
            lambda tx: decisions.append_snapshot(
                tx, epoch, ranker, snapshot_id, covers, header or {}
            )
        )

    def append_import(
        self, ranker: str, snapshot_id: str, header: Mapping[str, Any] | None = None
    ) -> Future[Record]:
        """Record an imported snapshot whose file is already durable; covers nothing (0)."""
        _check_text(snapshot_id)
        return self._writer.ask(
            lambda tx: decisions.append_import(tx, ranker, snapshot_id, header or {})
        )

    def promote(
        self, ranker: str, snapshot_id: str, header: Mapping[str, Any] | None = None
    ) -> Future[Record]:
        """From this record on the model is the snapshot's."""
        return self._writer.ask(lambda tx: decisions.promote(tx, ranker, snapshot_id, header or {}))

    def forget(self, ranker: str, snapshot_id: str) -> Future[Record]:
        """A snapshot is no longer kept. Delete its file after this is durable, never before."""
        return self._writer.ask(lambda tx: decisions.forget(tx, ranker, snapshot_id))

    def compact(
        self,
        covered: Mapping[str, int],
        closed_before_ms: int,
        erase: Mapping[str, Sequence[str]] | None = None,
        most: int = 100,
    ) -> Future[int]:
        """Drop records that no kept state needs, and overwrite them on disk."""

        def decide(tx: Writing) -> int:
            count = compact(tx, tx.db, covered, closed_before_ms, erase or {}, most)
            tx.shrink |= bool(erase) or count == 0
            return count

        return self._writer.ask(decide)

    def close(self) -> None:
        """Finish what is queued, then let go of the files. Later calls raise."""
        super().close()
        self._writer.close()


def _check_text(*texts: str) -> None:
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise LogRefusedError(f"{text!r}: an id must be text that UTF-8 can hold.") from None
