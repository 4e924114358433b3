"""Judged queries in LETOR's form (SVMlight with query ids), read whole and checked line by line.

    GRADE qid:ID FEATURE:VALUE FEATURE:VALUE ... # comment

Features that a line leaves out are 0. Queries may come in any order, each in one run of lines.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from olrank.data.cache import CacheFolder, Content, cached
from olrank.data.oneline import Grammar
from olrank.data.problems import SkippedLines
from olrank.data.reader import BadLines, Table, read_table
from olrank.errors import ConfigError, DataError
from olrank.types import Dataset

AnyPath = str | os.PathLike[str]
Report = Callable[[SkippedLines], None]

_log = logging.getLogger("olrank.data")


def read_letor(
    paths: AnyPath | Sequence[AnyPath],
    *,
    name: str | None = None,
    bad_lines: BadLines = "error",
    n_features: int | None = None,
    cache: CacheFolder = True,
    report: Report | None = None,
) -> Dataset:
    """Read files in LETOR's form, plain, .gz or .xz, as one set.

    Args:
        paths: one file, or several to be read one after the other.
        name: what rows and figures call the set; from the files' names when None.
        bad_lines: "error" stops at the first bad line; "skip" leaves bad lines out. A file that is
            missing, empty, or cut short while packed is an error either way.
        n_features: the width of the set; a higher feature index is then a bad line. The highest
            index met when None.
        cache: True keeps the parsed set in `$OLRANK_CACHE` or the user's cache folder, so that the
            next load takes no time; a path keeps it there; False or None does not keep it.
        report: called once with the lines that "skip" left out (also when the set comes from the
            cache, also when there are none). Without it, left-out lines are logged as a warning.

    Returns:
        The set; its features are read-only, and mapped from disk when cached.

    Raises:
        DataError: with the file and the line, and what to do.
    """
    files = as_paths(paths)
    check_bad_lines(bad_lines)
    grammar = Grammar(n_features=n_features)
    options = {"form": "letor", "bad_lines": bad_lines, "n_features": n_features}

    def build() -> Content:
        table = read_table(files, grammar, bad_lines)
        return content_of(table, table.queries.sizes, table.queries.ids, n_features, files[0])

    content, checksum = cached(files, options, cache, build)
    return dataset_of(content, checksum, name or name_of(files), bad_lines, report)


def write_letor(dataset: Dataset, path: AnyPath) -> None:
    """Write a set in LETOR's form; features that are 0 are left out."""
    with Path(path).open("w", encoding="utf-8") as file:
        for query, query_id in enumerate(dataset.query_ids):
            for row in range(dataset.offsets[query], dataset.offsets[query + 1]):
                features = dataset.features[row]
                cells = " ".join(f"{i + 1}:{features[i]!s}" for i in np.flatnonzero(features))
                file.write(f"{dataset.grades[row]} qid:{query_id} {cells}\n")


def as_paths(paths: AnyPath | Sequence[AnyPath]) -> list[Path]:
    """One path or several, as a list."""
    single = isinstance(paths, str | os.PathLike)
    files = [Path(paths)] if single else [Path(path) for path in paths]  # type: ignore[arg-type,union-attr]
    if not files:
        raise DataError("no file was given.\n  Name at least one.")
    return files


def check_bad_lines(bad_lines: str) -> None:
    """Refuse a word that says nothing about bad lines."""
    if bad_lines not in ("error", "skip"):
        raise ConfigError(f'bad_lines: "{bad_lines}" is not known. Known: error, skip.')


def name_of(files: Sequence[Path]) -> str:
    """A name for a set: its file's, or the folder's when there are several."""
    if len(files) > 1 and len({file.parent for file in files}) == 1:
        folder = files[0].resolve().parent.name
        if folder:
            return folder
    return "+".join(
        file.name.split(".txt")[0].removesuffix(".gz").removesuffix(".xz") for file in files
    )


def content_of(
    table: Table, sizes: Sequence[int], ids: Sequence[bytes], n_features: int | None, path: Path
) -> Content:
    """A finished table as read-only arrays."""
    try:
        features = table.take_features(n_features)
    except MemoryError:
        width = table.width if n_features is None else n_features
        raise DataError(
            f"{path}: {table.n_rows} rows of {width} features do not fit into memory.\n"
            "  If the highest feature index is a slip, pass n_features to find its line."
        ) from None
    if not features.shape[1]:
        raise DataError(f"{path}: no line has a feature.\n  Check that it is the right file.")
    grades = np.concatenate(table.grades)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    query_ids = [query_id.decode("utf-8", "backslashreplace") for query_id in ids]
    return Content(features, grades, offsets, query_ids, table.skipped)


def dataset_of(
    content: Content, checksum: str, name: str, bad_lines: BadLines, report: Report | None
) -> Dataset:
    """The data set of what was read, after reporting what was left out."""
    if bad_lines == "skip" and report is not None:
        report(replace(content.skipped))
    elif content.skipped.n_lines:
        _log.warning("%s: %s", name, "\n".join(content.skipped.lines()))
    for array in (content.features, content.grades, content.offsets):
        array.flags.writeable = False
    return Dataset(
        name=name,
        features=content.features,
        grades=content.grades,
        offsets=content.offsets,
        query_ids=content.query_ids,
        max_grade=scale_of(content.grades),
        checksum=checksum,
    )


def scale_of(grades: npt.NDArray[np.int32]) -> int:
    """The top of the scale that these grades come from: 1, 2, 4, or the highest grade seen."""
    highest = int(grades.max())
    return next((top for top in (1, 2, 4) if highest <= top), highest)
