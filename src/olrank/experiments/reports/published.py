"""Published numbers beside ours: does a run agree with what others measured?

A folder's `published.csv` holds what was published for the protocol of its config: ranker, user,
stop, round, metric, value, sd, n, source. `sd` and `n` are the standard deviation over runs and the
number of runs behind the value; where the source gives no deviation our own stands in for theirs.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import polars as pl
from rich.table import Table
from rich.text import Text

from olrank.errors import DataError
from olrank.experiments.rows.files import read_rows
from olrank.experiments.rows.markdown import table_head, table_line

_WHAT = ("ranker", "user", "stop", "round", "metric")
_HEADINGS = (*_WHAT, "published", "ours", "difference", "2 s.e.", "agrees")
_CLOSE = 0.01  # of offline NDCG; closer than this is agreement whatever the errors
_ERRORS = 2.0  # combined standard errors


def compare(folder: Path) -> pl.DataFrame:
    """Ours against published, a line a number.

    Returns:
        ranker, user, stop, round, metric, published, ours, standard_error (combined), difference,
        agrees, source.
    """
    file = folder / "published.csv"
    if not file.is_file():
        raise DataError(f"{file}: there is no such file. Put published numbers there to compare.")
    rows = read_rows(folder)
    lines = [_compared(rows, line, file) for line in pl.read_csv(file).iter_rows(named=True)]
    return pl.DataFrame(lines)


def _compared(rows: pl.DataFrame, line: dict[str, Any], file: Path) -> dict[str, Any]:
    found = rows.filter(*(pl.col(name) == line[name] for name in _WHAT))["value"]
    if found.is_empty():
        what = ", ".join(f"{name} {line[name]}" for name in _WHAT)
        raise DataError(f"{file}: the rows have nothing for {what}.")
    mean, spread = float(found.mean()), float(found.std() or 0.0)  # type: ignore[arg-type]
    theirs = (spread if line["sd"] is None else line["sd"]) / math.sqrt(line["n"] or 1)
    error = math.hypot(spread / math.sqrt(len(found)), theirs)
    difference = mean - line["value"]
    close = _CLOSE if line["metric"].startswith("ndcg@") else 0.0
    return {
        **{name: line[name] for name in _WHAT},
        "published": float(line["value"]),
        "ours": mean,
        "standard_error": error,
        "difference": difference,
        "agrees": abs(difference) <= max(close, _ERRORS * error),
        "source": line["source"],
    }


def table(compared: pl.DataFrame) -> Table:
    """The comparison for people."""
    drawn = Table(box=None, pad_edge=False, header_style="underline", padding=(0, 2, 0, 0))
    for heading in _HEADINGS:
        drawn.add_column(heading, no_wrap=True)
    for line in compared.iter_rows(named=True):
        drawn.add_row(*(Text(cell) for cell in _cells(line)))
    return drawn


def markdown(compared: pl.DataFrame) -> str:
    """The comparison for a page."""
    lines = table_head(*_HEADINGS, "source")
    lines += [table_line([*_cells(one), one["source"]]) for one in compared.iter_rows(named=True)]
    return "\n".join([*lines, ""])


def _cells(line: dict[str, Any]) -> list[str]:
    digits = 3 if line["metric"].startswith("ndcg@") else 1
    numbers = (line["published"], line["ours"], line["difference"])
    return [
        *(str(line[name]) for name in _WHAT),
        *(f"{number:.{digits}f}" for number in numbers),
        f"{_ERRORS * line['standard_error']:.{digits}f}",
        "yes" if line["agrees"] else "NO",
    ]
