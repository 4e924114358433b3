"""Which files of a folder make up a data set, and how they divide it.

Known are LETOR's parts (S1 ... S5), LETOR's folds (Fold1 ... Fold5 with train, vali and test), a
split with an optional prefix (set1.train.txt, rank.test) and a single file; each plain or packed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from olrank.data.cache import CacheFolder
from olrank.data.groups import read_groups
from olrank.data.letor import read_letor
from olrank.data.reader import BadLines
from olrank.errors import DataError
from olrank.types import Dataset

_ENDING = r"(?:\.txt)?(?:\.gz|\.xz)?"
_PART = re.compile(rf"S([1-9]){_ENDING}", re.IGNORECASE)
_SPLIT = re.compile(rf"(?:(.+)[._-])?(train|vali|valid|validation|test){_ENDING}", re.IGNORECASE)
_FOLD = re.compile(r"Fold([1-9])", re.IGNORECASE)
_SINGLE = re.compile(r".+\.(?:txt|dat|letor|svm|svmlight)(?:\.gz|\.xz)?", re.IGNORECASE)
_NOT_DATA = re.compile(r"readme.*|licen[cs]e.*|eula.*", re.IGNORECASE)


class Split(NamedTuple):
    """Files for learning, choosing and reporting; a set may come without the second."""

    train: Path
    validation: Path | None
    test: Path


class Files(NamedTuple):
    """What a folder holds; exactly one of these is not empty.

    Attributes:
        parts: LETOR's S1, S2, ... in order.
        folds: by name, LETOR's folds ("1", "2", ...), in order.
        splits: by prefix ("" without one), splits as the owner provides them.
        single: one file that is not divided.
    """

    parts: tuple[Path, ...] = ()
    folds: tuple[tuple[str, Split], ...] = ()
    splits: tuple[tuple[str, Split], ...] = ()
    single: Path | None = None


def find_files(place: Path) -> Files:
    """The files of the set at a place: a folder, a file, or FOLDER/PREFIX of one split of several.

    Raises:
        DataError: nothing known is there.
    """
    if place.is_file():
        return Files(single=place)
    if not place.is_dir():
        chosen = dict(_splits(place.parent)).get(place.name) if place.parent.is_dir() else None
        if chosen is None:
            raise DataError(f"{place}: there is no such file or folder.\n  Check the path.")
        return Files(splits=((place.name, chosen),))
    if parts := _parts(place):
        return Files(parts=parts)
    if folds := _folds(place):
        return Files(folds=folds)
    if splits := _splits(place):
        return Files(splits=splits)
    singles = [file for file in _data_files(place) if _SINGLE.fullmatch(file.name)]
    if len(singles) == 1:
        return Files(single=singles[0])
    raise DataError(
        f"{place}: no data set is recognised here.\n"
        "  Expected S1.txt ... S5.txt, Fold1 ... Fold5, train/vali/test files, or one data file."
    )


def read_part(
    path: Path,
    *,
    n_features: int | None = None,
    cache: CacheFolder = True,
    bad_lines: BadLines = "error",
) -> Dataset:
    """Read one file of a set; in the group-file form when its sizes lie beside it."""
    sizes = sizes_of(path)
    if sizes is not None:
        return read_groups(path, sizes, n_features=n_features, cache=cache, bad_lines=bad_lines)
    return read_letor(path, n_features=n_features, cache=cache, bad_lines=bad_lines)


def sizes_of(path: Path) -> Path | None:
    """The group file of a file of rows: NAME.query or NAME.group beside it."""
    bare = re.sub(r"(\.gz|\.xz)$", "", path.name)
    names = [f"{name}.{kind}" for name in (bare, path.name) for kind in ("query", "group")]
    return next((path.parent / name for name in names if (path.parent / name).is_file()), None)


def _data_files(folder: Path) -> list[Path]:
    files = (file for file in folder.iterdir() if file.is_file())
    return sorted(file for file in files if not _NOT_DATA.fullmatch(file.name))


def _parts(folder: Path) -> tuple[Path, ...]:
    found = {int(m[1]): f for f in _data_files(folder) if (m := _PART.fullmatch(f.name))}
    return tuple(found[number] for number in sorted(found))


def _folds(folder: Path) -> tuple[tuple[str, Split], ...]:
    folders = {m[1]: f for f in folder.iterdir() if f.is_dir() and (m := _FOLD.fullmatch(f.name))}
    found = {number: dict(_splits(folders[number])).get("") for number in sorted(folders)}
    return tuple((number, split) for number, split in found.items() if split is not None)


def _splits(folder: Path) -> tuple[tuple[str, Split], ...]:
    found: dict[str, dict[str, Path]] = {}
    for file in _data_files(folder):
        if match := _SPLIT.fullmatch(file.name):
            part = match[2].lower()
            part = "validation" if part.startswith("vali") else part
            found.setdefault(match[1] or "", {})[part] = file
    return tuple(
        (prefix, Split(files["train"], files.get("validation"), files["test"]))
        for prefix, files in sorted(found.items())
        if "train" in files and "test" in files
    )
