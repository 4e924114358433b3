"""How far SQLite's write-ahead log had come when a record was acknowledged; is it still there?

SQLite ends a write-ahead log at its first damaged frame, in silence. Pages behind that frame may
have been moved into the database already, and then old pages hide new ones: tables that do not fit
each other, and no error. So the head file notes how many frames were synced, and of which
write-ahead log (its salts change whenever SQLite begins it anew).
"""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

import apsw

from olrank.errors import LogDamagedError
from olrank.service.head import Mark

_HEADER = 32  # bytes: magic, version, page size, sequence, two salts, two checksums
_PAUSE_S = 0.02
_MAGIC = 0x377F0682  # its last bit says in which byte order the checksum reads words


def mark_of(descriptor: int, n_frames: int) -> Mark:
    """The mark of a write-ahead log that is open for reading."""
    return Mark(os.pread(descriptor, 8, 16), n_frames)


def check_mark(db: apsw.Connection, path: Path, mark: Mark, tries: int = 1) -> None:
    """Refuse a write-ahead log that lost frames which were acknowledged.

    Args:
        db: open, with what SQLite could recover; not in a transaction.
        path: of the database.
        mark: as the head file has it.
        tries: more than one where another process may be writing: while it begins the write-ahead
            log anew, file and count do not fit each other for a moment.
    """
    beside = path.with_name(f"{path.name}-wal")
    for _ in range(tries - 1):
        if _trouble(db, beside, mark) is None:
            return
        time.sleep(_PAUSE_S)
    trouble = _trouble(db, beside, mark)
    if trouble is not None:
        raise LogDamagedError(f"{beside}: {trouble}. Bring the data folder back from a copy.")


def _trouble(db: apsw.Connection, beside: Path, mark: Mark) -> str | None:
    raw = _read(beside)
    if not raw.strip(b"\0"):
        return None  # it was emptied in good order: all of it is in the database
    if len(raw) < _HEADER or not _is_whole(raw):
        return "its header is damaged"
    db.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # SQLite recovers it now
    n_frames, _ = db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
    if raw[16:24] == mark.salts and n_frames < mark.n_frames:
        return f"only {n_frames} of {mark.n_frames} acknowledged frames are whole"
    return None


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_HEADER)
    except FileNotFoundError:
        return b""


def _is_whole(header: bytes) -> bool:
    magic = struct.unpack_from(">I", header)[0]
    words = struct.unpack_from(">6I" if magic & 1 else "<6I", header)
    first = second = 0
    for one, two in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + two + first) & 0xFFFFFFFF
    return magic & ~1 == _MAGIC and struct.unpack_from(">2I", header, 24) == (first, second)
