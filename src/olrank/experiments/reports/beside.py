"""What stands beside a contest: the way to the skyline, and conditions nobody was tuned for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from scipy import stats

from olrank.experiments.reports.resampling import Floats, Who
from olrank.experiments.reports.verdicts import (
    LEFT_OUT,
    LEVEL,
    ONLINE,
    cells_of,
    drawn_of,
    last_values,
    matched,
    offline_metric,
)

ROOM = 0.02  # between the best baseline and the skyline, for a share of it to mean something
COLLAPSE = -0.02  # of a baseline's value


def closed(
    rows: pl.DataFrame, resampled: Mapping[str, Mapping[Who, Floats]], ours: str = LEFT_OUT
) -> pl.DataFrame:
    """How much of the way from the best baseline to the skyline is closed, offline.

    Returns:
        dataset, user, stop, best, distance, share, low, high (95%, over resampled queries), for
        the cells where the distance exceeds `ROOM`.
    """
    values = last_values(rows).filter(metric=offline_metric(rows))
    lines = []
    for cell in cells_of(values):
        here = values.filter(**cell._asdict())
        skylines = here.filter(name="skyline")["ranker"].unique().to_list()
        ends = _means(here)
        baselines = here.filter(role="baseline")["ranker"].unique(maintain_order=True)
        best = max(baselines, key=lambda title: ends[title])
        if not skylines or ends[skylines[0]] - ends[best] <= ROOM:
            continue
        drawn = [
            drawn_of(resampled[cell.dataset], name, cell) for name in (ours, best, skylines[0])
        ]
        shares = (drawn[0] - drawn[1]) / (drawn[2] - drawn[1])
        low, high = np.quantile(shares, [LEVEL / 2, 1 - LEVEL / 2])
        distance = ends[skylines[0]] - ends[best]
        told = {"best": best, "distance": distance, "share": (ends[ours] - ends[best]) / distance}
        lines.append({**cell._asdict(), **told, "low": float(low), "high": float(high)})
    schema = {name: pl.String for name in ("dataset", "user", "stop", "best")}
    return pl.DataFrame(
        lines, {**schema, **dict.fromkeys(("distance", "share", "low", "high"), pl.Float64)}
    )


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
