"""Folds as the sets define them, or by query where a set has none."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from olrank.data.cache import CacheFolder
from olrank.data.files import Files, Split, find_files, read_part
from olrank.data.letor import name_of
from olrank.data.normalise import normalise as normalise_set
from olrank.data.normalise import normalise_fold
from olrank.data.reader import BadLines
from olrank.errors import ConfigError, DataError
from olrank.types import Dataset, Fold

T = TypeVar("T")

_N_PARTS = 5  # LETOR's: three to learn on, one to choose on, one to report on
_WIDTHS = {"set1": 700, "set2": 700}  # Yahoo's two sets share their features; each lacks some


class _Reading(NamedTuple):
    """How to read a part."""

    name: str
    normalise: str
    cache: CacheFolder
    bad_lines: BadLines

    def part(self, file: Path, n_features: int | None = None) -> Dataset:
        read = read_part(file, n_features=n_features, cache=self.cache, bad_lines=self.bad_lines)
        named = replace(read, name=self.name)
        # by query or not at all, a part is normalised once, however many folds it is in
        return named if self.normalise == "global" else normalise_set(named, self.normalise)


def read_folds(
    place: str | os.PathLike[str],
    *,
    normalise: str = "none",
    name: str | None = None,
    only: Sequence[int] | None = None,
    fractions: Sequence[float] = (0.6, 0.2, 0.2),
    n_folds: int = _N_PARTS,
    seed: int = 0,
    cache: CacheFolder = True,
    bad_lines: BadLines = "error",
) -> list[Fold]:
    """The folds of the data set at a place.

    Args:
        place: a folder with S1 ... S5, with Fold1 ... Fold5, with train, vali and test files
            (FOLDER/PREFIX chooses among several, as in Yahoo's set1.train.txt), or a single file.
        normalise: how to normalise; "global" takes its range from each fold's train part.
        name: what rows and figures call the set; from the place's name when None.
        only: numbers of the folds to give, from 1; all when None.
        fractions: of a single file, the shares of queries in train, validation and test.
        n_folds: of a single file, how many folds to make.
        seed: of a single file, for the order in which queries are dealt out.
        cache: as in `read_letor`.
        bad_lines: as in `read_letor`.

    Returns:
        Folds named "1", "2", ...; all sets in one have the same width and scale of grades.
    """
    path = Path(place)
    files = find_files(path)
    title = name or (name_of([path]) if path.is_file() else path.resolve().name)
    reading = _Reading(title, normalise, cache, bad_lines)
    if files.parts:
        folds = letor_folds([reading.part(file) for file in files.parts], only)
    elif files.single is not None:
        whole = reading.part(files.single)
        folds = _chosen(split(whole, fractions, seed=seed, n_folds=n_folds), only)
    else:
        splits = _chosen(files.folds or _one_split(path, files), only)
        folds = [_read_split(number, split_files, reading) for number, split_files in splits]
    return [normalise_fold(fold, normalise) for fold in folds]


def letor_folds(parts: Sequence[Dataset], only: Sequence[int] | None = None) -> list[Fold]:
    """LETOR's cyclic folds: fold i learns on parts i to i + 2, chooses on the next, reports on it.

    Args:
        parts: S1 ... S5.
        only: numbers of the folds to give, from 1; all when None.
    """
    if len(parts) != _N_PARTS:
        raise DataError(
            f"LETOR's folds are made of {_N_PARTS} parts, S1 to S{_N_PARTS}; found {len(parts)}.\n"
            "  Fetch the missing parts, or read the files you have as one set."
        )
    same = align(parts)

    def fold(number: int) -> Fold:
        turned = [same[(number - 1 + i) % _N_PARTS] for i in range(_N_PARTS)]
        return Fold(str(number), concatenate(turned[:3]), turned[3], turned[4])

    return [fold(number) for number in _chosen(range(1, _N_PARTS + 1), only)]


def split(
    dataset: Dataset,
    fractions: Sequence[float] = (0.6, 0.2, 0.2),
    *,
    seed: int = 0,
    n_folds: int = 1,
) -> list[Fold]:
    """Folds by query for a set that has none.

    Queries are shuffled once and cut into train, validation and test; each further fold turns the
    shuffled order by 1 / n_folds of the set first. So with five folds and the usual fractions every
    query is tested on exactly once, as in LETOR.

    Args:
        dataset: the whole set.
        fractions: the shares of train, validation and test; they sum to 1.
        seed: for the shuffle.
        n_folds: how many folds to make.
    """
    if len(fractions) != 3 or min(fractions) < 0 or abs(sum(fractions) - 1) > 1e-9:
        raise ConfigError(f"fractions: {tuple(fractions)} are not three shares that sum to 1.")
    n_queries = dataset.n_queries
    cuts = np.rint(np.cumsum(fractions)[:2] * n_queries).astype(np.int64)
    if cuts[0] == 0 or cuts[1] == n_queries:
        raise DataError(
            f"{dataset.name}: {n_queries} queries are too few for a train and a test part.\n"
            "  Give more queries or other fractions."
        )
    order = np.random.default_rng(seed).permutation(n_queries)
    folds = []
    for i in range(n_folds):
        turned = np.roll(order, -round(i * n_queries / n_folds))
        parts = [_taken(dataset, np.sort(queries)) for queries in np.split(turned, cuts)]
        folds.append(Fold(str(i + 1), *parts))
    return folds


def concatenate(parts: Sequence[Dataset], name: str | None = None) -> Dataset:
    """Several sets as one, in this order."""
    if len({part.normalise for part in parts}) > 1:
        raise DataError("sets that are normalised in different ways cannot become one.")
    same = align(parts)
    ends = np.cumsum([0, *(part.n_rows for part in same)])
    starts = [part.offsets[:-1] + end for part, end in zip(same, ends[:-1], strict=True)]
    known = [part.relevance for part in same if part.relevance is not None]
    return replace(
        same[0],
        name=name or same[0].name,
        features=np.concatenate([part.features for part in same]),
        grades=np.concatenate([part.grades for part in same]),
        offsets=np.concatenate([*starts, ends[-1:]]).astype(np.int64),
        query_ids=[query_id for part in same for query_id in part.query_ids],
        relevance=np.concatenate(known) if len(known) == len(same) else None,
        checksum=_sha256("concatenate", *(part.checksum for part in same)),
    )


def align(parts: Sequence[Dataset]) -> list[Dataset]:
    """The sets brought to one width (missing features are 0) and one scale of grades."""
    width = max(part.n_features for part in parts)
    max_grade = max(part.max_grade for part in parts)

    def widened(part: Dataset) -> Dataset:
        if part.n_features == width:
            return replace(part, max_grade=max_grade)
        missing = ((0, 0), (0, width - part.n_features))
        return replace(part, max_grade=max_grade, features=np.pad(part.features, missing))

    return [widened(part) for part in parts]


def _read_split(number: str, files: Split, reading: _Reading) -> Fold:
    n_features = _WIDTHS.get(files.train.name.split(".")[0])
    parts = [reading.part(file, n_features) for file in files if file is not None]
    same = align(parts)
    validation = same[1] if files.validation else same[0].select([])
    return Fold(number, same[0], validation, same[-1])


def _one_split(place: Path, files: Files) -> Sequence[tuple[str, Split]]:
    if len(files.splits) > 1:
        prefixes = [prefix for prefix, _ in files.splits]
        raise DataError(
            f"{place}: there are several sets here: {', '.join(prefixes)}.\n"
            f"  Name one of them, as in {place / prefixes[0]}."
        )
    return [("1", files.splits[0][1])]


def _chosen(folds: Sequence[T], only: Sequence[int] | None) -> list[T]:
    if only is None:
        return list(folds)
    unknown = [number for number in only if not 1 <= number <= len(folds)]
    if unknown:
        raise ConfigError(f"folds: there is no fold {unknown[0]}; the set has {len(folds)}.")
    return [folds[number - 1] for number in only]


def _taken(dataset: Dataset, queries: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Dataset:
    part = dataset.select(queries)
    return replace(part, checksum=_sha256(dataset.checksum, *map(str, queries.tolist())))


def _sha256(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()
