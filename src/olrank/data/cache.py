"""Parsed data sets kept as memory-mapped arrays, found again by the checksums of their files.

    checksums/KEY         the SHA-256 of one file; KEY: its path, size and time of change
    sets/KEY/*.npy        a set's arrays; KEY: its files' SHA-256, the reader's version, the options
    sets/KEY/about.json   the rest of it, and what the arrays must look like

A set appears under its name only when it is complete. What does not look as `about.json` says is
read again from the files and replaced. A folder that cannot be written is done without.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from olrank.data.problems import SkippedLines
from olrank.errors import DataError

CacheFolder = str | os.PathLike[str] | bool | None
"""True: the default folder; False or None: no cache; else the folder."""

_VERSION = 1  # raise it when the same files would be read to other arrays
_SAMPLE_BYTES = 1 << 16
_MAX_SAMPLES = 256
_SETTLED_NS = 10**8  # a file changed this lately may change again within one tick of its clock
_ARRAYS = ("features", "grades", "offsets")


class Content(NamedTuple):
    """What a set of files says: the arrays of a `Dataset`, and the lines left out."""

    features: npt.NDArray[np.float32]
    grades: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    query_ids: Sequence[str]
    skipped: SkippedLines


def cached(
    paths: Sequence[Path],
    options: Mapping[str, Any],
    cache: CacheFolder,
    build: Callable[[], Content],
) -> tuple[Content, str]:
    """The content of these files under these options, from the cache or from `build`.

    Returns:
        The content, and the SHA-256 of the files and the options, the same with and without cache.
    """
    folder = cache_folder(cache)
    checksums = [file_checksum(path, folder) for path in paths]
    made_of = {"files": checksums, "options": dict(options)}
    checksum = _sha256(json.dumps(made_of, sort_keys=True))
    if folder is None:
        return build(), checksum
    place = folder / "sets" / _sha256(f"{_VERSION} {checksum}")
    content = _load(place)
    if content is None:
        content = build()
        if _store(content, place):
            content = _load(place) or content
    return content, checksum


def cache_folder(cache: CacheFolder) -> Path | None:
    """The folder that a `cache` argument means; `$OLRANK_CACHE` moves the default one."""
    if cache is None or cache is False:
        return None
    if cache is not True:
        return Path(cache)
    if chosen := os.environ.get("OLRANK_CACHE"):
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", "~\\AppData\\Local")).expanduser() / "olrank"
    if sys.platform == "darwin":
        return Path("~/Library/Caches/olrank").expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "olrank"


def file_checksum(path: Path, folder: Path | None) -> str:
    """SHA-256 of a file; remembered in the folder by path, size and time of change."""
    try:
        stat = path.stat()
        known = None
        if folder is not None:
            identity = f"{path.resolve()} {stat.st_size} {stat.st_mtime_ns}"
            known = folder / "checksums" / _sha256(identity)
            checksum = _read_text(known)
            if len(checksum) == 64:
                return checksum
        settled = time.time_ns() - stat.st_mtime_ns > _SETTLED_NS
        with path.open("rb") as file:
            checksum = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({error.strerror}).\n  Check the path and its permissions."
        ) from None
    if known is not None and settled:
        _write_text(known, checksum)
    return checksum


def _read_text(path: Path) -> str:
    try:
        return path.read_text("ascii")
    except (OSError, ValueError):
        return ""


def _write_text(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            file.write(text)
        os.replace(file.name, path)
    except OSError:
        pass  # the next load hashes the file again


def _store(content: Content, place: Path) -> bool:
    """Write a set aside and move it to its place; whether it is there now."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=".new-", dir=place.parent))
    except OSError:
        return False
    try:
        for name in _ARRAYS:
            np.save(aside / f"{name}.npy", getattr(content, name))
        about = {
            "query_ids": list(content.query_ids),
            "skipped": content.skipped.to_json(),
            "arrays": {name: _fingerprint(aside / f"{name}.npy") for name in _ARRAYS},
        }
        text = json.dumps(about)
        (aside / "about.json").write_text(f"{_sha256(text)}\n{text}", "utf-8")
        if place.exists():  # damaged, or another process was faster: in both cases ours is good
            os.replace(place, aside / "old")
        os.replace(aside, place)
        shutil.rmtree(place / "old", ignore_errors=True)
        return True
    except OSError:
        return False
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _load(place: Path) -> Content | None:
    """The set at this place; None when there is none, or it is damaged."""
    try:
        checksum, _, text = (place / "about.json").read_text("utf-8").partition("\n")
        if checksum != _sha256(text):
            return None
        about = json.loads(text)
        for name in _ARRAYS:
            if _fingerprint(place / f"{name}.npy") != about["arrays"][name]:
                return None
        mapped = np.load(place / "features.npy", mmap_mode="r", allow_pickle=False)
        grades, offsets = (np.load(place / f"{n}.npy", allow_pickle=False) for n in _ARRAYS[1:])
        skipped = SkippedLines.from_json(about["skipped"])
        # a plain array on the mapped memory: indexing a memmap object is slower
        return Content(np.asarray(mapped), grades, offsets, about["query_ids"], skipped)
    except (OSError, ValueError, KeyError):
        return None


def _fingerprint(path: Path) -> str:
    """SHA-256 of a file's size and content; of samples all over it when it is large.

    16 MiB are looked at: all of a small set, enough of a large one to notice a file that was cut
    or overwritten, and little enough to open a set of any size at once.
    """
    size = path.stat().st_size
    n_samples = min(_MAX_SAMPLES, -(-size // _SAMPLE_BYTES))
    starts = np.linspace(0, max(0, size - _SAMPLE_BYTES), n_samples, dtype=np.int64)
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        for start in starts.tolist():
            file.seek(start)
            digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
