"""Differences against each baseline, as dots with intervals."""

from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest
from matplotlib.figure import Figure

from olrank.figures import differences, style

USERS, STOPS = ("perfect", "navigational"), ("clicked", "examined")


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    figures: list[Figure] = []
    save = style.save

    def keep(figure: Figure, path: Path) -> Path:
        figures.append(figure)
        return save(figure, path)

    monkeypatch.setattr(style, "save", keep)
    return figures


def compared() -> pl.DataFrame:
    return pl.DataFrame(
        [
            {
                "dataset": dataset, "user": user, "stop": stop, "rival": rival, "metric": metric,
                "difference": 0.1, "low": 0.05, "high": 0.15, "n": 10,
            }
            for dataset in ("one", "two") for user in USERS for stop in STOPS
            for rival in ("a", "b", "c") for metric in ("online", "offline")
        ]
    )  # fmt: skip


def test_every_cell_is_a_dot_with_its_interval_in_its_own_panel(drawn, tmp_path):
    differences.draw(compared(), tmp_path / "d.svg", margin=0.005)
    panels = drawn[0].axes
    assert [axes.get_title() for axes in panels] == [
        "one, online", "one, offline", "two, online", "two, offline"
    ]  # fmt: skip
    for axes in panels:
        dots = [line for line in axes.get_lines() if line.get_linestyle() == "None"]
        bars = [line for line in axes.get_lines() if list(line.get_xdata()) == [0.05, 0.15]]
        assert len(dots) == len(bars) == 3 * 2 * 2
        heights = [float(line.get_ydata()[0]) for line in dots]
        assert len({round(y, 6) for y in heights}) == len(heights)  # no dot hides another
    ElementTree.parse(tmp_path / "d.svg")


def test_users_and_stop_rules_are_told_apart_without_colour(drawn, tmp_path):
    differences.draw(compared(), tmp_path / "d.svg", margin=0.005)
    (legend,) = drawn[0].legends
    looks = {
        (handle.get_marker(), str(handle.get_markerfacecolor()) == "white")
        for handle in legend.get_lines()
    }
    assert len(looks) == len(USERS) * len(STOPS)


def test_the_margin_stands_in_the_offline_panels_alone(drawn, tmp_path):
    differences.draw(compared(), tmp_path / "d.svg", margin=0.005)
    at = [
        any(list(line.get_xdata()) == [-0.005, -0.005] for line in axes.get_lines())
        for axes in drawn[0].axes
    ]
    assert at == [False, True, False, True]


def test_a_redraw_gives_the_same_bytes(tmp_path):
    one, two = (
        differences.draw(compared(), tmp_path / name, margin=0.005).read_bytes() for name in "ab"
    )
    assert one == two
