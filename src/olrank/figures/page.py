"""The frame of a figure: its size from its panels, a headline above, a caption below."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

_PANEL = (3.0, 2.5)  # inches
_LEGEND = 1.9
_NARROWEST = 6.4  # a headline needs as much


def page(
    n_lines: int, n_columns: int, caption: str, legend: float = _LEGEND, **shared: Any
) -> tuple[Figure, Any]:
    """A figure with its caption set, and its axes [n_lines, n_columns].

    Args:
        n_lines: of panels.
        n_columns: of panels.
        caption: wrapped to the figure's width.
        legend: inches to leave for it on the right.
        shared: further arguments of `Figure.subplots`.
    """
    width = max(_PANEL[0] * n_columns + legend, _NARROWEST)
    wrapped = textwrap.wrap(caption, width=int(17.5 * width))
    height = _PANEL[1] * n_lines + 0.45 + 0.17 * len(wrapped)
    figure = Figure(figsize=(width, height), layout="constrained")
    below(figure, wrapped)
    return figure, figure.subplots(n_lines, n_columns, squeeze=False, **shared)


def below(figure: Figure, caption: list[str]) -> None:
    """Put a caption's lines below all panels."""
    figure.supxlabel("\n".join(caption), x=0.01, ha="left", fontsize=7.5, color="#444444")


def headline(figure: Figure, title: str) -> None:
    """Put the title above all panels."""
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")


def legend(figure: Figure, handles: list[Artist], title: str | None = None) -> None:
    """Put the legend on the right, outside the panels."""
    figure.legend(handles=handles, loc="outside right center", handlelength=3.2, title=title)


def curves_in(panels: Iterable[Axes], titles: Iterable[str]) -> list[Artist]:
    """For a legend: one curve of each title that some panel has drawn, in this order."""
    drawn = {curve.get_label(): curve for panel in panels for curve in panel.get_lines()}
    return [drawn[title] for title in titles if title in drawn]


def wrapped(n_panels: int, n_columns: int, caption: str, **rest: Any) -> tuple[Figure, list[Axes]]:
    """A figure with so many panels, at most `n_columns` in a line, and their axes in order."""
    n_columns = min(n_columns, n_panels)
    figure, grid = page(-(-n_panels // n_columns), n_columns, caption, **rest)
    panels = list(grid.flat)
    for spare in panels[n_panels:]:
        spare.remove()
    return figure, panels[:n_panels]
