"""Several files as one growing table of rows: shared by the LETOR and the group-file form."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from olrank.data.bulk import Rows, read_rows
from olrank.data.decimals import Bools, Ints
from olrank.data.lines import read_blocks
from olrank.data.oneline import Grammar
from olrank.data.problems import Problem, SkippedLines
from olrank.errors import DataError

BadLines = Literal["error", "skip"]

_KEPT_BYTES = 1 << 24  # more than any array of one block


@dataclass
class Queries:
    """Queries in the order of the file: each must be one run of lines in one file."""

    ids: list[bytes] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    _closed: dict[bytes, str] = field(default_factory=dict)  # where each query's rows ended
    _open: bytes | None = None
    _open_is_kept: bool = False
    _last_place: str = ""

    def end_file(self) -> None:
        """Close the last query, so that it cannot go on in the next file."""
        if self._open is not None:
            self._closed.setdefault(self._open, self._last_place)
        self._open = None

    def add(self, path: Path, ids: Sequence[bytes], lines: Ints) -> tuple[Bools, list[Problem]]:
        """Count rows to their queries.

        Returns:
            [n_rows] bool, False for rows of a query that ended before; and their problems.
        """
        keep = np.ones(len(ids), dtype=np.bool_)
        problems: list[Problem] = []
        starts = [i for i in range(len(ids)) if i == 0 or ids[i] != ids[i - 1]]
        for start, end in itertools.pairwise([*starts, len(ids)]):
            self._enter(ids[start])
            if self._open_is_kept:
                self.sizes[-1] += end - start
            else:
                keep[start:end] = False
                problems += [self._comes_back(ids[start], int(n)) for n in lines[start:end]]
            self._last_place = f"{path}, line {lines[end - 1]}"
        return keep, problems

    def _enter(self, query_id: bytes) -> None:
        if query_id == self._open:
            return
        self.end_file()
        self._open = query_id
        self._open_is_kept = query_id not in self._closed
        if self._open_is_kept:
            self.ids.append(query_id)
            self.sizes.append(0)

    def _comes_back(self, query_id: bytes, line: int) -> Problem:
        name = query_id.decode("utf-8", "backslashreplace")
        what = f'query "{name}" comes back; its rows ended at {self._closed[query_id]}.'
        hint = "Put all rows of a query next to each other, in one file"
        return Problem(line, "query comes back", what, hint)


@dataclass
class Table:
    """The rows read so far.

    Attributes:
        features: blocks of [n, width] float32; widths may differ until `take_features`.
        grades: blocks of [n] int32.
        queries: where the rows of each query begin and end.
        skipped: the lines left out.
        skipped_at: for each of those that is no good row, its place among all lines with content.
    """

    features: list[npt.NDArray[np.float32]] = field(default_factory=list)
    grades: list[npt.NDArray[np.int32]] = field(default_factory=list)
    queries: Queries = field(default_factory=Queries)
    skipped: SkippedLines = field(default_factory=SkippedLines)
    skipped_at: list[int] = field(default_factory=list)
    n_rows: int = 0
    width: int = 0

    def add(self, rows: Rows, keep: Bools) -> None:
        """Append the rows to be kept."""
        features, grades = rows.features, rows.grades
        if not keep.all():
            features, grades = features[keep], grades[keep]
        self.features.append(features)
        self.grades.append(grades)
        self.n_rows += len(grades)
        self.width = max(self.width, features.shape[1])

    def take_features(self, n_features: int | None) -> npt.NDArray[np.float32]:
        """[n_rows, n_features]; the blocks are given up one by one, so memory holds them once."""
        width = self.width if n_features is None else n_features
        whole = np.zeros((self.n_rows, width), dtype=np.float32)
        start = 0
        self.features.reverse()
        while self.features:
            block = self.features.pop()
            whole[start : start + len(block), : block.shape[1]] = block
            start += len(block)
        return whole


def read_table(paths: Sequence[Path], grammar: Grammar, bad_lines: BadLines) -> Table:
    """Read files one after the other into one table.

    Raises:
        DataError: a file cannot be read, is empty, damaged or has no rows; or, with
            bad_lines="error", a line is bad.
    """
    table = Table()
    # The C library hands freed arrays back to the system, which must then clear new pages for each
    # block: a third of all time. Having freed a larger one once, it keeps them.
    np.empty(_KEPT_BYTES, dtype=np.uint8)
    for path in paths:
        n_before = table.n_rows + table.skipped.n_lines
        for block in read_blocks(path):
            rows = read_rows(block, grammar)
            keep = np.ones(len(rows.grades), dtype=np.bool_)
            problems = rows.problems
            if grammar.has_qid:
                keep, returning = table.queries.add(path, rows.query_ids, rows.lines)
                problems = sorted([*problems, *returning], key=lambda problem: problem.line)
            if problems and bad_lines == "error":
                raise problems[0].error(path)
            _note_skipped(table, path, rows, problems)
            table.add(rows, keep)
        table.queries.end_file()
        if table.n_rows + table.skipped.n_lines == n_before:
            raise DataError(
                f"{path}, line 1: the file has no rows.\n  Check that it is the right one."
            )
    if not table.n_rows:
        raise DataError(f"{paths[0]}: no good line is left.\n  Read it without skipping bad lines.")
    return table


def _note_skipped(table: Table, path: Path, rows: Rows, problems: Sequence[Problem]) -> None:
    n_before = table.n_rows + table.skipped.n_lines
    good_before = np.searchsorted(rows.lines, [problem.line for problem in rows.problems])
    table.skipped_at += [n_before + int(n) + i for i, n in enumerate(good_before)]
    for problem in problems:
        table.skipped.add(path, problem)
