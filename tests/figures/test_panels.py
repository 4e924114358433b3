from pathlib import Path

import polars as pl
import pytest
from experiments.made_rows import made_rows
from matplotlib.figure import Figure

from olrank.errors import DataError
from olrank.figures import panels, style

CURVES = panels.Curves("ndcg", "Title", "NDCG@{k}", "A note.")


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


def test_there_is_one_panel_a_user_in_the_paper_s_order(drawn: list[Figure], tmp_path: Path):
    rows = made_rows(users=("informational", "random", "perfect", "navigational"))
    panels.draw_curves(rows, CURVES, tmp_path / "a.svg")
    titles = [axes.get_title() for axes in drawn[0].axes]
    users = ("perfect", "navigational", "informational", "random")
    assert titles == [f"{user} user" for user in users]


def test_each_stop_rule_has_its_line_of_panels(drawn: list[Figure], tmp_path: Path):
    rows = made_rows(stops=("clicked", "examined"), users=("perfect", "random"))
    panels.draw_curves(rows, CURVES, tmp_path / "a.svg")
    assert len(drawn[0].axes) == 2 * 2


def test_a_curve_is_the_mean_over_folds_and_seeds(drawn: list[Figure], tmp_path: Path):
    rows = made_rows(rankers=("olranknet",), folds=("1", "2"), seeds=(0, 1), rounds=(1, 100))
    panels.draw_curves(rows, CURVES, tmp_path / "a.svg")
    (line,) = drawn[0].axes[0].get_lines()
    # 0.01 * (9 letters + log10 of the round) + 0.01 * seed, seeds 0 and 1.
    assert list(line.get_xdata()) == [1, 100]
    assert list(line.get_ydata()) == pytest.approx([0.01 * (9 + 0.5), 0.01 * (11 + 0.5)])


def test_round_zero_has_a_place_on_the_log_scale(drawn: list[Figure], tmp_path: Path):
    rows = made_rows(rounds=(1, 10))
    before = rows.filter(round=1).with_columns(round=pl.lit(0, dtype=pl.Int64))
    panels.draw_curves(pl.concat([before, rows]), CURVES, tmp_path / "a.svg")
    panels.draw_curves(rows, CURVES, tmp_path / "b.svg")
    assert [figure.axes[0].get_xscale() for figure in drawn] == ["symlog", "log"]


def test_the_caption_counts_seeds_and_folds_and_names_conventions(
    drawn: list[Figure], tmp_path: Path
):
    panels.draw_curves(made_rows(folds=("1", "2")), CURVES, tmp_path / "a.svg")
    caption = drawn[0].get_supxlabel().replace("\n", " ")
    assert caption.startswith("Mean over 2 seeds x 2 folds; bands are 95% bootstrap intervals.")
    # What differs between rankers ("settings=...") is no convention of the figure.
    assert caption.endswith("Data: made; stop rule: clicked; conventions: k=10, empty=skip.")


def test_the_caption_says_that_data_sets_have_different_folds(drawn: list[Figure], tmp_path: Path):
    many = made_rows(folds=("1", "2", "3"))
    one = made_rows(folds=("1",)).with_columns(dataset=pl.lit("whole"))
    panels.draw_curves(pl.concat([many, one]), CURVES, tmp_path / "a.svg")
    assert drawn[0].get_supxlabel().startswith("Mean over 2 seeds x 1 to 3 folds;")


def test_a_single_run_promises_no_band(drawn: list[Figure], tmp_path: Path):
    panels.draw_curves(made_rows(seeds=(0,)), CURVES, tmp_path / "a.svg")
    assert "bands" not in drawn[0].get_supxlabel()


def test_the_legend_stands_outside_the_panels(drawn: list[Figure], tmp_path: Path):
    panels.draw_curves(made_rows(users=("perfect", "random")), CURVES, tmp_path / "a.svg")
    (legend,) = drawn[0].legends
    right_edge = max(axes.get_window_extent().x1 for axes in drawn[0].axes)
    assert legend.get_window_extent().x0 >= right_edge
    assert [text.get_text() for text in legend.get_texts()] == ["olranknet", "pdgd-linear"]


def test_a_metric_that_the_rows_do_not_hold_is_told(tmp_path: Path):
    with pytest.raises(DataError, match=r'a\.svg: the rows hold no metric "beauty"'):
        panels.draw_curves(made_rows(), CURVES._replace(metric="beauty"), tmp_path / "a.svg")


def test_ndcg_is_found_at_any_cut_off():
    rows = made_rows().with_columns(pl.col("metric").str.replace("ndcg@10", "ndcg@5", literal=True))
    assert panels.find_metric(rows, "ndcg") == "ndcg@5"
    assert panels.find_metric(rows, "online_ndcg") == "online_ndcg"
    assert panels.find_metric(rows.with_columns(value=float("nan")), "ndcg") is None
