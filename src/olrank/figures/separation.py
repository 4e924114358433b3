"""Can a linear function tell the grades apart? Documents in the two best linear directions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.patheffects as effects
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse

from olrank.figures import page, style

# From light to dark, so that grades keep their order in grey, and a marker of its own for each.
_GRADES = (
    ("#E8C547", "o"),
    ("#7FB77E", "s"),
    ("#3F8FA6", "^"),
    ("#3B528B", "D"),
    ("#2D0A4E", "*"),
)
_WITHIN = 1.5  # standard deviations that an outline goes around: two thirds of a normal cloud
_TITLE = "How far a linear function tells the grades apart"


def draw(points: pl.DataFrame, path: Path) -> Path:
    """Draw projected documents, one panel a data set.

    Args:
        points: dataset, grade, predicted, x, y; see `experiments.paper.separation`.
        path: the SVG to write.
    """
    names = points["dataset"].unique(maintain_order=True).to_list()
    grades = sorted(points["grade"].unique())
    with style.applied():
        figure, axes = page.wrapped(len(names), 3, _caption(points), legend=1.1)
        for panel, name in zip(axes, names, strict=True):
            _draw_panel(panel, points.filter(dataset=name))
            panel.set_title(name)
        page.legend(figure, [_handle(grade) for grade in grades], "grade")
        page.headline(figure, _TITLE)
        return style.save(figure, path)


def _caption(points: pl.DataFrame) -> str:
    said = []
    for (name,), part in points.group_by("dataset", maintain_order=True):
        recalls = part.group_by("grade").agg((pl.col("predicted") == pl.col("grade")).mean())
        share = float(recalls["predicted"].mean())  # type: ignore[arg-type]
        said.append(f"{name}: {share:.0%} against {1 / len(recalls):.0%} by guessing")
    return (
        "Linear discriminant analysis of all documents of a set (scikit-learn, equal priors), its "
        "first two directions; equally many documents of each grade are shown, outlines go around "
        f"{_WITHIN} standard deviations of a grade. Share of documents, mean over "
        f"grades, that it puts into their own grade: {'; '.join(said)}."
    )


def _draw_panel(axes: Axes, points: pl.DataFrame) -> None:
    for set_limits, column in ((axes.set_xlim, "x"), (axes.set_ylim, "y")):
        low, high = points[column].quantile(0.005) or 0.0, points[column].quantile(0.995) or 0.0
        room = 0.08 * (high - low) or 1.0
        set_limits(low - room, high + room)
    for (grade,), part in points.sort("grade").group_by("grade", maintain_order=True):
        colour, marker = _look(grade)
        x, y = part["x"].to_numpy(), part["y"].to_numpy()
        axes.scatter(x, y, s=7, c=colour, marker=marker, alpha=0.45, linewidths=0, rasterized=False)
    for (grade,), part in points.sort("grade").group_by("grade", maintain_order=True):
        x, y = part["x"].to_numpy(), part["y"].to_numpy()
        _outline(axes, x, y, _look(grade)[0])
        _number(axes, x, y, int(str(grade)))
    axes.set_xlabel("first direction")
    axes.set_ylabel("second direction")


def _outline(axes: Axes, x: Any, y: Any, colour: str) -> None:
    if len(x) < 3:
        return
    spreads, axes_of = np.linalg.eigh(np.cov(x, y))
    wide, high = 2 * _WITHIN * np.sqrt(np.maximum(spreads[::-1], 0.0))
    angle = float(np.degrees(np.arctan2(axes_of[1, 1], axes_of[0, 1])))
    centre = (float(x.mean()), float(y.mean()))
    for edge, line_width in (("white", 3.0), (colour, 1.5)):
        axes.add_patch(
            Ellipse(
                centre, float(wide), float(high), angle=angle, fill=False, edgecolor=edge,
                linewidth=line_width, zorder=4,
            )
        )  # fmt: skip


def _number(axes: Axes, x: Any, y: Any, grade: int) -> None:
    """The grade on its outline, each in another direction, so that equal means stay readable."""
    angle = np.radians(150.0 - 40.0 * grade)
    reach = _WITHIN * np.array([np.cos(angle), np.sin(angle)])
    axes.text(
        _inside(float(x.mean() + reach[0] * x.std()), axes.get_xlim()),
        _inside(float(y.mean() + reach[1] * y.std()), axes.get_ylim()),
        str(grade),
        fontsize=10,
        fontweight="bold",
        ha="center",
        va="center",
        path_effects=[effects.withStroke(linewidth=3, foreground="white")],
        zorder=5,
    )


def _inside(at: float, limits: tuple[float, float]) -> float:
    """The place nearest to this one that a number has room at."""
    room = 0.06 * (limits[1] - limits[0])
    return min(max(at, limits[0] + room), limits[1] - room)


def _look(grade: Any) -> tuple[str, str]:
    return _GRADES[min(int(grade), len(_GRADES) - 1)]


def _handle(grade: int) -> Line2D:
    colour, marker = _look(grade)
    return Line2D([], [], linestyle="", marker=marker, color=colour, label=str(grade))
