"""Judged queries in the group-file form of LightGBM and XGBoost.

One file holds rows without query ids, `GRADE FEATURE:VALUE ...`; a second one holds the number of
rows of each query, one number a line, in the same order.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from olrank.data.cache import CacheFolder, Content, cached
from olrank.data.decimals import Ints
from olrank.data.letor import (
    AnyPath,
    Report,
    check_bad_lines,
    content_of,
    dataset_of,
    name_of,
)
from olrank.data.lines import read_blocks
from olrank.data.oneline import Grammar
from olrank.data.problems import shown
from olrank.data.reader import BadLines, read_table
from olrank.errors import DataError
from olrank.types import Dataset


def read_groups(
    rows_path: AnyPath,
    sizes_path: AnyPath,
    *,
    name: str | None = None,
    bad_lines: BadLines = "error",
    n_features: int | None = None,
    first_index: int = 1,
    cache: CacheFolder = True,
    report: Report | None = None,
) -> Dataset:
    """Read a file of rows and a file of group sizes; each plain, .gz or .xz.

    Args:
        rows_path: the rows, `GRADE FEATURE:VALUE ...`.
        sizes_path: the number of rows of each query, one a line.
        name: what rows and figures call the set; from the file's name when None.
        bad_lines: "error" stops at the first bad line; "skip" leaves bad rows out (of their groups
            too). The sizes are never skipped: without one of them, all later rows change query.
        n_features: the width of the set; from the highest feature index met when None.
        first_index: the index of the first feature, 1 or 0.
        cache: as in `read_letor`.
        report: as in `read_letor`.

    Returns:
        The set; its queries are called "1", "2", ... in the order of the sizes.

    Raises:
        DataError: with the file and the line, and what to do.
    """
    rows, sizes = Path(rows_path), Path(sizes_path)
    check_bad_lines(bad_lines)
    grammar = Grammar(has_qid=False, first_index=first_index, n_features=n_features)
    options = {"form": "groups", "bad_lines": bad_lines, **grammar._asdict()}

    def build() -> Content:
        wanted = read_sizes(sizes)
        table = read_table([rows], grammar, bad_lines)
        n_lines = table.n_rows + table.skipped.n_lines
        if int(wanted.sum()) != n_lines:
            raise DataError(
                f"{sizes}, line {len(wanted)}: the {len(wanted)} sizes sum to {wanted.sum()}, "
                f"but {rows} has {n_lines} rows.\n  Check that the two files belong together."
            )
        ids = [str(query + 1).encode() for query in range(len(wanted))]
        kept = _without(wanted, table.skipped_at)
        left = [query for query, size in enumerate(kept) if size]
        return content_of(table, kept[left].tolist(), [ids[q] for q in left], n_features, rows)

    content, checksum = cached([rows, sizes], options, cache, build)
    return dataset_of(content, checksum, name or name_of([rows]), bad_lines, report)


def read_sizes(path: Path) -> Ints:
    """[n_queries] the numbers of a group file, one a line."""
    sizes: list[int] = []
    for block in read_blocks(path):
        for i, text in enumerate(block.text.splitlines()):
            token = text.strip()
            if not token.isdigit() or int(token) == 0:
                raise DataError(
                    f"{path}, line {block.first_line + i}: expected the number of rows of a "
                    f"query, found {shown(token)}.\n  Write one whole number from 1 up a line."
                )
            sizes.append(int(token))
    return np.array(sizes, dtype=np.int64)


def _without(sizes: Ints, skipped_at: list[int]) -> Ints:
    """[n_queries] the sizes after the rows at these places were left out."""
    groups = np.searchsorted(np.cumsum(sizes), skipped_at, side="right")
    return sizes - np.bincount(groups, minlength=len(sizes))
