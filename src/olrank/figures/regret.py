"""What learning cost: cumulative pairwise regret over rounds."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from olrank.figures.panels import Curves, draw_curves

CURVES = Curves(
    metric="regret",
    title="What learning cost",
    label="cumulative pairwise regret",
    note=(
        "Regret counts pairs in the wrong order against the grades: a shown document and a lower "
        "or unshown one of a strictly better grade."
    ),
    bounds=(0.0, None),
    log_rounds=False,
)


def draw(rows: pl.DataFrame, path: Path) -> Path:
    """Draw cumulative regret over rounds, one panel a user."""
    return draw_curves(rows, CURVES, path)
