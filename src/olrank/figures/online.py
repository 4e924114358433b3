"""What people were shown while the ranker learned: cumulative discounted NDCG over rounds."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from olrank.figures.panels import Curves, draw_curves

CURVES = Curves(
    metric="online_ndcg",
    title="What users were shown while it learned",
    label="cumulative online NDCG",
    note="NDCG of the lists shown, summed with discount gamma^(round - 1).",
    bounds=(0.0, None),
    log_rounds=False,
)


def draw(rows: pl.DataFrame, path: Path) -> Path:
    """Draw cumulative online NDCG over rounds, one panel a user."""
    return draw_curves(rows, CURVES, path)
