"""By how much one ranker is ahead of each of the others: a dot and its interval for every cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from olrank.figures import dots, page, style
from olrank.figures.panels import user_order

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
    looks: dots.Looks = {kind: _look(users, stops, kind) for kind in kinds}
    with style.applied():
        figure, grid = page.page(len(datasets), 2, caption, legend=2.2, sharey=True)
        figure.set_size_inches(9.6, 0.9 + len(datasets) * (0.55 + 0.36 * len(rivals)))
        for line, dataset in zip(grid, datasets, strict=True):
            for axes, metric in zip(line, _LABELS, strict=True):
                part = compared.filter(dataset=dataset, metric=metric)
                if metric == "offline":
                    axes.axvline(-margin, color="#000000", linewidth=0.9, linestyle="--")
                dots.panel(axes, part, "rival", rivals, ["user", "stop"], looks)
                axes.set_title(f"{dataset}, {metric}")
                axes.set_xlabel(_LABELS[metric])
        dots.name_lines(grid[0][0], rivals)
        page.legend(figure, dots.handles(looks), "user, stop rule")
        page.headline(figure, "Ahead of every baseline?")
        return style.save(figure, path)


def _look(users: list[str], stops: list[str], kind: tuple[str, str]) -> dict[str, Any]:
    """Colour and marker say the user; a hollow marker the second stop rule."""
    place = users.index(kind[0]) % len(dots.COLOURS)
    colour = dots.COLOURS[place]
    filled = colour if stops.index(kind[1]) == 0 else "white"
    return {"color": colour, "marker": dots.MARKERS[place], "markerfacecolor": filled}
