"""The head file: how far the log had been acknowledged, kept beside the log.

A damaged write-ahead log looks like a shorter one, so the log alone cannot tell that its end is
missing. This file can. Two slots take turns, each with its own checksum, so that a crash in the
middle of a write leaves the other one; it is synced before anything is acknowledged.
"""

from __future__ import annotations

import errno
import hashlib
import os
import struct
from pathlib import Path

from olrank.errors import LogDamagedError
from olrank.service import crashpoints
from olrank.service.chain import GENESIS
from olrank.service.records import Head

_SLOT = struct.Struct("<8sQQ32s")  # magic, turn, position, chain; its SHA-256 follows
_MAGIC = b"olrhead1"
_APART = 4096  # no sector holds parts of both slots


class HeadFile:
    """The file, open for writing.

    Args:
        path: made when there is none, as the head of an empty log.
    """

    def __init__(self, path: Path) -> None:
        """Open it and read the newest slot that is whole."""
        self._path = path
        if not path.exists():
            _make(path)
        self._turn, self.head = read_slots(path)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)

    def write(self, head: Head) -> None:
        """Make a new head durable."""
        turn = self._turn + 1
        self._put(_slot(turn, head), (turn % 2) * _APART)
        crashpoints.reach("store.head_written")
        self._sync()
        self._turn, self.head = turn, head

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)

    def _put(self, slot: bytes, offset: int) -> None:
        if os.pwrite(self._descriptor, slot, offset) != len(slot):
            raise OSError(errno.EIO, f"{self._path}: a write was cut short")

    def _sync(self) -> None:
        os.fdatasync(self._descriptor)


def read_slots(path: Path) -> tuple[int, Head]:
    """The newest whole slot: its turn, and the head that it holds."""
    found: list[tuple[int, Head]] = []
    raw = path.read_bytes()
    for start in (0, _APART):
        slot = raw[start : start + _SLOT.size]
        seal = raw[start + _SLOT.size : start + _SLOT.size + 32]
        if len(slot) == _SLOT.size and hashlib.sha256(slot).digest() == seal:
            magic, turn, position, chain = _SLOT.unpack(slot)
            if magic == _MAGIC:
                found.append((turn, Head(position, chain)))
    if not found:
        raise LogDamagedError(
            f"{path}: neither slot is whole, so nobody can tell whether the log beside it is "
            "complete. Bring the folder back from a copy."
        )
    return max(found, key=lambda one: one[0])


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _make(path: Path) -> None:
    beside = path.with_name(f"{path.name}.part")
    empty = Head(0, GENESIS)
    with beside.open("wb") as file:
        file.write(_slot(0, empty).ljust(_APART, b"\0") + _slot(1, empty).ljust(_APART, b"\0"))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync_folder(path.parent)
    crashpoints.reach("store.head_made")


def _slot(turn: int, head: Head) -> bytes:
    slot = _SLOT.pack(_MAGIC, turn, head.position, head.chain)
    return slot + hashlib.sha256(slot).digest()
