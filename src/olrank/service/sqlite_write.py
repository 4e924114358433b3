"""Writing the log in SQLite: one thread, and one sync for all requests that came together.

The thread takes all that is queued, decides each request in turn within one transaction, commits
(write-ahead log, full sync), makes the head file durable, and only then resolves the futures.
Nothing that fails on the way is acknowledged.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import apsw

from olrank.errors import LogDamagedError, LogError, LogUnavailableError
from olrank.service import chain, crashpoints
from olrank.service.head import HeadFile
from olrank.service.records import Head, Kind, Record
from olrank.service.sqlite_checkpoint import Checkpointer
from olrank.service.sqlite_errors import translated
from olrank.service.sqlite_open import lock_folder, open_log
from olrank.service.sqlite_read import LOG_NAME
from olrank.service.sqlite_tables import Tables, tail_of

_Answer = TypeVar("_Answer")
_GROUP = 512  # requests in one transaction, at most; the next group gathers meanwhile

_log = logging.getLogger(__name__)


def now_ms() -> int:
    """The server's clock."""
    return time.time_ns() // 1_000_000


class Writing(Tables):
    """The transaction that decisions write in.

    Attributes:
        db: the one writing connection.
        tail: the end of the log, including what this transaction appended.
        shrink: records were dropped; their pages should leave the files.
    """

    def __init__(self, db: apsw.Connection, clock_ms: Callable[[], int]) -> None:
        """Begin at the end of the log."""
        super().__init__(db)
        self.db = db
        self.tail = tail_of(db)
        self.shrink = False
        self._clock_ms = clock_ms
        last = db.execute("SELECT at_ms FROM records WHERE position = ?", (self.tail.position,))
        self._at_ms = int(last.get or 0)

    def append(self, kind: Kind, ranker: str, header: Mapping[str, Any], body: bytes) -> Record:
        """Write a record and all that is derived from it."""
        # The clock may go back; times along the log do not.
        self._at_ms = max(self._at_ms, self._clock_ms())
        position = self.tail.position + 1
        value = chain.link(self.tail.chain, position, kind, ranker, self._at_ms, body)
        record = Record(position, kind, ranker, self._at_ms, body, value)
        self.db.execute(
            "INSERT INTO records(position, kind, ranker, at_ms, chain, body) "
            "VALUES(?, ?, ?, ?, ?, ?)",
            (position, kind.value, ranker, self._at_ms, value, body),
        )
        self.derive(record, header)
        self.tail = Head(position, value)
        return record


@dataclass(frozen=True)
class _Request:
    decide: Callable[[Writing], Any]
    future: Future[Any] = field(default_factory=Future)


class Writer:
    """The writing thread of a folder.

    Args:
        folder: made when there is none.
        clock_ms: the server's clock.
        check: read so many of the last records at the start and check them.
        vfs: of tests.
        head_file: opens the head file.
    """

    def __init__(
        self,
        folder: Path,
        clock_ms: Callable[[], int],
        *,
        check: int,
        vfs: str | None,
        head_file: Callable[[Path], HeadFile],
    ) -> None:
        """Take the folder's lock, make or check the log, start."""
        self._path = folder / LOG_NAME
        self._lock = lock_folder(folder)
        try:
            if self._path.exists() and not (folder / "head").exists():  # the head is made first
                raise LogDamagedError(
                    f"{folder}: the head file is gone, so nobody can tell whether the log is "
                    "complete. Bring the data folder back from a copy."
                )
            self._head = head_file(folder / "head")
            try:
                with translated(self._path):
                    head, mark = self._head.head, self._head.mark
                    db = open_log(self._path, head, mark, check=check, vfs=vfs)
                    self._writing = Writing(db, clock_ms)
            except BaseException:
                self._head.close()
                raise
        except BaseException:
            os.close(self._lock)
            raise
        self._checkpointer = Checkpointer(self._path, db, vfs)
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._news = threading.Condition()
        self._closing = False
        self.broken: str | None = None
        self._thread = threading.Thread(target=self._run, name="olrank-log", daemon=True)
        self._thread.start()

    @property
    def backlog(self) -> int:
        """Requests that wait."""
        return self._requests.qsize()

    def ask(self, decide: Callable[[Writing], _Answer]) -> Future[_Answer]:
        """Queue a request; its future resolves when the answer is durable."""
        request = _Request(decide)
        with self._news:
            if not self._closing:
                self._requests.put(request)
                return request.future
        request.future.set_exception(LogUnavailableError(f"{self._path}: the log is closed."))
        return request.future

    def wait(self, after: int, timeout_s: float) -> bool:
        """Block until there is an acknowledged record behind a position."""
        with self._news:
            return self._news.wait_for(lambda: self._head.head.position > after, timeout_s)

    def close(self) -> None:
        """Finish what is queued, then let go of the files."""
        with self._news:
            if self._closing:
                return
            self._closing = True
            self._requests.put(None)
        self._thread.join()
        self._checkpointer.close()
        try:
            with translated(self._path):
                self._writing.db.close()
        finally:
            self._head.close()
            os.close(self._lock)

    def _run(self) -> None:
        closing = False
        while not closing:
            taken = [self._requests.get()]
            while len(taken) < _GROUP and not self._requests.empty():
                taken.append(self._requests.get())
            closing = None in taken
            # A request that its caller has given up must not be written.
            group = [
                one
                for one in taken
                if one is not None and one.future.set_running_or_notify_cancel()
            ]
            if group:
                self._serve(group)

    def _serve(self, group: Sequence[_Request]) -> None:
        crashpoints.reach("store.taken")
        try:
            with translated(self._path):
                answers = self._commit(group)
        except Exception as reason:
            failure = self._failure(reason)
            answers = [failure] * len(group)
        for request, answer in zip(group, answers, strict=True):
            if isinstance(answer, Exception):
                request.future.set_exception(answer)
            else:
                request.future.set_result(answer)
            crashpoints.reach("store.answered")
        crashpoints.reach("store.acknowledged")
        with self._news:
            self._news.notify_all()
        try:
            self._checkpoint()
        except Exception as reason:  # without this thread, requests would wait for ever
            self._failure(reason)

    def _commit(self, group: Sequence[_Request]) -> list[Any]:
        """The answer or the exception of each request, all durable."""
        if self.broken is not None:
            raise LogUnavailableError(self.broken)
        writing, db = self._writing, self._writing.db
        before = writing.tail
        try:
            db.execute("BEGIN IMMEDIATE")
            crashpoints.reach("store.begun")
            answers = [self._decide(request) for request in group]
            crashpoints.reach("store.decided")
            db.execute("COMMIT")
        except BaseException:
            writing.tail = before
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        crashpoints.reach("store.committed")
        if writing.tail != before:
            self._head.write(writing.tail, self._checkpointer.mark())
        crashpoints.reach("store.head_synced")
        return answers

    def _decide(self, request: _Request) -> Any:
        """One request's answer; one that cannot be done leaves nothing behind and fails alone."""
        writing, db = self._writing, self._writing.db
        before = writing.tail
        db.execute("SAVEPOINT request")
        try:
            answer = request.decide(writing)
        except apsw.Error:
            raise
        except Exception as reason:
            writing.tail = before
            db.execute("ROLLBACK TO request")
            answer = reason
        db.execute("RELEASE request")
        return answer

    def _failure(self, reason: Exception) -> LogError:
        """What to tell a whole group; all but a full disk stops the writing for good.

        After a failed write or sync nobody knows what the disk holds: only a fresh start, which
        reads and checks it, may go on.
        """
        full = isinstance(reason.__cause__, apsw.FullError)
        if self.broken is None and not full:
            text = str(reason) if isinstance(reason, LogError) else f"{self._path}: {reason!r}."
            self.broken = f"{text} Nothing is written until the service starts again."
            _log.error(self.broken)
        return reason if isinstance(reason, LogError) else LogUnavailableError(str(self.broken))

    def _checkpoint(self) -> None:
        if self.broken is not None:
            return
        if self._checkpointer.step(empty=self._writing.shrink):
            self._writing.shrink = False
        if self._checkpointer.failure is not None:
            self._failure(self._checkpointer.failure)
