"""Effects of choices, as dots with intervals."""

from pathlib import Path

import polars as pl
import pytest
from matplotlib.figure import Figure

from olrank.figures import effects, style

BASES = {"paper": ["pairs", "order"], "best": ["alone"]}
USERS = ("all", "perfect", "navigational", "informational", "near-random")
METRICS = ("ndcg@10", "online_ndcg")


@pytest.fixture
def figure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Figure:
    drawn: list[Figure] = []

    def keep(figure: Figure, path: Path) -> Path:
        drawn.append(figure)
        return path

    monkeypatch.setattr(style, "save", keep)
    effects.draw(found(), tmp_path / "effects.svg")
    return drawn[0]


def found() -> pl.DataFrame:
    return pl.DataFrame(
        [
            {
                "base": base, "metric": metric, "choice": choice, "user": user,
                "difference": 0.1 * (1 + i), "low": 0.05, "high": 0.55, "n": 10,
            }
            for base, choices in BASES.items() for metric in METRICS
            for choice in choices for i, user in enumerate(USERS)
        ]
    )  # fmt: skip


def test_a_base_has_a_panel_for_each_metric_and_lines_for_its_own_variants(figure: Figure):
    assert [axes.get_title() for axes in figure.axes] == [
        "against paper: offline", "against paper: online",
        "against best: offline", "against best: online",
    ]  # fmt: skip
    named = [[tick.get_text() for tick in axes.get_yticklabels()] for axes in figure.axes]
    assert named[0] == BASES["paper"]
    assert named[2] == BASES["best"]


def test_every_user_and_all_together_are_dots_with_their_values(figure: Figure):
    for axes, choices in zip(figure.axes, (2, 2, 1, 1), strict=True):
        dots = [line for line in axes.get_lines() if line.get_linestyle() == "None"]
        at = sorted(round(float(line.get_xdata()[0]), 6) for line in dots)
        assert at == sorted([0.1, 0.2, 0.3, 0.4, 0.5] * choices)
        heights = {round(float(line.get_ydata()[0]), 6) for line in dots}
        assert len(heights) == len(dots)  # no dot hides another
        bars = [line for line in axes.get_lines() if list(line.get_xdata()) == [0.05, 0.55]]
        assert len(bars) == len(dots)


def test_users_are_told_apart_without_colour(figure: Figure):
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "all users", "perfect", "navigational", "informational", "near-random"
    ]  # fmt: skip
    looks = {(one.get_marker(), one.get_markerfacecolor() == "white") for one in legend.get_lines()}
    assert len(looks) == len(USERS)
