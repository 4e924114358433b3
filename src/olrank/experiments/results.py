"""What an experiment leaves behind: rows.parquet, run.json, summary.json and a table to read.

Rows are long: one value a line, keyed by ranker, dataset, fold, user, stop, seed, round and metric.
Everything else, tables and figures, is drawn from them.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Group
from rich.table import Table
from rich.text import Text

from olrank.errors import DataError
from olrank.metrics.compare import interval

KEYS = ("ranker", "settings", "dataset", "fold", "user", "stop", "seed", "round", "metric")
_GROUP = ("dataset", "user", "stop", "ranker", "metric")
_SUMMARY = {name: pl.String for name in _GROUP} | {
    "round": pl.Int64,
    "mean": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "n": pl.Int64,
}

# Metric, heading, decimals. The order is the order of the table's columns.
_COLUMNS = (
    ("ndcg", "offline NDCG@{k}", 3),
    ("online_ndcg", "online NDCG", 0),
    ("regret", "regret", 0),
    ("certain_ratio", "certain ratio", 2),
)


def validation_metric(k: int) -> str:
    """What rows call the offline NDCG on the validation part, which settings are chosen by."""
    return f"validation_ndcg@{k}"


def select(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of the chosen settings: best on the validation part, mean over seeds, last round.

    A choice is made for each ranker, data set, fold, user and stop rule. Rankers that were run with
    one setting only keep all their rows.
    """
    where = ["ranker", "dataset", "fold", "user", "stop"]
    judged = rows.filter(pl.col("metric").str.starts_with("validation_"))
    if judged.is_empty():
        return rows
    last = judged.filter(pl.col("round") == pl.col("round").max().over("ranker"))
    means = last.group_by(*where, "settings", maintain_order=True).agg(
        # A setting that diverged is no number, which would sort above all others.
        pl.col("value").mean().fill_nan(float("-inf"))
    )
    best = means.sort("value", descending=True, maintain_order=True).unique(
        where, keep="first", maintain_order=True
    )
    compared = rows.join(best.select(where).unique(), on=where, how="anti")
    chosen = rows.join(best.select(*where, "settings"), on=[*where, "settings"], how="semi")
    return settle(pl.concat([compared, chosen]))


def summarise(rows: pl.DataFrame) -> pl.DataFrame:
    """Each ranker at its last round, with a bootstrap interval over (fold, seed).

    Returns:
        dataset, user, stop, ranker, metric, round, mean, low, high, n: one line a metric, rankers
        in the order of the rows.
    """
    in_table = pl.col("metric").is_in([metric for metric, _, _ in _COLUMNS])
    wanted = in_table | pl.col("metric").str.starts_with("ndcg@")
    # A ranker without confidence widths has no certain ratio: no value, and so no line.
    known = rows.filter(wanted & pl.col("value").is_finite())
    lines = []
    for names, part in known.group_by(*_GROUP, maintain_order=True):
        last = part.filter(pl.col("round") == part["round"].max()).sort("fold", "seed")
        key = dict(zip(_GROUP, names, strict=True))
        found = interval(last["value"].to_numpy())
        lines.append({**key, "round": last["round"][0], **found._asdict()})
    return pl.DataFrame(lines, schema=_SUMMARY)


def table(summary: pl.DataFrame) -> Group:
    """The summary for people: a table for each data set, user and stop rule, a line a ranker."""
    columns = _columns(summary)
    blocks = summary.group_by("user", "stop", "dataset", maintain_order=True)
    tables = [
        _block(columns, lines, f"{key[0]} user, stop rule {key[1]}, {key[2]}")
        for key, lines in blocks
    ]
    return Group(*tables, Text("\n" + _note(summary), style="dim"))


def markdown(summary: pl.DataFrame) -> str:
    """The same tables as Markdown, for a page that shows them."""
    lines = []
    for (user, stop, dataset), part in summary.group_by(
        "user", "stop", "dataset", maintain_order=True
    ):
        columns = _columns(part)
        lines += [f"### {user} user, stop rule {stop}, {dataset}", ""]
        lines.append("| ranker | " + " | ".join(heading for _, heading, _ in columns) + " |")
        lines.append("|---" * (len(columns) + 1) + "|")
        for (ranker,), line in part.group_by("ranker", maintain_order=True):
            cells = [_cell(line, metric, digits) for metric, _, digits in columns]
            plain = [cell.replace("[dim]", "(").replace("[/dim]", ")") for cell in cells]
            lines.append(f"| {ranker} | " + " | ".join(plain) + " |")
        lines.append("")
    return "\n".join([*lines, _note(summary), ""])


def _columns(summary: pl.DataFrame) -> list[tuple[str, str, int]]:
    """Metric, heading and decimals of the columns that the summary can fill."""
    return [
        (metric, heading.format(k=metric.removeprefix("ndcg@")), digits)
        for column, heading, digits in _COLUMNS
        if (metric := _metric_of(summary, column))
    ]


def _note(summary: pl.DataFrame) -> str:
    n, last = _most(summary, "n"), _most(summary, "round")
    if n <= 1:
        return f"One run, after {last:,} rounds."
    return f"Mean and 95% bootstrap interval over {n} runs (folds x seeds), after {last:,} rounds."


def _block(columns: list[tuple[str, str, int]], lines: pl.DataFrame, title: str) -> Table:
    drawn = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="underline")
    drawn.title, drawn.title_justify = Text(f"\n{title}", style="bold"), "left"
    drawn.add_column("ranker", no_wrap=True, min_width=14)
    for _, heading, _ in columns:
        drawn.add_column(heading)
    for (ranker,), line in lines.group_by("ranker", maintain_order=True):
        cells = (_cell(line, metric, digits) for metric, _, digits in columns)
        drawn.add_row(Text(str(ranker)), *cells)
    return drawn


def _most(summary: pl.DataFrame, column: str) -> int:
    return max(summary[column].to_list(), default=0)


def _metric_of(summary: pl.DataFrame, column: str) -> str:
    """The metric that fills a column ("ndcg" may be "ndcg@5"), or nothing."""
    for metric in summary["metric"].unique(maintain_order=True):
        if metric == column or metric.startswith(f"{column}@"):
            return str(metric)
    return ""


def _cell(lines: pl.DataFrame, metric: str, digits: int) -> str:
    found = lines.filter(pl.col("metric") == metric)
    if found.is_empty():
        return "-"
    mean, low, high = (_short(found[name][0], digits) for name in ("mean", "low", "high"))
    # A single run has a mean and no interval.
    return mean if found["n"][0] == 1 else f"{mean} [dim]{low}–{high}[/dim]"


def _short(value: float, digits: int) -> str:
    """A number without the zero before its point, as rankings' numbers are printed: ".412"."""
    text = f"{value:.{digits}f}"
    return text[1:] if text.startswith("0.") else text


def write_rows(rows: pl.DataFrame, path: Path) -> None:
    """The rows as parquet, sorted, so that equal rows are equal bytes."""
    settled = settle(rows)
    atomically(path, lambda partial: settled.write_parquet(partial, compression="zstd"))


def settle(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows in their one order: names as first met (a config's order), numbers ascending."""
    keys = [name for name in KEYS if name in rows.columns]
    others = [name for name in rows.columns if name not in KEYS and name != "value"]
    order = [_as_met(rows, name) if rows[name].dtype == pl.String else name for name in keys]
    return rows.sort(order, maintain_order=True).select(*keys, *others, "value")


def _as_met(rows: pl.DataFrame, column: str) -> pl.Expr:
    met = rows[column].unique(maintain_order=True).to_list()
    places = {name: place for place, name in enumerate(met)}
    return pl.col(column).replace_strict(places, return_dtype=pl.Int64)


def read_rows(path: Path) -> pl.DataFrame:
    """The rows of a finished run: a rows.parquet, or the folder that holds it."""
    file = path / "rows.parquet" if path.is_dir() else path
    if not file.is_file():
        raise DataError(f'{file}: not there. Name a folder that "olrank run" has filled.')
    try:
        rows = pl.read_parquet(file)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{file}: cannot be read as parquet ({error}). Run it again.") from error
    missing = [name for name in (*KEYS, "value") if name not in rows.columns]
    if missing:
        raise DataError(f"{file}: has no column {', '.join(missing)}; these are not olrank's rows.")
    return rows


def write_json(content: Any, path: Path) -> None:
    """Indented JSON with a newline at its end; NaN and infinity are written as null."""
    text = json.dumps(_finite(content), indent=2, ensure_ascii=False, allow_nan=False)
    write_text(text + "\n", path)


def write_text(text: str, path: Path) -> None:
    """Text as UTF-8, all of it or nothing."""
    atomically(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    if isinstance(content, float) and not -float("inf") < content < float("inf"):
        return None
    return content


def atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file beside this path, then put it in place: all of it, or nothing.

    It is on the disk before it has its name: a power cut leaves the old file or the new one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    partial = Path(name)
    try:
        write(partial)
        partial.chmod(0o666 & ~_umask())  # mkstemp's files are private; results are not
        _flush(partial)
        partial.replace(path)
        if os.name == "posix":  # elsewhere a folder cannot be opened
            _flush(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
