"""Where each ranker ended: mean and interval at the last round, as a frame and as tables."""

from __future__ import annotations

import polars as pl
from rich.console import Group
from rich.table import Table
from rich.text import Text

from olrank.experiments.rows.markdown import short, table_head, table_line
from olrank.metrics.compare import interval

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
        lines += table_head("ranker", *(heading for _, heading, _ in columns))
        for (ranker,), found in part.group_by("ranker", maintain_order=True):
            cells = [_cell(found, metric, digits) for metric, _, digits in columns]
            plain = [cell.replace("[dim]", "(").replace("[/dim]", ")") for cell in cells]
            lines.append(table_line([ranker, *plain]))
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
    mean, low, high = (short(found[name][0], digits) for name in ("mean", "low", "high"))
    # A single run has a mean and no interval.
    return mean if found["n"][0] == 1 else f"{mean} [dim]{low}–{high}[/dim]"
