"""Tables: means, tests against the best baseline, published numbers, the outside skyline."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from experiments.reports.test_claims import RANKERS, rows_like_the_paper

from olrank.experiments.reports import tables
from olrank.metrics.compare import holm, paired


@pytest.fixture(scope="module")
def compared() -> pl.DataFrame:
    return tables.compare(rows_like_the_paper())


def line(table: pl.DataFrame, ranker: str, user: str = "perfect", metric: str = "ndcg@10") -> dict:
    return table.filter(ranker=ranker, user=user, metric=metric).row(0, named=True)


def test_a_mean_is_over_folds_and_seeds_after_the_last_round(compared):
    found = line(compared, "pairrank")
    assert found["mean"] == pytest.approx(0.60 + 0.001 * np.mean(range(6)))
    assert (found["n"], found["round"]) == (6, 100)


def test_every_ranker_stands_in_every_cell_for_both_metrics(compared):
    assert len(compared) == len(RANKERS) * 3 * 2


def test_the_test_is_against_the_baseline_of_the_highest_mean(compared):
    found = line(compared, "olranknet")
    assert found["against"] == "pairrank"
    assert found["difference"] == pytest.approx(0.10)
    assert line(compared, "pairrank")["p"] is None
    assert line(compared, "skyline")["p"] is None


def test_p_values_are_corrected_by_holm_over_all_tests_of_a_metric(compared):
    tested = compared.filter(pl.col("p").is_not_null(), metric="ndcg@10")
    assert len(tested) == 2 * 3  # two of ours, three users
    each = paired(np.arange(6) + 1.0, np.zeros(6)).p_value  # 2 / 2^6: all signs agree
    assert tested["p"].to_list() == pytest.approx(holm([each] * 6).tolist())


def test_published_numbers_stand_beside_ours_for_the_same_cell():
    rows = rows_like_the_paper().with_columns(dataset=pl.lit("MQ2008"))
    found = line(tables.compare(rows), "pdgd-linear", "navigational")
    assert (found["published"], found["published_round"]) == (0.690, 5000)
    assert "[.690 at 5,000]" in tables.markdown(tables.compare(rows))
    assert line(tables.compare(rows), "olranknet")["published"] is None


def test_a_ranker_from_outside_stands_in_every_cell_of_its_data_set():
    outside = pl.DataFrame(
        {
            "ranker": ["lambdamart"] * 2,
            "dataset": ["made", "other"],
            "fold": ["1", "1"],
            "seed": [0, 0],
            "metric": ["ndcg@10"] * 2,
            "value": [0.8, 0.1],
        }
    )
    found = tables.compare(rows_like_the_paper(), outside).filter(ranker="lambdamart")
    assert found["mean"].to_list() == [0.8] * 3


def test_marks_say_which_side_of_the_best_baseline_a_ranker_is_on():
    rows = rows_like_the_paper(n_seeds=12, olranknet=0.5)
    page = tables.markdown(tables.compare(rows))
    ours = next(text for text in page.splitlines() if text.startswith("| olranknet"))
    other = next(text for text in page.splitlines() if text.startswith("| ollambdarank"))
    assert " ▼" in ours
    assert " ▲" in other


def test_cells_stand_in_one_order_however_rows_came(compared):
    rows = rows_like_the_paper()
    both = pl.concat([rows.with_columns(stop=pl.lit(stop)) for stop in ("examined", "clicked")])
    mixed = both.sample(fraction=1.0, shuffle=True, seed=1)
    told = tables.compare(mixed).filter(ranker="olranknet", metric="ndcg@10")
    assert told.select("user", "stop").rows() == [
        (user, stop)
        for user in ("perfect", "navigational", "informational")
        for stop in ("clicked", "examined")
    ]


def test_a_note_says_which_set_has_fewer_runs():
    rows = rows_like_the_paper()
    fewer = rows.filter(pl.col("fold") == rows["fold"][0], pl.col("seed") == 0)
    both = pl.concat([rows, fewer.with_columns(dataset=pl.lit("little"))])
    assert "over 6 runs (folds x seeds), 1 on little, after" in tables.markdown(
        tables.compare(both)
    )
    assert "over 6 runs (folds x seeds) after" in tables.markdown(tables.compare(rows))
