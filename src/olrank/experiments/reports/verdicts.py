"""The winner of a contest against each of the others, cell by cell, and whether it passes.

A cell is a data set, user and stop rule. Differences are paired over (fold, seed) and tested with
Student's t: online whether ours is ahead, offline whether it is not behind by more than a margin,
and whether it is ahead. p-values are corrected by Holm over all cells and baselines, online and
offline apart. Offline the test queries are resampled as well (`resampling`), and the lower 95%
bound must also lie above the margin. A cell passes when it does against every baseline.

A run that came to nothing (NaN) counts as 0, whoever's it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from scipy import stats

from olrank.experiments.reports.evidence import Cell
from olrank.experiments.reports.resampling import Floats, Who
from olrank.metrics.compare import holm

BEST = "best"
LEFT_OUT = "best (leave-one-out)"
"""What rows call the final preset, and the one chosen without the data set that it is shown on."""

MARGIN = 0.005
LEVEL = 0.05

_UNIT = ("fold", "seed")
ONLINE = "online_ndcg"


class Paired(NamedTuple):
    """The mean of paired differences, its 95% interval, and one-sided p-values."""

    difference: float
    low: float
    high: float
    p_ahead: float
    p_not_behind: float
    n: int


def paired_t(ours: Floats, theirs: Floats, margin: float = MARGIN) -> Paired:
    """Student's t over matched units.

    Args:
        ours: [n] one number a unit.
        theirs: [n] unit by unit in the same order.
        margin: of `p_not_behind`: the hypothesis is that the mean difference is -margin or less.
    """
    differences = ours - theirs
    n, mean = differences.size, float(differences.mean())
    if n < 2:
        return Paired(mean, math.nan, math.nan, 1.0, 1.0, n)
    error = float(differences.std(ddof=1)) / math.sqrt(n)
    half = error * float(stats.t.ppf(1 - LEVEL / 2, n - 1))

    def p_above(bound: float) -> float:
        if error == 0:
            return 0.0 if mean > bound else 1.0
        return float(stats.t.sf((mean - bound) / error, n - 1))

    return Paired(mean, mean - half, mean + half, p_above(0.0), p_above(-margin), n)


def offline_metric(rows: pl.DataFrame) -> str:
    """What the rows call the offline NDCG."""
    return next(str(m) for m in rows["metric"].unique().sort() if str(m).startswith("ndcg@"))


def last_values(rows: pl.DataFrame) -> pl.DataFrame:
    """Offline and online values of every run at its last round; 0 where it came to nothing."""
    wanted = pl.col("metric").is_in([offline_metric(rows), ONLINE])
    run = [x for x in ("condition", "ranker", "dataset", "user", "stop") if x in rows.columns]
    last = rows.filter(wanted, pl.col("round") == pl.col("round").max().over(run))
    return last.with_columns(pl.col("value").fill_nan(0.0).fill_null(0.0))


def compare(
    rows: pl.DataFrame,
    resampled: Mapping[str, Mapping[Who, Floats]],
    ours: str = LEFT_OUT,
) -> pl.DataFrame:
    """A line for each cell, rival and metric.

    Args:
        rows: of an evaluation.
        resampled: of the same, from `resampling.resample`.
        ours: the winner to look at.

    Returns:
        dataset, user, stop, rival, role, metric ("online", "offline"), ours, theirs, difference,
        low, high, n, p_ahead, p_not_behind, bound (offline: the lower 95% bound over resampled
        queries), p (Holm over the baselines: of being ahead online, of not being behind offline;
        None for a reference), passes.
    """
    values = last_values(rows)
    lines = [
        line
        for cell in cells_of(values)
        for line in _of_cell(values, cell, resampled[cell.dataset], ours)
    ]
    for metric, p in (("online", "p_ahead"), ("offline", "p_not_behind")):
        tested = [x for x in lines if x["metric"] == metric and x["role"] == "baseline"]
        for line, adjusted in zip(tested, holm([x[p] for x in tested]), strict=True):
            line["p"] = float(adjusted)
            above = metric == "online" or line["bound"] > -MARGIN
            line["passes"] = bool(adjusted <= LEVEL and above)
    return pl.DataFrame(lines, infer_schema_length=None)


def cells_of(rows: pl.DataFrame) -> list[Cell]:
    """The cells in the order of the rows."""
    return [
        Cell(*x) for x in rows.select("dataset", "user", "stop").unique(maintain_order=True).rows()
    ]


def _of_cell(
    values: pl.DataFrame, cell: Cell, resampled: Mapping[Who, Floats], ours: str
) -> list[dict[str, Any]]:
    here = values.filter(**cell._asdict())
    rivals = here.filter(pl.col("role") != "best").select("ranker", "role")
    lines = []
    for rival, role in rivals.unique(maintain_order=True).rows():
        for metric, name in (("online", ONLINE), ("offline", offline_metric(here))):
            a, b = matched(here.filter(metric=name), ours, rival)
            found = paired_t(a, b)
            bound = None
            if metric == "offline":
                drawn = drawn_of(resampled, ours, cell) - drawn_of(resampled, rival, cell)
                bound = float(np.quantile(drawn, LEVEL))
            means = {"ours": float(a.mean()), "theirs": float(b.mean())}
            told = {"rival": rival, "role": role, "metric": metric, **means, **found._asdict()}
            lines.append({**cell._asdict(), **told, "bound": bound, "p": None, "passes": None})
    return lines


def drawn_of(resampled: Mapping[Who, Floats], ranker: str, cell: Cell) -> Floats:
    """[n_resamples] means of a ranker in a cell of this data set."""
    return resampled[ranker, cell.user, cell.stop]


def matched(values: pl.DataFrame, ours: str, theirs: str) -> tuple[Floats, Floats]:
    """Values of both for the (fold, seed) that they share."""
    sides = [values.filter(ranker=name).select(*_UNIT, "value") for name in (ours, theirs)]
    both = sides[0].join(sides[1], on=_UNIT, suffix="_b").sort(_UNIT)
    return both["value"].to_numpy(), both["value_b"].to_numpy()


def by_cell(compared: pl.DataFrame) -> pl.DataFrame:
    """A line a cell: the best baseline online and offline, and whether all of them are beaten.

    Returns:
        dataset, user, stop, then for both metrics ours, best (its name), difference, low, high,
        passes; bound (offline, the lowest against any baseline); passes.
    """
    lines = []
    baselines = compared.filter(role="baseline")
    for cell in cells_of(baselines):
        line: dict[str, Any] = dict(cell._asdict())
        for metric in ("online", "offline"):
            part = baselines.filter(metric=metric, **cell._asdict())
            best = part.sort("theirs", descending=True, maintain_order=True).row(0, named=True)
            line |= {f"{metric}_{x}": best[x] for x in ("ours", "difference", "low", "high")}
            line[f"{metric}_best"] = best["rival"]
            line[f"{metric}_passes"] = bool(part["passes"].all())
        line["bound"] = part["bound"].min()
        line["passes"] = line["online_passes"] and line["offline_passes"]
        lines.append(line)
    return pl.DataFrame(lines, infer_schema_length=None)


class Mean(NamedTuple):
    """Against one rival, over all cells: mean difference offline, its lower bound, online in %."""

    rival: str
    offline: float
    bound: float
    online: float
    n_online: int
    n_offline: int
    n_cells: int


def in_the_mean(
    compared: pl.DataFrame, resampled: Mapping[str, Mapping[Who, Floats]], ours: str = LEFT_OUT
) -> list[Mean]:
    """Each rival over all cells; the bound comes from the resamples of all data sets together."""
    found = []
    for (rival,), part in compared.group_by("rival", maintain_order=True):
        offline, online = (part.filter(metric=name) for name in ("offline", "online"))
        drawn = [
            drawn_of(resampled[cell.dataset], ours, cell)
            - drawn_of(resampled[cell.dataset], str(rival), cell)
            for cell in cells_of(offline)
        ]
        relative = (online["difference"] / online["theirs"]).to_numpy()
        n_passed = [int(x["passes"].fill_null(False).sum()) for x in (online, offline)]
        found.append(
            Mean(
                rival=str(rival),
                offline=float(offline["difference"].to_numpy().mean()),
                bound=float(np.quantile(np.mean(drawn, axis=0), LEVEL)),
                online=float(relative.mean()),
                n_online=n_passed[0],
                n_offline=n_passed[1],
                n_cells=len(offline),
            )
        )
    return found
