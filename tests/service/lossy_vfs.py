"""A disk that forgets what was not synced, seen through SQLite's VFS, to test power failures.

kill -9 keeps the page cache, so it cannot show that a sync is missing. Here every write is noted
until its file is synced; `Disk.image` is the disk after a power failure: what was synced, and of
the other writes whatever the test lets survive.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import apsw

from olrank.service.head import HeadFile


@dataclass(frozen=True)
class Write:
    """Bytes at an offset, or the end of the file when `data` is None."""

    offset: int
    data: bytes | None


Survival = Callable[[Sequence[Write]], Sequence[Write]]
"""Which unsynced writes of a file reach the disk, and in which order."""


@dataclass
class _File:
    synced: bytes | None = None  # None: the power failed before the file was ever synced
    pending: list[Write] = field(default_factory=list)


class Disk:
    """All files of a folder: what is synced, and what is not.

    Attributes:
        n_syncs: of each file.
        before_sync: called with a file's name when a sync of it begins.
        before_write: called with a file's name before a write; may raise.
    """

    def __init__(self) -> None:
        self._files: dict[str, _File] = {}
        self._lock = threading.RLock()
        self.n_syncs: dict[str, int] = {}
        self.before_sync: Callable[[str], None] = lambda name: None
        self.before_write: Callable[[str], None] = lambda name: None

    def write(self, name: str, offset: int, data: bytes | None) -> None:
        with self._lock:
            self._files.setdefault(name, _File()).pending.append(Write(offset, data))

    def sync(self, name: str) -> None:
        with self._lock:
            self.n_syncs[name] = self.n_syncs.get(name, 0) + 1
            file = self._files.setdefault(name, _File())
            file.synced = _apply(file.synced or b"", file.pending)
            file.pending.clear()

    def delete(self, name: str) -> None:
        with self._lock:
            self._files.pop(name, None)

    def pending(self, name: str) -> list[Write]:
        with self._lock:
            return list(self._files[name].pending) if name in self._files else []

    def image(self, survives: Survival = lambda writes: ()) -> dict[str, bytes]:
        """Every file's content after a power failure now."""
        with self._lock:
            found = {}
            for name, file in self._files.items():
                kept = survives(file.pending)
                if file.synced is not None or kept:
                    found[name] = _apply(file.synced or b"", kept)
            return found


def restore(image: dict[str, bytes], folder: Path) -> Path:
    """Write an image into a new folder."""
    folder.mkdir(parents=True)
    for name, content in image.items():
        (folder / name).write_bytes(content)
    return folder


@contextmanager
def mounted(disk: Disk, name: str = "lossy") -> Iterator[str]:
    """The disk as a VFS of SQLite, by its name."""
    vfs = _Vfs(disk, name)
    try:
        yield name
    finally:
        vfs.unregister()


class LossyHead(HeadFile):
    """The head file on such a disk."""

    disk: Disk

    def __init__(self, path: Path) -> None:
        new = not path.exists()
        super().__init__(path)
        if new:  # it is made whole and synced before it gets its name
            self.disk.write("head", 0, path.read_bytes())
            self.disk.sync("head")

    def _put(self, slot: bytes, offset: int) -> None:
        self.disk.before_write("head")
        super()._put(slot, offset)
        self.disk.write("head", offset, slot)

    def _sync(self) -> None:
        self.disk.before_sync("head")
        super()._sync()
        self.disk.sync("head")


def head_on(disk: Disk) -> type[LossyHead]:
    """What SqliteLog opens its head file with, to have it on this disk."""
    return type("HeadOnDisk", (LossyHead,), {"disk": disk})


class _Vfs(apsw.VFS):
    def __init__(self, disk: Disk, name: str) -> None:
        self._disk = disk
        super().__init__(name, base="")

    def xOpen(self, name: object, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _VfsFile(self._disk, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        self._disk.delete(Path(filename).name)


class _VfsFile(apsw.VFSFile):
    def __init__(self, disk: Disk, name: object, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        self._name = Path(name.filename() if isinstance(name, apsw.URIFilename) else name).name

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._disk.before_write(self._name)
        super().xWrite(data, offset)
        self._disk.write(self._name, offset, bytes(data))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        super().xTruncate(newsize)
        self._disk.write(self._name, newsize, None)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.before_sync(self._name)
        super().xSync(flags)
        self._disk.sync(self._name)


def _apply(content: bytes, writes: Sequence[Write]) -> bytes:
    out = bytearray(content)
    for one in writes:
        if one.data is None:
            del out[one.offset :]
        else:
            out.extend(bytes(max(0, one.offset - len(out))))
            out[one.offset : one.offset + len(one.data)] = one.data
    return bytes(out)
