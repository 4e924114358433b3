"""Opening a log in SQLite for writing: its lock, a new file or an old one, and is it whole?"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import apsw

from olrank.errors import LogLockedError, LogUnavailableError
from olrank.service import crashpoints
from olrank.service.head import Mark, sync_folder
from olrank.service.records import Head
from olrank.service.sqlite_read import check_schema
from olrank.service.sqlite_tables import APPLICATION_ID, SCHEMA, SCHEMA_VERSION
from olrank.service.sqlite_verify import compare_head, verify_end, verify_rare
from olrank.service.sqlite_wal import check_mark

_SYNCHRONOUS = "FULL"  # the write-ahead log is synced at every commit, before COMMIT returns


def lock_folder(folder: Path) -> int:
    """Make the folder if need be, and a descriptor that holds its lock until it is closed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _sync_names(folder)
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as reason:
        raise LogUnavailableError(
            f"{folder}: cannot be written to ({reason.strerror}). Make the folder writable, or "
            "name another one with --data."
        ) from reason
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as reason:
        os.close(descriptor)
        raise LogLockedError(
            f"{folder}: another process has this log open. Stop it, or name another folder."
        ) from reason
    return descriptor


def _sync_names(folder: Path) -> None:
    """Make the folder's own name durable, and those of the folders made with it."""
    for parent in folder.resolve().parents:
        try:
            sync_folder(parent)
        except PermissionError:  # a folder that we cannot read we have not made either
            return


def open_log(path: Path, head: Head, mark: Mark, *, check: int, vfs: str | None) -> apsw.Connection:
    """The writing connection of a log that is whole.

    Args:
        path: of the database.
        head: what was acknowledged, as the head file says.
        mark: where the write-ahead log was then.
        check: read so many of the last records and check them.
        vfs: of tests.
    """
    db = apsw.Connection(str(path), vfs=vfs)
    try:
        db.set_busy_timeout(10_000)
        if head.position == 0 and db.execute("SELECT count(*) FROM sqlite_schema").get == 0:
            _make(db, path)
        check_mark(db, path, mark)
        check_schema(db, path)
        db.execute(f"PRAGMA synchronous = {_SYNCHRONOUS}")
        db.execute("PRAGMA secure_delete = ON")  # what is dropped is overwritten with zeros
        with db:
            compare_head(db, path, head, verify_end(db, check))
            verify_rare(db)
    except BaseException:
        db.close()
        raise
    return db


def _make(db: apsw.Connection, path: Path) -> None:
    db.execute("PRAGMA auto_vacuum = INCREMENTAL")
    db.execute("PRAGMA journal_mode = WAL")
    with db:
        db.execute(SCHEMA)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    sync_folder(path.parent)
    crashpoints.reach("store.made")
