"""Two devices beside each other: do the same seeds give the same distributions on both?

Devices round differently, so a run on one parts ways with the same run on another, and only
distributions over seeds can be compared. Each number at the end of the runs is tested twice: its
mean, by flipping the signs of the differences of matched seeds, and its distribution, by the
two-sample test of Kolmogorov and Smirnov. All p-values of a comparison are corrected together
(Holm), so that of devices that agree one comparison in twenty finds any difference at all.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
from scipy.stats import ks_2samp

from olrank.errors import DataError
from olrank.experiments.rows.files import read_rows
from olrank.experiments.rows.markdown import short, table_head, table_line
from olrank.metrics.compare import holm, paired

_WHAT = ("ranker", "user", "stop", "metric")
_METRICS = {"ndcg@10": 4, "online_ndcg": 2, "regret": 1, "certain_ratio": 3}
_LEVEL = 0.05  # of the whole comparison


def compare(one: Path, other: Path) -> pl.DataFrame:
    """The ends of the runs in two folders, a line a number.

    Returns:
        ranker, user, stop, metric, n (matched runs), one, other (means), difference (other - one),
        low, high (its 95% interval), p_mean, p_shape (both corrected), agrees.
    """
    by = [*_WHAT, "dataset", "fold", "seed"]
    ends = _ends(one, by).join(_ends(other, by), on=by, suffix="_other", maintain_order="left")
    if ends.is_empty():
        raise DataError(f"{one} and {other}: no run of the one is also in the other.")
    lines = []
    for what, runs in ends.group_by(_WHAT, maintain_order=True):
        here, there = runs["value"].to_numpy(), runs["value_other"].to_numpy()
        found = paired(there, here)
        lines.append({
            **dict(zip(_WHAT, what, strict=True)),
            "n": found.n, "one": here.mean(), "other": there.mean(),
            "difference": found.difference, "low": found.low, "high": found.high,
            "p_mean": found.p_value, "p_shape": float(ks_2samp(here, there).pvalue),
        })  # fmt: skip
    table = pl.DataFrame(lines)
    corrected = holm([*table["p_mean"], *table["p_shape"]])
    table = table.with_columns(
        p_mean=pl.Series(corrected[: len(table)]), p_shape=pl.Series(corrected[len(table) :])
    )
    return table.with_columns(agrees=(pl.col("p_mean") > _LEVEL) & (pl.col("p_shape") > _LEVEL))


def _ends(folder: Path, by: list[str]) -> pl.DataFrame:
    rows = read_rows(folder).filter(
        pl.col("metric").is_in(list(_METRICS)), pl.col("value").is_finite()
    )
    last = rows.filter(pl.col("round") == pl.col("round").max().over(by))
    return last.select(*by, "value")


def markdown(compared: pl.DataFrame, one: str, other: str) -> str:
    """The comparison for a page."""
    lines = table_head(*_WHAT, "runs", one, other, "difference, 95%", "p mean", "p shape", "agrees")
    for line in compared.iter_rows(named=True):
        digits = _METRICS[line["metric"]]
        low, high = short(line["low"], digits), short(line["high"], digits)
        cells = [
            *(line[name] for name in _WHAT), line["n"],
            *(short(line[name], digits) for name in ("one", "other")),
            f"{short(line['difference'], digits)} [{low}, {high}]",
            *(short(line[name], 2) for name in ("p_mean", "p_shape")),
            "yes" if line["agrees"] else "**no**",
        ]  # fmt: skip
        lines.append(table_line(cells))
    return "\n".join([*lines, ""])
