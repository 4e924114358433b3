"""Differences as dots with intervals, a line of dots for each name; what figures of them share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

Looks = Mapping[tuple[str, ...], Mapping[str, Any]]
"""What tells the dots of a line apart -> how one is drawn."""

COLOURS = ("#0072B2", "#D55E00", "#555555", "#009E73", "#CC79A7")
MARKERS = ("o", "s", "^", "D", "v")

_SPREAD = 0.72  # of a line's height, shared by its dots
_BAR, _DOT = 1.2, 4.2  # points
_STEPS = 6  # between numbers below a panel at most: with more they touch


def panel(
    axes: Axes, part: pl.DataFrame, name: str, names: Sequence[str], kinds: list[str], looks: Looks
) -> None:
    """A line for each name from the top, a dot for each kind.

    Args:
        axes: to draw on.
        part: difference, low, high, and the columns called `name` and `kinds`.
        name: the column that says on which line a dot is.
        names: of the lines, from the top.
        kinds: the columns that tell the dots of a line apart.
        looks: of each kind, from the top.
    """
    axes.axvline(0.0, color="#000000", linewidth=0.9)
    for at in range(1, len(names)):
        axes.axhline(at - 0.5, color="#e4e4e4", linewidth=0.6)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_locator(MaxNLocator(_STEPS, steps=[1, 2, 5, 10]))
    for i, (kind, look) in enumerate(looks.items()):
        offset = _SPREAD * ((i + 0.5) / len(looks) - 0.5)
        lines = part.filter(**dict(zip(kinds, kind, strict=True)))
        for x in lines.iter_rows(named=True):
            y = names.index(x[name]) + offset
            axes.plot([x["low"], x["high"]], [y, y], color=look["color"], linewidth=_BAR)
            axes.plot([x["difference"]], [y], linestyle="none", markersize=_DOT, **look)


def name_lines(axes: Axes, names: Sequence[str]) -> None:
    """Write the names beside the lines of a panel."""
    axes.set_yticks(range(len(names)), list(names))
    axes.set_ylim(len(names) - 0.5, -0.5)


def handles(looks: Looks) -> list[Artist]:
    """For a legend: a dot of each kind."""
    return [
        Line2D([], [], linewidth=_BAR, markersize=_DOT, label=", ".join(kind), **look)
        for kind, look in looks.items()
    ]
