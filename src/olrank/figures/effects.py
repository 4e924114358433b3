"""What each choice does: variants against the ranker that they differ from in one thing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from olrank.figures import dots, page, style
from olrank.figures.panels import user_order

_TOGETHER = {"color": "#000000", "marker": "D", "markerfacecolor": "#000000"}


def draw(found: pl.DataFrame, path: Path) -> Path:
    """Draw one line of panels a base, offline on the left and online on the right.

    Args:
        found: base, metric, choice, user ("all" for all together), difference, low, high, n.
        path: of the SVG.
    """
    metrics = found["metric"].unique(maintain_order=True).to_list()
    choices = {
        base: part["choice"].unique(maintain_order=True).to_list()
        for (base,), part in found.group_by("base", maintain_order=True)
    }
    users = sorted(set(found["user"]) - {"all"}, key=user_order)
    looks: dots.Looks = {
        ("all users",): _TOGETHER,
        **{(user,): _look(i) for i, user in enumerate(users)},
    }
    told = found.with_columns(kind=pl.col("user").replace("all", "all users"))
    counts = " or ".join(map(str, found["n"].unique().sort()))
    caption = (
        f"Paired over {counts} (data set, fold, seed); bars are 95% intervals of the mean "
        "difference (bootstrap). To the right of 0 a choice does better. Scales differ between "
        "panels."
    )
    heights = [0.75 + 0.36 * len(names) for names in choices.values()]
    with style.applied():
        shared = {"sharey": "row", "height_ratios": heights}
        figure, grid = page.page(len(choices), len(metrics), caption, legend=1.6, **shared)
        figure.set_size_inches(10.4, 0.9 + sum(heights))
        for line, (base, names) in zip(grid, choices.items(), strict=True):
            for axes, metric in zip(line, metrics, strict=True):
                part = told.filter(base=base, metric=metric)
                dots.panel(axes, part, "choice", names, ["kind"], looks)
                axes.set_title(f"against {base}: {_where(metric)}")
                axes.set_xlabel(_label(metric))
            dots.name_lines(line[0], names)
        page.legend(figure, dots.handles(looks), "user")
        page.headline(figure, "What does each choice do?")
        return style.save(figure, path)


def _where(metric: str) -> str:
    return "online" if metric == "online_ndcg" else "offline"


def _label(metric: str) -> str:
    if metric == "online_ndcg":
        return "cumulative online NDCG, variant - base"
    return f"{metric.upper()} on held-out queries, variant - base"


def _look(place: int) -> dict[str, Any]:
    colour = dots.COLOURS[place % len(dots.COLOURS)]
    return {
        "color": colour,
        "marker": dots.MARKERS[place % len(dots.MARKERS)],
        "markerfacecolor": "white",
    }
