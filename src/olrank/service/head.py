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
from typing import NamedTuple

from olrank.errors import LogDamagedError
from olrank.service import crashpoints
from olrank.service.chain import GENESIS
from olrank.service.records import Head

_SLOT = struct.Struct("<8sQQ32s8sQ")  # magic, turn, position, chain, mark; its SHA-256 follows
_MAGIC = b"olrhead1"
_APART = 4096  # no sector holds parts of both slots


class Mark(NamedTuple):
    """How far the store's own journal had come: which one, and how many of its frames."""

    salts: bytes = bytes(8)
    n_frames: int = 0


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
        self._turn, self.head, self.mark = read_slots(path)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)

    def write(self, head: Head, mark: Mark = Mark()) -> None:  # noqa: B008  it cannot change
        """Make a new head durable."""
        turn = self._turn + 1
        self._put(_slot(turn, head, mark), (turn % 2) * _APART)
        crashpoints.reach("store.head_written")
        self._sync()
        self._turn, self.head, self.mark = turn, head, mark

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)

    def _put(self, slot: bytes, offset: int) -> None:
        if os.pwrite(self._descriptor, slot, offset) != len(slot):
            raise OSError(errno.EIO, f"{self._path}: a write was cut short")

    def _sync(self) -> None:
        os.fdatasync(self._descriptor)


def read_slots(path: Path) -> tuple[int, Head, Mark]:
    """The newest whole slot: its turn, the head and the mark that it holds."""
    found: list[tuple[int, Head, Mark]] = []
    raw = path.read_bytes()
    for start in (0, _APART):
        slot = raw[start : start + _SLOT.size]
        seal = raw[start + _SLOT.size : start + _SLOT.size + 32]
        if len(slot) == _SLOT.size and hashlib.sha256(slot).digest() == seal:
            magic, turn, position, chain, salts, n_frames = _SLOT.unpack(slot)
            if magic == _MAGIC:
                found.append((turn, Head(position, chain), Mark(salts, n_frames)))
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
    empty, mark = Head(0, GENESIS), Mark()
    with beside.open("wb") as file:
        for turn in (0, 1):
            file.write(_slot(turn, empty, mark).ljust(_APART, b"\0"))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync_folder(path.parent)
    crashpoints.reach("store.head_made")


def _slot(turn: int, head: Head, mark: Mark) -> bytes:
    slot = _SLOT.pack(_MAGIC, turn, head.position, head.chain, mark.salts, mark.n_frames)
    return slot + hashlib.sha256(slot).digest()
