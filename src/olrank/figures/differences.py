"""By how much one ranker is ahead of each of the others: a dot and its interval for every cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from olrank.figures import page, style
from olrank.figures.panels import user_order

_COLOURS = ("#0072B2", "#D55E00", "#555555", "#009E73", "#CC79A7")
_MARKERS = ("o", "s", "^", "D", "v")
_SPREAD = 0.72  # of a line's height, shared by the dots of one rival
_LABELS = {
    "online": "online NDCG, ours - theirs",
    "offline": "NDCG@k on test queries, ours - theirs",
}


def draw(compared: pl.DataFrame, path: Path, margin: float) -> Path:
    """Draw one line of panels a data set, online on the left and offline on the right.

    Args:
        compared: dataset, user, stop, rival, metric, difference, low, high, n.
        path: of the SVG.
        margin: of non-inferiority offline, drawn as a dashed line.
    """
    datasets = compared["dataset"].unique(maintain_order=True).to_list()
    rivals = compared["rival"].unique(maintain_order=True).to_list()
    users = sorted(compared["user"].unique(), key=user_order)
    stops = compared["stop"].unique(maintain_order=True).to_list()
    kinds = [(user, stop) for user in users for stop in stops]
    counts = compared["n"].unique().sort().to_list()
    caption = (
        f"Paired over {' or '.join(map(str, counts))} (fold, seed), as many as the set has; bars "
        "are 95% intervals of the mean difference (Student's t). To the right of 0 ours is ahead. "
        f"The dashed line is the margin of non-inferiority, {margin:g}. Scales differ between "
        "panels."
    )
    with style.applied():
        figure, grid = page.page(len(datasets), 2, caption, legend=2.2, sharey=True)
        figure.set_size_inches(9.6, 0.9 + len(datasets) * (0.55 + 0.36 * len(rivals)))
        for line, dataset in zip(grid, datasets, strict=True):
            for axes, metric in zip(line, _LABELS, strict=True):
                part = compared.filter(dataset=dataset, metric=metric)
                _panel(axes, part, rivals, kinds, margin if metric == "offline" else None)
                axes.set_title(f"{dataset}, {metric}")
                axes.set_xlabel(_LABELS[metric])
        grid[0][0].set_yticks(range(len(rivals)), rivals)
        grid[0][0].set_ylim(len(rivals) - 0.5, -0.5)
        page.legend(figure, _handles(kinds), "user, stop rule")
        page.headline(figure, "Ahead of every baseline?")
        return style.save(figure, path)


def _panel(
    axes: Axes,
    part: pl.DataFrame,
    rivals: list[str],
    kinds: list[tuple[str, str]],
    margin: float | None,
) -> None:
    axes.axvline(0.0, color="#000000", linewidth=0.9)
    if margin is not None:
        axes.axvline(-margin, color="#000000", linewidth=0.9, linestyle="--")
    for at in range(1, len(rivals)):
        axes.axhline(at - 0.5, color="#e4e4e4", linewidth=0.6)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    for i, kind in enumerate(kinds):
        offset = _SPREAD * ((i + 0.5) / len(kinds) - 0.5)
        lines = part.filter(user=kind[0], stop=kind[1])
        for x in lines.iter_rows(named=True):
            y = rivals.index(x["rival"]) + offset
            look = _look(kinds, kind)
            axes.plot([x["low"], x["high"]], [y, y], color=look["color"], linewidth=1.2)
            axes.plot([x["difference"]], [y], linestyle="none", markersize=4.2, **look)


def _look(kinds: list[tuple[str, str]], kind: tuple[str, str]) -> dict[str, Any]:
    """Colour and marker say the user; a hollow marker the second stop rule."""
    users = list(dict.fromkeys(user for user, _ in kinds))
    stops = list(dict.fromkeys(stop for _, stop in kinds))
    place = users.index(kind[0]) % len(_COLOURS)
    colour = _COLOURS[place]
    filled = colour if stops.index(kind[1]) == 0 else "white"
    return {"color": colour, "marker": _MARKERS[place], "markerfacecolor": filled}


def _handles(kinds: list[tuple[str, str]]) -> list[Artist]:
    return [
        Line2D([], [], linewidth=1.2, markersize=4.2, label=f"{user}, {stop}",
               **_look(kinds, (user, stop)))
        for user, stop in kinds
    ]  # fmt: skip
