"""How good the ranker is offline as it learns: NDCG on held-out queries over rounds."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from olrank.figures.panels import Curves, draw_curves

CURVES = Curves(
    metric="ndcg",
    title="What the ranker has learned",
    label="NDCG@{k} on test queries",
    note="Test queries ranked by score, gain 2^g - 1, discount log2(1 + rank).",
)


def draw(rows: pl.DataFrame, path: Path) -> Path:
    """Draw offline NDCG over rounds, one panel a user."""
    return draw_curves(rows, CURVES, path)
