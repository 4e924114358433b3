"""Reading a log in SQLite, from any thread of any process, beside the one that writes it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from olrank.errors import LogDamagedError, LogUnavailableError, LogVersionError
from olrank.service.head import read_slots
from olrank.service.records import (
    Head,
    Kind,
    OpenImpression,
    RankerRow,
    Record,
    SnapshotRow,
    StoredRanking,
)
from olrank.service.sqlite_errors import translated
from olrank.service.sqlite_tables import (
    APPLICATION_ID,
    SCHEMA_VERSION,
    Tables,
    select,
    tail_of,
)
from olrank.service.sqlite_verify import compare_head, verify, verify_end, verify_rare
from olrank.service.sqlite_wal import check_mark

LOG_NAME = "log.db"
_POLL_S = 0.005  # how long a new record may lie unseen by a waiting reader
_BUSY_MS = 10_000  # only recovery after a crash makes a reader wait at all

_OPEN = "SELECT ranking_id, position, served_ms, last_event_ms, wants_close FROM rankings"


class SqliteReader:
    """A log open for reading.

    Args:
        folder: the data folder.
        check: read so many of the last records at once and check that all are found; whoever
            replays a model wants that. Every record is checked when it is read.
        vfs: of tests.
    """

    def __init__(self, folder: Path, *, check: int = 0, vfs: str | None = None) -> None:
        """Look whether there is a log, whether we can read its version, and whether it is whole."""
        self._path = folder / LOG_NAME
        self._vfs = vfs
        self._idle: list[apsw.Connection] = []
        self._lock = threading.Lock()
        self._open = True
        if not self._path.exists():
            raise LogUnavailableError(f"{folder}: there is no log here. Name the folder of one.")
        self._check_whole(folder / "head", check)

    def _check_whole(self, head_path: Path, check: int) -> None:
        if not head_path.exists():
            raise LogDamagedError(
                f"{head_path}: the head file is gone, so nobody can tell whether the log is "
                "complete. Bring the data folder back from a copy."
            )
        _, head, mark = read_slots(head_path)  # first: what is written meanwhile only adds to it
        with translated(self._path):
            db = self._borrow()
            self._idle.append(db)
            check_mark(db, self._path, mark, tries=25)
        with self._reading() as db:
            check_schema(db, self._path)
            compare_head(db, self._path, head, verify_end(db, check))
            verify_rare(db)

    def head(self) -> Head:
        """The end of the log."""
        with self._reading() as db:
            return tail_of(db)

    def read(self, after: int, limit: int = 1000, ranker: str | None = None) -> list[Record]:
        """Records behind a position, in log order."""
        where = "WHERE position > ?1" + ("" if ranker is None else " AND ranker = ?3")
        values: tuple[Any, ...] = (after, limit) if ranker is None else (after, limit, ranker)
        with self._reading() as db:
            return list(select(db, f"{where} ORDER BY position LIMIT ?2", values))

    def wait(self, after: int, timeout_s: float) -> bool:
        """Block until there is a record behind `after`; False when the time ran out first."""
        until = time.monotonic() + timeout_s
        while self.head().position <= after:
            left = until - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(_POLL_S, left))
        return True

    def rankers(self) -> list[RankerRow]:
        """Rankers that are not deleted, by name."""
        with self._reading() as db:
            rows = db.execute(
                "SELECT name, birth, explore, learn, serve, version, compacted FROM rankers "
                "WHERE died IS NULL ORDER BY name"
            ).fetchall()
            return [_ranker_row(db, row) for row in rows]

    def ranking(self, ranker: str, ranking_id: str) -> StoredRanking | None:
        """A ranking with its events; None when there is none."""
        with self._reading() as db:
            tables = Tables(db)
            alive = tables.alive(ranker)
            found = None if alive is None else tables.served(alive.birth, ranking_id)
            if alive is None or found is None:
                return None
            if found.closed is not None:
                stored = _closed(tables, tables.record(found.closed))
            else:
                positions = tables.event_positions(alive.birth, ranking_id)
                events = tuple(tables.record(one) for one in positions)
                stored = StoredRanking(tables.record(found.position), events, None)
            if any(one.header.get("ranking_id") != ranking_id for one in _parts(stored)):
                raise LogDamagedError(
                    f'{self._path}: a record of ranking "{ranking_id}" is about another one. '
                    "Bring the data folder back from a copy."
                )
            return stored

    def closed(self, close: Record) -> StoredRanking:
        """What a close record closes: its ranking and its events, by the positions it names."""
        with self._reading() as db:
            return _closed(Tables(db), close)

    def open_impressions(self, ranker: str) -> list[OpenImpression]:
        """The ranker's rankings that have no close record, in log order."""
        with self._reading() as db:
            alive = Tables(db).alive(ranker)
            if alive is None:
                return []
            condition = "WHERE birth = ? AND closed IS NULL ORDER BY served_ms, position"
            return _impressions(db, condition, (alive.birth,))

    def due(
        self, ranker: str, now_ms: int, window_ms: int, limit_ms: int, most: int
    ) -> list[OpenImpression]:
        """Open impressions that should be closed, in log order, at most `most`."""
        still = "WHERE birth = ? AND closed IS NULL AND"
        with self._reading() as db:
            alive = Tables(db).alive(ranker)
            if alive is None:
                return []
            birth = alive.birth
            found = _impressions(
                db, f"{still} wants_close = 1 ORDER BY position LIMIT ?", (birth, most)
            )
            heard = f"{still} last_event_ms <= ? ORDER BY last_event_ms LIMIT ?"
            found += _impressions(db, heard, (birth, now_ms - window_ms, most))
            served = f"{still} served_ms <= ? ORDER BY served_ms LIMIT ?"
            found += _impressions(db, served, (birth, now_ms - limit_ms, most))
        return sorted({one.position: one for one in found}.values(), key=lambda one: one.position)[
            :most
        ]

    def snapshots(self, ranker: str) -> list[SnapshotRow]:
        """Kept snapshots of a ranker that is not deleted, in log order."""
        with self._reading() as db:
            tables = Tables(db)
            alive = tables.alive(ranker)
            if alive is None:
                return []
            rows: list[Any] = db.execute(
                "SELECT snapshot_id, covers, position FROM snapshots WHERE birth = ? "
                "AND forgotten IS NULL "
                "ORDER BY position",
                (alive.birth,),
            ).fetchall()
            return [SnapshotRow(name, covers, tables.record(at)) for name, covers, at in rows]

    def verify(self) -> Head:
        """Check every record, the chain, the positions and the derived tables."""
        with self._reading() as db:
            return verify(db)

    def close(self) -> None:
        """Let go of the files. Later calls raise."""
        with self._lock:
            self._open = False
            idle, self._idle = self._idle, []
        for db in idle:
            db.close()

    @contextmanager
    def _reading(self) -> Iterator[apsw.Connection]:
        """A connection that sees one moment of the log, borrowed for one question."""
        with translated(self._path):
            db = self._borrow()
            try:
                with db:  # one read transaction: all statements see the same log
                    yield db
            finally:
                with self._lock:
                    keep = self._open
                    if keep:
                        self._idle.append(db)
                if not keep:
                    db.close()

    def _borrow(self) -> apsw.Connection:
        with self._lock:
            if not self._open:
                raise LogUnavailableError(f"{self._path}: the log is closed.")
            if self._idle:
                return self._idle.pop()
        db = apsw.Connection(str(self._path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=self._vfs)
        db.set_busy_timeout(_BUSY_MS)
        db.execute("PRAGMA query_only = ON")
        return db


def check_schema(db: apsw.Connection, path: Path) -> None:
    """Refuse a file that is not a log, or one that a newer olrank wrote."""
    if db.pragma("application_id") != APPLICATION_ID:
        raise LogDamagedError(f"{path}: not a log of olrank. Name another data folder.")
    found = db.pragma("user_version")
    if found > SCHEMA_VERSION:
        raise LogVersionError(
            f"{path}: written by a newer olrank (log version {found}; this one knows up to "
            f"{SCHEMA_VERSION}). Install that version, or name another data folder."
        )


def _parts(stored: StoredRanking) -> list[Record]:
    close = [] if stored.close is None else [stored.close]
    return [stored.record, *stored.events, *close]


def _closed(tables: Tables, close: Record) -> StoredRanking:
    if close.kind is not Kind.CLOSE:
        raise LogDamagedError(
            f"log position {close.position}: a {close.kind} record stands where a close should. "
            "Bring the data folder back from a copy."
        )
    events = tuple(tables.record(one) for one in close.header["events"])
    return StoredRanking(tables.record(close.header["ranking"]), events, close)


def _ranker_row(db: apsw.Connection, row: tuple[Any, ...]) -> RankerRow:
    name, birth, explore, learn, serve, version, compacted = row
    create = Tables(db).record(birth)
    if create.kind is not Kind.CREATE or create.ranker != name:
        raise LogDamagedError(
            f'log position {birth}: the record does not create a ranker "{name}". Bring the data '
            "folder back from a copy."
        )
    config = create.header["config"]
    return RankerRow(
        name, birth, config, bool(explore), bool(learn), bool(serve), version, compacted
    )


def _impressions(
    db: apsw.Connection, condition: str, values: tuple[Any, ...]
) -> list[OpenImpression]:
    return [
        OpenImpression(ranking_id, position, served_ms, last_event_ms, bool(wants))
        for ranking_id, position, served_ms, last_event_ms, wants in db.execute(
            f"{_OPEN} {condition}", values
        )
    ]
