"""What the paper proves, over a run: coverage of the widths, certain orders, log det A_t."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import polars as pl

from olrank.errors import DataError
from olrank.figures import page, style
from olrank.figures.panels import Curves, counted, draw_panel


class _Sheet(NamedTuple):
    """A figure: its headline, a panel for each metric, and how they are counted."""

    title: str
    panels: tuple[tuple[str, str, str, tuple[float | None, float | None]], ...]
    note: str


COVERAGE = _Sheet(
    "Do the confidence widths hold?",
    (
        ("coverage", "pairs within their width", "share of pairs", (0.0, 1.02)),
        ("certain_share", "pairs whose order is certain", "share of pairs", (0.0, 1.02)),
        ("certain_right", "certain orders that are right", "share of certain pairs", (None, 1.005)),
    ),
    "All pairs inside held-out queries. Left: |sigma(f_ij) - sigma(h_ij)| <= CB_ij, which Lemma 1 "
    "promises with its own constants, which are not known (here: 1, and eps(m) = 0). Right: "
    "Corollary 1; where nothing is certain there is nothing to show.",
)
LOG_DET = _Sheet(
    "How much has been seen: the growth of log det A",
    (("log_det_ratio", "log(det A_t / det A_1)", "log det ratio", (0.0, None)),),
    "Theorem 1 bounds the regret through this; it should bend like a logarithm of the rounds.",
)


def draw(rows: pl.DataFrame, path: Path, sheet: _Sheet) -> Path:
    """Draw a sheet's panels, one curve for each settings of the rows."""
    metrics = [metric for metric, *_ in sheet.panels]
    chosen = rows.filter(pl.col("metric").is_in(metrics), pl.col("value").is_finite())
    if chosen.is_empty():
        raise DataError(f"{path.name}: the rows hold none of {', '.join(metrics)}.")
    settings = chosen["settings"].unique(maintain_order=True).to_list()
    looks = style.looks(settings)
    data, users = chosen["dataset"].unique(), chosen["user"].unique()
    caption = (
        f"{chosen['ranker'][0]}. {counted(chosen)}. {sheet.note} Data: {', '.join(data.sort())}; "
        f"user: {', '.join(users.sort())}."
    )
    with style.applied():
        figure, axes = page.page(1, len(sheet.panels), caption, legend=2.6, sharex=True)
        for panel, (metric, title, label, bounds) in zip(axes[0], sheet.panels, strict=True):
            part = chosen.filter(metric=metric).with_columns(ranker="settings")
            curves = Curves(metric, "", label, "", bounds, log_rounds=metric != "log_det_ratio")
            draw_panel(panel, part, curves, looks)
            panel.set_title(title)
            panel.set_xlabel("round")
            panel.set_ylabel(label)
        page.legend(figure, page.curves_in(axes[0], settings))
        page.headline(figure, sheet.title)
        return style.save(figure, path)
