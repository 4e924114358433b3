"""Moving SQLite's write-ahead log into its database, without making writers wait.

Most of the work is done by a second connection in a thread of its own, beside the writing. What was
written meanwhile is little: the writing thread moves that itself, so that for a moment nothing is
left and SQLite begins the write-ahead log anew. SQLite's own way (inside a commit) would hold up
every request of that moment, and would not tell us of errors.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import apsw

from olrank.errors import LogError
from olrank.service import crashpoints
from olrank.service.head import Mark
from olrank.service.sqlite_errors import translated
from olrank.service.sqlite_wal import mark_of

_WAL_PAGES = 2000  # 8 MB, then it is time
_VACUUM_PAGES = 1024  # given back to the file system at a time
_RETRY_S = 1.0  # readers may stand in the way of emptying the write-ahead log


class Checkpointer:
    """Watches the write-ahead log of one database.

    Args:
        path: of the database.
        db: the writing connection.
        vfs: of tests.
    """

    def __init__(self, path: Path, db: apsw.Connection, vfs: str | None) -> None:
        """Start the thread; it sleeps until there is something to do."""
        self._path, self._db, self._vfs = path, db, vfs
        self._n_pages = 0
        self._wal: int | None = None
        self._next = _WAL_PAGES
        self._not_before_s = 0.0
        self._wake = threading.Event()
        self._moved = threading.Event()
        self._closing = False
        self.failure: LogError | None = None
        db.set_wal_hook(self._count)
        self._thread = threading.Thread(target=self._run, name="olrank-checkpoint", daemon=True)
        self._thread.start()

    def step(self, *, empty: bool) -> bool:
        """What the writing thread does between two transactions; True when `empty` is done.

        Args:
            empty: records were dropped; give their pages back and empty the write-ahead log.
        """
        if empty and time.monotonic() >= self._not_before_s:
            self._not_before_s = time.monotonic() + _RETRY_S
            return self._empty()
        if self._moved.is_set():
            self._moved.clear()
            self._move(self._db)
        elif self._n_pages >= self._next and not self._wake.is_set():
            self._wake.set()
        return False

    def mark(self) -> Mark:
        """How far the write-ahead log has come; ask after a commit, in the writing thread."""
        if self._wal is None:
            self._wal = os.open(f"{self._path}-wal", os.O_RDONLY | os.O_CLOEXEC)
        return mark_of(self._wal, self._n_pages)

    def close(self) -> None:
        """Stop the thread."""
        self._closing = True
        self._wake.set()
        self._thread.join()
        if self._wal is not None:
            os.close(self._wal)

    def _run(self) -> None:
        # Asked again before every wait: whoever closes says so first and wakes us then, and that
        # call may come just before the event is cleared.
        while not self._closing:
            self._wake.wait()
            if self._closing:
                return
            crashpoints.reach("store.checkpointing")
            try:
                with translated(self._path):
                    beside = apsw.Connection(str(self._path), vfs=self._vfs)
                    try:
                        beside.execute("PRAGMA synchronous = FULL")
                        self._move(beside)
                    finally:
                        beside.close()
            except LogError as reason:
                self.failure = reason
            crashpoints.reach("store.checkpointed")
            self._moved.set()
            self._wake.clear()

    def _move(self, db: apsw.Connection) -> None:
        try:
            with translated(self._path):
                left, moved = db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except LogError as reason:
            # The write-ahead log keeps it all; after an I/O error nobody should go on.
            if not isinstance(reason.__cause__, apsw.BusyError | apsw.FullError):
                self.failure = reason
            return
        self._next = _WAL_PAGES + (0 if left == moved else left)

    def _empty(self) -> bool:
        try:
            with translated(self._path):
                self._db.execute(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})").fetchall()
                self._db.set_busy_timeout(0)
                self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except LogError as reason:
            if not isinstance(reason.__cause__, apsw.BusyError | apsw.FullError):
                self.failure = reason
            return False
        finally:
            self._db.set_busy_timeout(10_000)
        self._n_pages = 0
        crashpoints.reach("store.emptied")
        return True

    def _count(self, _db: apsw.Connection, _name: str, n_pages: int) -> int:
        self._n_pages = n_pages
        return apsw.SQLITE_OK
