"""Cumulative regret on data with a gap, and which growth it follows: log^2 T, sqrt(T) or T."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from matplotlib.axes import Axes

from olrank.errors import DataError
from olrank.figures import page, style
from olrank.figures.panels import Curves, counted, draw_panel, mean_curve
from olrank.metrics.fit import Fit, fits

_TITLE = "How regret grows on data with a gap between grades"
_LABELS = {"regret": "all documents", "examined_regret": "examined documents only"}
_FITTED = {
    "log^2 T": ("#000000", (0, (1.0, 1.5))),
    "sqrt T": ("#777777", (0, (4.0, 2.0))),
    "T": ("#BBBBBB", "-"),
}
_FROM = 0.05  # of the run: before that points lie closer together and would weigh more


def regret_fits(rows: pl.DataFrame, ranker: str, metric: str) -> list[Fit]:
    """Fits to the mean curve of a ranker's cumulative regret, the best first."""
    curve = mean_curve(rows.filter(ranker=ranker, metric=metric))
    if curve.is_empty():
        raise DataError(f"the rows hold no {metric} of {ranker} to fit.")
    last = int(curve["round"].max())  # type: ignore[arg-type]
    even = curve.filter(pl.col("round") >= _FROM * last)
    return fits(even["round"].to_numpy(), even["mean"].to_numpy())


def draw(rows: pl.DataFrame, path: Path) -> Path:
    """Draw a line of panels for each kind of regret, a panel a ranker, with the three fits."""
    metrics = [metric for metric in _LABELS if metric in rows["metric"].unique()]
    rankers = rows.filter(pl.col("metric").is_in(metrics))["ranker"].unique(maintain_order=True)
    if not metrics:
        raise DataError(f"{path.name}: the rows hold no regret to draw.")
    looks = style.looks(rankers)
    caption = (
        f"{counted(rows)}. Regret counts pairs in the wrong order against the grades. Fits are "
        "least squares with an intercept, from the first twentieth of the run on; R^2 is the share "
        "of the mean curve's variance that a fit explains. Data: "
        f"{', '.join(rows['dataset'].unique().sort())}; "
        f"user: {', '.join(rows['user'].unique().sort())}."
    )
    with style.applied():
        figure, axes = page.page(len(metrics), len(rankers), caption, legend=0.2)
        for line, metric in zip(axes, metrics, strict=True):
            for panel, ranker in zip(line, rankers, strict=True):
                _draw(panel, rows.filter(metric=metric), ranker, metric, looks)
                panel.set_title(ranker)
                panel.set_xlabel("round")
            line[0].set_ylabel(f"cumulative regret,\n{_LABELS[metric]}")
        page.headline(figure, _TITLE)
        return style.save(figure, path)


def _draw(
    axes: Axes, rows: pl.DataFrame, ranker: str, metric: str, looks: dict[str, style.Look]
) -> None:
    part = rows.filter(ranker=ranker)
    curves = Curves(metric, "", "", "", bounds=(0.0, None), log_rounds=False)
    draw_panel(axes, part, curves, {ranker: looks[ranker]})
    rounds = part["round"].unique().sort().to_numpy()
    rounds = rounds[rounds >= _FROM * rounds.max()]
    for fit in regret_fits(rows, ranker, metric):
        colour, line = _FITTED[fit.shape]
        label = f"{fit.shape}: R² {fit.r_squared:.4f}"
        axes.plot(rounds, fit.at(rounds), color=colour, linestyle=line, linewidth=1.2, label=label)
    handles, labels = axes.get_legend_handles_labels()
    fitted = [(h, text) for h, text in zip(handles, labels, strict=True) if "R²" in text]
    axes.legend(*zip(*fitted, strict=True), loc="lower right", fontsize=7.5)
