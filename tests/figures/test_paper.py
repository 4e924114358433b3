"""The paper's other figures: non-linearity, ratio of certain orders, growth, fits."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from experiments.made_rows import made_rows
from matplotlib.figure import Figure

from olrank.errors import DataError
from olrank.figures import growth, ratio, regret_fit, separation, style

ROUNDS = tuple(range(10, 210, 10))


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Every figure that a test saves."""
    figures: list[Figure] = []
    save = style.save

    def keep(figure: Figure, path: Path) -> Path:
        figures.append(figure)
        return save(figure, path)

    monkeypatch.setattr(style, "save", keep)
    return figures


def points(names: tuple[str, ...] = ("one",)) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    frames = [
        pl.DataFrame(
            {
                "dataset": [name] * 40,
                "grade": [grade for grade in range(5) for _ in range(8)],
                "predicted": [grade if i < 4 else 0 for grade in range(5) for i in range(8)],
                "x": rng.normal(size=40),
                "y": rng.normal(size=40),
            }
        )
        for name in names
    ]
    return pl.concat(frames)


def known_h() -> pl.DataFrame:
    rows = made_rows(["olranknet"], rounds=ROUNDS).filter(metric="certain_ratio")
    metrics = ("coverage", "certain_share", "certain_right", "log_det_ratio")
    return pl.concat(
        rows.with_columns(metric=pl.lit(metric), settings=pl.lit(label))
        for metric in metrics
        for label in ("narrow", "wide")
    )


def gap() -> pl.DataFrame:
    rows = made_rows(rounds=ROUNDS).filter(metric="regret")
    curve = pl.col("round").log() ** 2 + 0.1 * pl.col("seed")
    ours = rows.with_columns(value=pl.when(pl.col("ranker") == "olranknet").then(curve)
                             .otherwise(pl.col("round").cast(pl.Float64)))  # fmt: skip
    return pl.concat([ours, ours.with_columns(metric=pl.lit("examined_regret"))])


FIGURES = {
    "separation": (separation.draw, points),
    "ratio": (ratio.draw, lambda: made_rows(users=("perfect", "navigational"), rounds=ROUNDS)),
    "coverage": (lambda rows, path: growth.draw(rows, path, growth.COVERAGE), known_h),
    "log_det": (lambda rows, path: growth.draw(rows, path, growth.LOG_DET), known_h),
    "regret_fit": (regret_fit.draw, gap),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_redraws_to_the_same_bytes_as_valid_svg(name, tmp_path: Path):
    draw, make = FIGURES[name]
    first = draw(make(), tmp_path / "a.svg").read_bytes()
    assert first == draw(make(), tmp_path / "b.svg").read_bytes()
    assert ElementTree.fromstring(first).tag == "{http://www.w3.org/2000/svg}svg"


@pytest.mark.parametrize("name", FIGURES)
def test_the_headline_and_the_legend_do_not_meet(name, drawn, tmp_path: Path):
    draw, make = FIGURES[name]
    draw(make(), tmp_path / "a.svg")
    figure = drawn[0]
    figure.canvas.draw()
    headline = figure._suptitle.get_window_extent()
    assert headline.x1 <= figure.bbox.x1
    for legend in figure.legends:
        assert not legend.get_window_extent().overlaps(headline)


def test_the_separation_figure_has_a_panel_a_data_set_and_says_how_well(drawn, tmp_path: Path):
    separation.draw(points(("one", "two", "three", "four")), tmp_path / "a.svg")
    assert [axes.get_title() for axes in drawn[0].axes] == ["one", "two", "three", "four"]
    # Grade 0 always right, the four others for half of their documents: (1 + 4 * 0.5) / 5.
    caption = drawn[0].get_supxlabel().replace("\n", " ")
    assert "one: 60% against 20% by guessing" in caption


def test_a_grade_s_number_stands_inside_its_panel(drawn, tmp_path: Path):
    rng = np.random.default_rng(0)
    spread = [0.1] * 190 + [30.0] * 10  # one grade's outline goes far beyond what is shown
    points = pl.DataFrame(
        {
            "dataset": ["wide"] * 200,
            "grade": [0] * 190 + [1] * 10,
            "predicted": [0] * 200,
            "x": rng.normal(size=200) * spread,
            "y": rng.normal(size=200) * spread,
        }
    )
    separation.draw(points, tmp_path / "a.svg")
    axes = drawn[0].axes[0]
    assert {text.get_text() for text in axes.texts} == {"0", "1"}
    for text in axes.texts:
        assert axes.get_xlim()[0] < text.get_position()[0] < axes.get_xlim()[1]
        assert axes.get_ylim()[0] < text.get_position()[1] < axes.get_ylim()[1]


def test_grades_differ_in_lightness_and_in_marker():
    greys = [
        0.299 * int(colour[1:3], 16) + 0.587 * int(colour[3:5], 16) + 0.114 * int(colour[5:], 16)
        for colour, _ in separation._GRADES
    ]
    assert all(a - b > 15 for a, b in zip(greys[:-1], greys[1:], strict=True))
    assert len({marker for _, marker in separation._GRADES}) == 5


def test_the_ratio_figure_has_a_curve_a_user(drawn, tmp_path: Path):
    rows = made_rows(users=("navigational", "perfect"), stops=("clicked", "examined"))
    ratio.draw(rows, tmp_path / "a.svg")
    assert len(drawn[0].axes) == 2
    labels = [text.get_text() for text in drawn[0].legends[0].get_texts()]
    assert labels == ["perfect", "navigational"]


def test_a_ranker_without_certain_orders_has_no_ratio(tmp_path: Path):
    with pytest.raises(DataError, match="no certain ratio of pdgd-linear"):
        ratio.draw(made_rows(), tmp_path / "a.svg", "pdgd-linear")


def test_a_regret_that_grows_like_log_squared_is_fitted_best_by_it():
    best, *_ = regret_fit.regret_fits(gap(), "olranknet", "regret")
    assert best.shape == "log^2 T"
    assert best.r_squared == pytest.approx(1.0)
    assert best.slope == pytest.approx(1.0)
    assert regret_fit.regret_fits(gap(), "pdgd-linear", "regret")[0].shape == "T"


def test_each_fit_s_share_stands_in_its_panel(drawn, tmp_path: Path):
    regret_fit.draw(gap(), tmp_path / "a.svg")
    assert len(drawn[0].axes) == 2 * 2  # kinds of regret, rankers
    texts = [text.get_text() for text in drawn[0].axes[0].get_legend().get_texts()]
    assert texts[0] == "log^2 T: R² 1.0000"
    assert sorted(text.split(":")[0] for text in texts) == ["T", "log^2 T", "sqrt T"]


def test_rows_without_the_metric_are_told(tmp_path: Path):
    with pytest.raises(DataError, match=r"a\.svg: the rows hold none of log_det_ratio"):
        growth.draw(made_rows(), tmp_path / "a.svg", growth.LOG_DET)
