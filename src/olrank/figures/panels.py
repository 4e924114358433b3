"""The grid that figures over rounds share: one column a user, one line of panels a data set."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from olrank.errors import DataError
from olrank.figures import page, style
from olrank.metrics.compare import interval

_USERS = ("perfect", "navigational", "informational")
_BANDS = "bands are 95% bootstrap intervals"
_THOUSANDS = FuncFormatter(lambda value, _: f"{value:,.6g}")
_N_RESAMPLES = 2000  # a band's edge moves by less than a line's width with more


class Curves(NamedTuple):
    """What a figure of curves shows.

    Attributes:
        metric: as rows call it; "ndcg" stands for "ndcg@k" with whatever k they hold.
        title: the figure's headline.
        label: of the vertical axis.
        note: a sentence for the caption: how the metric is counted.
        bounds: of the vertical axis, where the metric has natural ones.
        log_rounds: whether the rounds are spread on a log scale.
    """

    metric: str
    title: str
    label: str
    note: str
    bounds: tuple[float | None, float | None] = (None, None)
    log_rounds: bool = True


def draw_curves(rows: pl.DataFrame, curves: Curves, path: Path) -> Path:
    """Mean curves with interval bands over (fold, seed), as one SVG."""
    metric = find_metric(rows, curves.metric)
    if metric is None:
        raise DataError(f'{path.name}: the rows hold no metric "{curves.metric}" to draw.')
    chosen = rows.filter((pl.col("metric") == metric) & pl.col("value").is_finite())
    places = chosen.select("dataset", "stop").unique().sort("dataset", "stop").rows()
    users = sorted(chosen["user"].unique(), key=user_order)
    with style.applied():
        figure = _grid(
            chosen, curves._replace(label=curves.label.format(k=metric[5:])), places, users
        )
        return style.save(figure, path)


def find_metric(rows: pl.DataFrame, wanted: str) -> str | None:
    """The rows' own name of a metric, or None where they have no value of it."""
    finite = rows.filter(pl.col("value").is_finite())
    for metric in finite["metric"].unique().sort():
        if metric == wanted or metric.startswith(f"{wanted}@"):
            return str(metric)
    return None


def _grid(
    chosen: pl.DataFrame, curves: Curves, places: list[tuple[Any, ...]], users: list[str]
) -> Figure:
    looks = style.looks(chosen["ranker"].unique(maintain_order=True))
    caption = textwrap.wrap(_caption(chosen, curves), width=int(38 + 42 * len(users)))
    # Inches: panels of 3.0 x 2.5, then room for the legend on the right and the caption below.
    width, height = 3.0 * len(users) + 1.9, 2.5 * len(places) + 0.45 + 0.17 * len(caption)
    figure = Figure(figsize=(width, height), layout="constrained")
    grid = figure.subplots(len(places), len(users), squeeze=False, sharex=True, sharey="row")
    for line, (dataset, stop) in zip(grid, places, strict=True):
        for axes, user in zip(line, users, strict=True):
            panel = chosen.filter(dataset=dataset, stop=stop, user=user)
            draw_panel(axes, panel, curves, looks)
            axes.set_title(f"{user} user")
            if axes is line[0]:
                place = f"{dataset}, {stop}\n" if len(places) > 1 else ""
                axes.set_ylabel(f"{place}{curves.label}")
    for axes in grid[-1]:
        axes.set_xlabel("round")
    shown = page.curves_in(grid.flat, looks)
    figure.legend(handles=shown, loc="outside right upper", handlelength=3.2)
    page.headline(figure, curves.title)
    page.below(figure, caption)
    return figure


def draw_panel(
    axes: Axes, panel: pl.DataFrame, curves: Curves, looks: dict[str, style.Look]
) -> None:
    """One panel: a mean curve with its band for each ranker that has a look."""
    for title, look in looks.items():
        curve = mean_curve(panel.filter(ranker=title))
        if curve.is_empty():
            continue
        rounds = curve["round"].to_numpy()
        axes.plot(
            rounds,
            curve["mean"].to_numpy(),
            color=look.colour,
            linestyle=look.line,
            marker=look.marker,
            markevery=0.15,  # of the panel, so that markers stay apart on a log scale
            label=title,
        )
        low, high = curve["low"].to_numpy(), curve["high"].to_numpy()
        axes.fill_between(rounds, low, high, color=look.colour, alpha=0.13, linewidth=0)
    if curves.log_rounds:
        _spread_rounds(axes, panel)
    axes.xaxis.set_major_formatter(_THOUSANDS)
    axes.yaxis.set_major_formatter(_THOUSANDS)
    axes.set_ylim(*curves.bounds)


def mean_curve(lines: pl.DataFrame) -> pl.DataFrame:
    """round, mean, low, high: over the (fold, seed) of one ranker in one panel."""
    found = []
    for (at,), part in lines.sort("round", "fold", "seed").group_by("round", maintain_order=True):
        band = interval(part["value"].to_numpy(), n_resamples=_N_RESAMPLES)
        found.append({"round": at, "mean": band.mean, "low": band.low, "high": band.high})
    return pl.DataFrame(found)


def _spread_rounds(axes: Axes, panel: pl.DataFrame) -> None:
    """A log scale that still has a place for round 0, the ranker before it has learned."""
    if panel["round"].min() == 0:
        axes.set_xscale("symlog", linthresh=1.0, linscale=0.4)
    else:
        axes.set_xscale("log")
    axes.xaxis.set_minor_locator(NullLocator())


def _caption(chosen: pl.DataFrame, curves: Curves) -> str:
    """Number of seeds and folds, and the conventions that all rows share."""
    said = [f"Data: {_values(chosen, 'dataset')}", f"stop rule: {_values(chosen, 'stop')}"]
    if shared := shared_conventions(chosen):
        said.append(f"conventions: {shared}")
    return f"{counted(chosen)}. {curves.note} {'; '.join(said)}."


def counted(chosen: pl.DataFrame) -> str:
    """What a mean is over: how many seeds and folds, and what the bands are."""
    places = chosen.group_by("dataset").agg(pl.col("seed", "fold").n_unique())
    if places.select((pl.col("seed") * pl.col("fold")).max()).item() == 1:
        return "One seed and fold"
    counts = " x ".join(_how_many(places[name], name) for name in ("seed", "fold"))
    return f"Mean over {counts}; {_BANDS}"


def _how_many(counts: pl.Series, what: str) -> str:
    """A count that data sets share, or between which counts theirs lie: "1 to 5 folds"."""
    fewest, most = min(counts), max(counts)
    told = f"{most}" if fewest == most else f"{fewest} to {most}"
    return f"{told} {what}{'s' * (most > 1)}"


def _values(chosen: pl.DataFrame, column: str) -> str:
    return ", ".join(str(value) for value in chosen[column].unique().sort())


def shared_conventions(chosen: pl.DataFrame) -> str:
    """The "name=value" words that every ranker's conventions hold, in the first one's order."""
    if "conventions" not in chosen.columns:
        return ""
    first, *others = (line.split() for line in chosen["conventions"].unique(maintain_order=True))
    return ", ".join(word for word in first if all(word in other for other in others))


def user_order(user: str) -> tuple[int, str]:
    """Sorts users as the paper does, others behind them by name."""
    return (_USERS.index(user) if user in _USERS else len(_USERS), user)
