"""What stands beside a contest: the way to a skyline, and conditions nobody was tuned for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from scipy import stats

from olrank.experiments.reports.evidence import Cell
from olrank.experiments.reports.resampling import Floats, Who
from olrank.experiments.reports.verdicts import (
    LEFT_OUT,
    LEVEL,
    MARGIN,
    ONLINE,
    cells_of,
    drawn_of,
    last_values,
    matched,
    offline_metric,
)

ROOM = 0.02  # between the best baseline and the skyline, for a share of it to mean something
COLLAPSE = -0.02  # of a baseline's value


Outside = Mapping[str, Mapping[str, float]]
"""Data set -> name -> mean offline NDCG of who learned from labels outside of the contest."""


def outside_means(queries: pl.DataFrame) -> dict[str, dict[str, float]]:
    """`Outside` from single queries; folds weigh the same, as for everyone."""
    single = queries.with_columns(pl.col("value").cast(pl.Float64))
    who = ["dataset", "ranker"]
    folds = single.group_by(*who, "fold", maintain_order=True).agg(pl.col("value").mean())
    means = folds.group_by(who, maintain_order=True).agg(pl.col("value").mean())
    found: dict[str, dict[str, float]] = {}
    for dataset, ranker, value in means.rows():
        found.setdefault(dataset, {})[ranker] = value
    return found


class Skyline(NamedTuple):
    """Who learned from labels, its mean offline NDCG in a cell, and that of every resample."""

    name: str
    mean: float
    drawn: Floats


def closed(
    rows: pl.DataFrame,
    resampled: Mapping[str, Mapping[Who, Floats]],
    ours: str = LEFT_OUT,
    outside: Outside | None = None,
) -> pl.DataFrame:
    """How much of the way from the best baseline to the better skyline is closed, offline.

    Args:
        rows: of an evaluation; a skyline of ours may be among them.
        resampled: of the same, with who is outside.
        ours: the winner to look at.
        outside: skylines that are not among the rows; none when None.

    Returns:
        dataset, user, stop, best (the baseline), skyline, distance, share, low, high (95%, over
        resampled queries; infinite where the distance may be 0), for the cells where the distance
        exceeds `ROOM`. The best baseline and the better skyline are the same in every resample.
    """
    values = last_values(rows).filter(metric=offline_metric(rows))
    lines = []
    for cell in cells_of(values):
        here = values.filter(**cell._asdict())
        drawn = resampled[cell.dataset]
        ends = _means(here)
        baselines = here.filter(role="baseline")["ranker"].unique(maintain_order=True)
        best = max(baselines, key=lambda title: ends[title])
        skyline = _better(here, ends, drawn, cell, (outside or {}).get(cell.dataset, {}))
        if skyline is None or skyline.mean - ends[best] <= ROOM:
            continue
        start = drawn_of(drawn, best, cell)
        low, high = _bounds(drawn_of(drawn, ours, cell) - start, skyline.drawn - start)
        distance = skyline.mean - ends[best]
        told = {"best": best, "skyline": skyline.name, "distance": distance}
        told |= {"share": (ends[ours] - ends[best]) / distance}
        lines.append({**cell._asdict(), **told, "low": low, "high": high})
    schema = dict.fromkeys(("dataset", "user", "stop", "best", "skyline"), pl.String)
    numbers = dict.fromkeys(("distance", "share", "low", "high"), pl.Float64)
    return pl.DataFrame(lines, {**schema, **numbers})


def keeps_up(
    rows: pl.DataFrame, resampled: Mapping[str, Mapping[Who, Floats]], who: str
) -> tuple[int, int]:
    """In how many cells someone's lower bound lies above the margin against every baseline.

    The bound alone, without the test over seeds: who is outside has none.

    Args:
        rows: of an evaluation.
        resampled: of the same, with who is outside.
        who: among the rows, or outside.

    Returns:
        That number, and the number of cells where they are.
    """
    n, n_cells = 0, 0
    for cell in cells_of(rows):
        drawn = resampled[cell.dataset]
        own = drawn.get((who, "-", "-"), drawn.get((who, cell.user, cell.stop)))
        if own is None:
            continue
        n_cells += 1
        rivals = rows.filter(role="baseline", **cell._asdict())["ranker"].unique()
        bounds = [np.quantile(own - drawn_of(drawn, rival, cell), LEVEL) for rival in rivals]
        n += int(min(bounds) > -MARGIN)
    return n, n_cells


def _better(
    here: pl.DataFrame,
    ends: Mapping[str, float],
    drawn: Mapping[Who, Floats],
    cell: Cell,
    outside: Mapping[str, float],
) -> Skyline | None:
    """The skyline with the highest mean in a cell; None where there is none."""
    own = here.filter(name="skyline")["ranker"].unique(maintain_order=True)
    found = [Skyline(title, ends[title], drawn_of(drawn, title, cell)) for title in own]
    found += [Skyline(name, mean, drawn[name, "-", "-"]) for name, mean in outside.items()]
    return max(found, key=lambda one: one.mean, default=None)


def _bounds(gained: Floats, distance: Floats) -> tuple[float, float]:
    """Of the resampled shares; a share of a distance that is not surely above 0 has none."""
    if np.quantile(distance, LEVEL / 2) <= 0:
        return -math.inf, math.inf
    low, high = np.quantile(gained / distance, [LEVEL / 2, 1 - LEVEL / 2])
    return float(low), float(high)


def _means(here: pl.DataFrame) -> dict[str, float]:
    groups = here.group_by("ranker", maintain_order=True)
    return {str(title): float(part["value"].to_numpy().mean()) for (title,), part in groups}


def robust(rows: pl.DataFrame, ours: str = LEFT_OUT) -> pl.DataFrame:
    """Relative differences under other conditions, with a one-sided lower 95% bound.

    The difference is mean(ours) / mean(theirs) - 1 over (fold, seed); its error is that of a ratio
    of paired means (first order), its bound Student's.

    Returns:
        condition, dataset, user, stop, rival, role, metric, difference, bound, n, passes (None for
        a reference).
    """
    values = last_values(rows)
    lines = []
    for (condition,), part in values.group_by("condition", maintain_order=True):
        for cell in cells_of(part):
            for line in _under(part.filter(**cell._asdict()), ours):
                lines.append({"condition": condition, **cell._asdict(), **line})
    return pl.DataFrame(lines, infer_schema_length=None)


def _under(here: pl.DataFrame, ours: str) -> list[dict[str, Any]]:
    """One condition in one cell, against every rival."""
    lines = []
    rivals = here.filter(pl.col("role") != "best").select("ranker", "role")
    for rival, role in rivals.unique(maintain_order=True).rows():
        for metric, name in (("online", ONLINE), ("offline", offline_metric(here))):
            ratio, bound, n = relative(*matched(here.filter(metric=name), ours, rival))
            passes = bound > COLLAPSE if role == "baseline" else None
            told = {"rival": rival, "role": role, "metric": metric, "difference": ratio}
            lines.append({**told, "bound": bound, "n": n, "passes": passes})
    return lines


def relative(ours: Floats, theirs: Floats) -> tuple[float, float, int]:
    """mean(ours) / mean(theirs) - 1, its one-sided lower 95% bound, and the number of units."""
    n, base = ours.size, float(theirs.mean())
    ratio = float(ours.mean()) / base
    if n < 2:
        return ratio - 1, -math.inf, n
    left = ours - ratio * theirs
    error = float(left.std(ddof=1)) / math.sqrt(n) / base
    return ratio - 1, ratio - 1 - error * float(stats.t.ppf(1 - LEVEL, n - 1)), n
