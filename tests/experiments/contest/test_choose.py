"""What a search chooses, by hand-made rows."""

import hashlib
import json
from math import log
from pathlib import Path

import polars as pl
import pytest

from olrank.errors import DataError
from olrank.experiments.contest.choose import choose
from olrank.experiments.rows import files

CELLS = [("perfect", "clicked"), ("informational", "clicked")]


def line(role, ranker, rate, dataset, offline, online, cell=CELLS[0], fold="1", seed=0, at=30):
    both = {"validation_ndcg@10": offline, "online_ndcg": online}
    who = {"role": role, "ranker": ranker, "name": "pdgd-linear", "settings": f"rate={rate}"}
    where = {"dataset": dataset, "user": cell[0], "stop": cell[1], "fold": fold, "seed": seed}
    given = {"given": json.dumps({"rate": rate}), "round": at}
    return [{**who, **where, **given, "metric": m, "value": float(v)} for m, v in both.items()]


def rows(*lines):
    return pl.DataFrame([one for several in lines for one in several])


def baseline(dataset, offline=0.5, online=100.0, **rest):
    return line("baseline", "base", 1, dataset, offline, online, **rest)


def tuned(found, ranker):
    return [one for one in found["tuned"] if one["ranker"] == ranker]


def test_a_baseline_is_tuned_by_the_sum_of_both_relative_to_the_best_of_its_grid():
    # .40/.50 + 100/100 = 1.80 against .50/.50 + 70/100 = 1.70: the first, though the other is
    # better offline; a second baseline's grid has no say in it.
    found = choose(
        rows(
            line("baseline", "base", 1, "a", 0.40, 100),
            line("baseline", "base", 2, "a", 0.50, 70),
            line("baseline", "other", 9, "a", 0.10, 900),
            line("candidate", "ours", 5, "a", 0.5, 100),
            baseline("b"),
            line("baseline", "base", 2, "b", 0.1, 1),
            line("baseline", "other", 9, "b", 0.1, 1),
            line("candidate", "ours", 5, "b", 0.5, 100),
        )
    )
    assert [one["settings"] for one in tuned(found, "base")] == [{"rate": 1}, {"rate": 1}]
    assert tuned(found, "base")[0]["offline"] == pytest.approx(0.40)
    assert [one["n_tried"] for one in tuned(found, "base")] == [2, 2]


def test_folds_and_seeds_are_averaged_and_one_diverged_run_is_enough_to_lose():
    nan = float("nan")
    found = choose(
        rows(
            line("baseline", "base", 1, "a", 0.2, 100, fold="1", seed=0),
            line("baseline", "base", 1, "a", 0.6, 100, fold="2", seed=1),  # mean .4
            line("baseline", "base", 2, "a", 0.3, 100, fold="1", seed=0),
            line("baseline", "base", 2, "a", 0.3, 100, fold="2", seed=1),
            line("baseline", "base", 3, "a", 0.9, 900, fold="1", seed=0),
            line("baseline", "base", 3, "a", nan, 900, fold="2", seed=1),
            *(line("candidate", "ours", 5, "a", 0.5, 100, fold=f, seed=int(f) - 1) for f in "12"),
            baseline("b"),
            *(line("baseline", "base", r, "b", 0.1, 1) for r in (2, 3)),
            line("candidate", "ours", 5, "b", 0.5, 100),
        )
    )
    assert tuned(found, "base")[0]["settings"] == {"rate": 1}
    assert tuned(found, "base")[0]["offline"] == pytest.approx((0.2 + 0.6) / 2)


def three_sets():
    """Candidate 1 is splendid on a alone, candidate 2 is good everywhere."""
    return rows(
        *(baseline(name) for name in "abc"),
        line("candidate", "ours", 1, "a", 0.5 * 8, 100 * 8),
        line("candidate", "ours", 1, "b", 0.5 / 2, 100 / 2),
        line("candidate", "ours", 1, "c", 0.5, 100),
        *(line("candidate", "ours", 2, name, 0.5 * 1.2, 100 * 1.1) for name in "abc"),
    )


def test_scores_are_mean_log_ratios_with_losses_counted_double():
    found = choose(three_sets())
    by_rate = {
        one["settings"]["rate"]: one["scores"] for one in (found["final"], *found["runners_up"])
    }
    assert by_rate[1] == pytest.approx({"a": log(8), "b": 2 * log(1 / 2), "c": 0.0})
    assert by_rate[2]["a"] == pytest.approx((log(1.2) + log(1.1)) / 2)


def test_what_is_left_out_has_no_say_in_what_is_shown_on_it():
    found = choose(three_sets())
    # Over all: (log 8 - 2 log 2 + 0) / 3 = log(2) / 3 = .231 against .139.
    assert found["final"]["settings"] == {"rate": 1}
    assert found["final"]["score"] == pytest.approx(log(2) / 3)
    # Without a: (-2 log 2 + 0) / 2 < 0; without b: log(8) / 2; without c: log(2) / 2.
    assert {name: one["settings"]["rate"] for name, one in found["left_out"].items()} == {
        "a": 2,
        "b": 1,
        "c": 1,
    }


def test_a_candidate_is_measured_by_the_best_tuned_baseline_of_each_metric():
    found = choose(
        rows(
            *(baseline(name, 0.5, 80) for name in "ab"),
            *(line("baseline", "other", 1, name, 0.4, 100) for name in "ab"),
            *(line("reference", "beside", 1, name, 0.9, 900) for name in "ab"),
            *(line("candidate", "ours", 1, name, 1.0, 200) for name in "ab"),
        )
    )
    assert found["final"]["score"] == pytest.approx((log(1.0 / 0.5) + log(200 / 100)) / 2)


def test_a_loss_in_one_cell_is_not_made_up_for_by_the_mean_of_the_set():
    lines = []
    for name in "ab":
        for cell in CELLS:
            lines.append(baseline(name, cell=cell))
        lines.append(line("candidate", "ours", 1, name, 0.5 * 1.5, 100 * 1.5, cell=CELLS[0]))
        lines.append(line("candidate", "ours", 1, name, 0.5 / 1.2, 100 / 1.2, cell=CELLS[1]))
    found = choose(rows(*lines))
    assert found["final"]["scores"]["a"] == pytest.approx((log(1.5) - 2 * log(1.2)) / 2)


def test_what_is_lost_offline_is_not_made_up_for_online():
    found = choose(
        rows(
            *(baseline(name) for name in "ab"),
            *(line("candidate", "ours", 1, name, 0.5 * 0.9, 100 * 1.3) for name in "ab"),
        )
    )
    assert found["final"]["score"] == pytest.approx((2 * log(0.9) + log(1.3)) / 2)


def test_a_candidate_that_diverged_anywhere_is_never_chosen_where_that_counts():
    found = choose(
        rows(
            *(baseline(name) for name in "ab"),
            line("candidate", "ours", 1, "a", float("nan"), 900),
            line("candidate", "ours", 1, "b", 0.9, 900),
            *(line("candidate", "ours", 2, name, 0.4, 90) for name in "ab"),
        )
    )
    assert found["final"]["settings"] == {"rate": 2}
    assert found["left_out"]["a"]["settings"] == {"rate": 1}  # nobody knows of a
    assert found["left_out"]["b"]["settings"] == {"rate": 2}


def test_an_incomplete_search_is_told():
    whole = three_sets()
    with pytest.raises(DataError, match="incomplete"):
        choose(whole.filter(~((pl.col("dataset") == "c") & (pl.col("settings") == "rate=2"))))
    with pytest.raises(DataError, match="no candidate"):
        choose(whole.filter(pl.col("role") == "baseline"))


def test_a_committed_choice_is_what_its_search_gives(tmp_path):
    for file in (Path(__file__).parents[3] / "experiments").glob("*/chosen.json"):
        searched = file.with_name("search.parquet")
        digest = hashlib.sha256(searched.read_bytes()).hexdigest()
        again = {"search_sha256": digest, **choose(pl.read_parquet(searched))}
        files.write_json(again, tmp_path / "again.json")
        assert file.read_bytes() == (tmp_path / "again.json").read_bytes()
