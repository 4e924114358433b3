from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest
from experiments.made_rows import made_rows

from olrank.figures import certainty, learning, online, regret
from olrank.figures.all import draw_all

FIGURES = [learning, online, regret, certainty]


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.__name__.split(".")[-1])
def test_a_figure_redraws_to_the_same_bytes_as_valid_svg(figure, tmp_path: Path):
    first = figure.draw(made_rows(), tmp_path / "first.svg").read_bytes()
    shuffled = made_rows().sample(fraction=1.0, shuffle=True, seed=1)
    again = figure.draw(
        shuffled.sort("ranker", maintain_order=True), tmp_path / "again.svg"
    ).read_bytes()
    assert first == again
    assert ElementTree.fromstring(first).tag == "{http://www.w3.org/2000/svg}svg"


def test_all_figures_of_a_run_are_drawn(tmp_path: Path):
    drawn = draw_all(made_rows(), tmp_path / "figures")
    assert [path.name for path in drawn] == [
        "learning.svg",
        "online.svg",
        "regret.svg",
        "certainty.svg",
    ]
    assert all(path.is_file() for path in drawn)


def test_more_curves_than_can_be_told_apart_are_not_drawn(tmp_path: Path):
    many = [f"variant {i}" for i in range(13)]
    assert draw_all(made_rows(rankers=many), tmp_path / "many") == []
    assert draw_all(made_rows(rankers=many[1:]), tmp_path / "fewer") != []


def test_a_figure_without_values_is_left_out(tmp_path: Path):
    rows = made_rows().filter(pl.col("metric") != "certain_ratio")
    assert "certainty.svg" not in [path.name for path in draw_all(rows, tmp_path)]


def test_the_certainty_figure_shows_only_rankers_that_are_ever_certain(tmp_path: Path):
    text = certainty.draw(made_rows(), tmp_path / "a.svg").read_text()
    assert "<!-- olranknet -->" in text
    assert "<!-- pdgd-linear -->" not in text
