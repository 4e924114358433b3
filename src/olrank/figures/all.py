"""Every figure of a run, as far as its rows hold the metric and curves can be told apart."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from olrank.figures import certainty, learning, online, regret
from olrank.figures.panels import find_metric

_FIGURES = {"learning": learning, "online": online, "regret": regret, "certainty": certainty}
_MOST = 12  # curves in a panel; among more of them nobody finds the one that is asked about


def draw_all(rows: pl.DataFrame, folder: Path) -> list[Path]:
    """Draw each figure into this folder as NAME.svg, and say which were drawn."""
    if rows["ranker"].n_unique() > _MOST:
        return []
    return [
        figure.draw(rows, folder / f"{name}.svg")
        for name, figure in _FIGURES.items()
        if find_metric(rows, figure.CURVES.metric) is not None
    ]
