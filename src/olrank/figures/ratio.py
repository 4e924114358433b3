"""Ratio of certain orders among the top documents, as the paper shows it: one curve a user."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from olrank.errors import DataError
from olrank.figures import page, style
from olrank.figures.panels import Curves, counted, draw_panel, shared_conventions, user_order

_CURVES = Curves(
    metric="certain_ratio",
    title="How many orders among the shown documents are certain",
    label="ratio of certain orders",
    note="",
    bounds=(0.0, 1.02),
    log_rounds=False,
)
_LOOKS = {
    "perfect": style.Look("#0072B2", "-", "o"),
    "navigational": style.Look("#D55E00", "--", "s"),
    "informational": style.Look("#555555", ":", "^"),
}


def draw(rows: pl.DataFrame, path: Path, ranker: str = "olranknet") -> Path:
    """Draw one panel a data set and stop rule, one curve a user, for one ranker."""
    known = pl.col("value").is_finite()
    chosen = rows.filter(known, metric="certain_ratio", ranker=ranker)
    if chosen.is_empty():
        raise DataError(f"{path.name}: the rows hold no certain ratio of {ranker} to draw.")
    places = chosen.select("dataset", "stop").unique().sort("dataset", "stop").rows()
    users = sorted(chosen["user"].unique(), key=user_order)
    spare = style.looks(user for user in users if user not in _LOOKS)
    looks = {user: _LOOKS.get(user) or spare[user] for user in users}
    caption = (
        f"{ranker}. {counted(chosen)}. Unordered pairs of shown documents whose order was certain, "
        "over all pairs shown, mean over the rounds since the point before; lists of one document "
        f"are left out. Conventions: {shared_conventions(chosen)}."
    )
    with style.applied():
        figure, axes = page.wrapped(len(places), 4, caption, sharey=True)
        for panel, (dataset, stop) in zip(axes, places, strict=True):
            part = chosen.filter(dataset=dataset, stop=stop).with_columns(ranker="user")
            draw_panel(panel, part, _CURVES, looks)
            panel.set_title(f"{dataset}, stop rule {stop}", fontsize=9)
            panel.set_xlabel("round")
        for panel in axes[::4]:
            panel.set_ylabel(_CURVES.label)
        page.legend(figure, page.curves_in(axes, users), "user")
        page.headline(figure, _CURVES.title)
        return style.save(figure, path)
