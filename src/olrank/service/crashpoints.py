"""Named places where a crash test stops a process as if the power had failed.

`OLRANK_CRASH=store.committed:3` kills the process that reaches that point for the third time;
`OLRANK_CRASH=@FILE` looks for such a line in a file, each time that a point is reached. Unset, as
it is outside tests, reaching a point costs one comparison.
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

_VARIABLE = "OLRANK_CRASH"

POINTS = (
    "store.head_made",  # a new folder has its head file, and no log yet
    "store.made",  # and an empty log
    "store.taken",  # requests are off the queue, no transaction yet
    "store.begun",  # a transaction, nothing in it
    "store.decided",  # statuses are decided, records are written, not committed
    "store.committed",  # durable, the head is not
    "store.head_written",  # the head is written, not synced
    "store.head_synced",  # all durable, nobody knows yet
    "store.answered",  # the first of the futures is resolved
    "store.acknowledged",  # all futures are resolved
    "store.checkpointing",  # before the write-ahead log moves into the database
    "store.checkpointed",
    "store.emptied",  # nothing is left in the write-ahead log
    "store.compacting",  # before records are dropped
    "store.compacted",  # dropped within the transaction
    "remote.received",  # a child's request is here, not yet queued
    "remote.answering",  # it is durable, the child does not know yet
    "learner.claimed",  # the learner's epoch is durable, nothing is recovered yet
    "learner.batch_decided",  # impressions are due, no close is written
    "learner.batch_appended",  # closes and batch are durable, nothing is learned yet
    "learner.applying",  # the batch record is read
    "learner.applied",  # learned, not published
    "learner.published",
    "snapshot.begun",  # no file yet
    "snapshot.renamed",  # the file has its name, the folder is not synced
    "snapshot.durable",  # no record names the file
    "snapshot.recorded",
    "snapshot.forgotten",  # the log does not name the file any more, it is still there
)
"""Every point there is; a test reaches each of them. Learner, snapshots and app add theirs here."""


class _Plan:
    """Where to die: fixed by the environment, or by a file that a test writes while we run.

    The file is taken away just before dying, so that one file is one death, whoever gets there.
    """

    def __init__(self, text: str) -> None:
        self._path = Path(text[1:]) if text.startswith("@") else None
        self._lock = threading.Lock()
        self._text, self._left = "", 0
        if self._path is None:
            self._set(text)

    def reach(self, name: str) -> None:
        with self._lock:
            if self._path is not None:
                self._set(_read(self._path))
            if name != self._text.partition(":")[0]:
                return
            self._left -= 1
            if self._left <= 0 and (self._path is None or _taken_away(self._path)):
                os.kill(os.getpid(), signal.SIGKILL)

    def _set(self, text: str) -> None:
        if text != self._text:  # a new plan counts from the start
            self._text, self._left = text, int((text.split(":") + ["1", "1"])[1])


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def _taken_away(path: Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True


_plan = _Plan(os.environ[_VARIABLE]) if _VARIABLE in os.environ else None


def reach(name: str) -> None:
    """Die here, at once and without cleaning up, when the environment asks for it."""
    if _plan is not None:
        _plan.reach(name)
