"""How much of a shown list was certain: the share of its pairs whose order was not explored."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from olrank.figures.panels import Curves, draw_curves

CURVES = Curves(
    metric="certain_ratio",
    title="How soon it stopped exploring",
    label="certain pairs among the shown",
    note="Only rankers that keep confidence widths; lists of one document are left out.",
    bounds=(0.0, 1.02),
)


def draw(rows: pl.DataFrame, path: Path) -> Path:
    """Draw the certain ratio over rounds, one panel a user, for the rankers that have one."""
    return draw_curves(rows, CURVES, path)
