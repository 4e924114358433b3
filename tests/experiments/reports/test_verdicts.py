"""Verdicts of a contest, by hand-made rows."""

from math import sqrt

import numpy as np
import polars as pl
import pytest

from olrank.experiments.reports import beside, verdicts
from olrank.experiments.reports.verdicts import BEST, LEFT_OUT, compare, paired_t

WHERE = {"dataset": "set", "user": "perfect", "stop": "clicked", "fold": "1", "round": 30}
T_95_3 = 2.353363  # one-sided 95% quantile of Student's t, 3 degrees of freedom, from tables
T_975_3 = 3.182446  # two-sided


def rows(offline: dict[str, list[float]], online: dict[str, list[float]], **where) -> pl.DataFrame:
    roles = {LEFT_OUT: "best", BEST: "best", "skyline": "reference"}
    return pl.DataFrame(
        [
            {
                "ranker": ranker, "role": roles.get(ranker, "baseline"), "name": ranker,
                **WHERE, **where, "seed": seed, "metric": metric, "value": value,
            }
            for metric, by in (("ndcg@10", offline), ("online_ndcg", online))
            for ranker, values in by.items()
            for seed, value in enumerate(values)
        ]
    )  # fmt: skip


def drawn(**by: list[float]) -> dict:
    names = {"ours": LEFT_OUT}
    return {
        "set": {
            (names.get(name, name), "perfect", "clicked"): np.asarray(values, float)
            for name, values in by.items()
        }
    }


def test_a_paired_difference_has_students_interval_and_one_sided_p_values():
    # Differences 1, 2, 3, 2: mean 2, variance 2/3, standard error sqrt(2/3)/2 = 1/sqrt(6).
    found = paired_t(np.array([2.0, 4.0, 6.0, 8.0]), np.array([1.0, 2.0, 3.0, 6.0]), margin=1.0)
    assert found.difference == 2.0
    assert found.low == pytest.approx(2 - T_975_3 / sqrt(6), abs=1e-5)
    assert found.high == pytest.approx(2 + T_975_3 / sqrt(6), abs=1e-5)
    # t = 2 sqrt(6) = 4.899 lies between the 99% (4.541) and the 99.5% (5.841) quantile.
    assert 0.005 < found.p_ahead < 0.01
    # Against -1: t = 3 sqrt(6) = 7.348, between the 99.5% (5.841) and the 99.9% (10.215) quantile.
    assert 0.001 < found.p_not_behind < 0.005


def test_at_students_quantile_the_p_value_is_what_its_table_says():
    # A mean of T standard errors: differences m - 1, m + 1, m - 1, m + 1 have the error 1/sqrt(3).
    m = T_95_3 / sqrt(3)
    found = paired_t(np.array([m - 1, m + 1, m - 1, m + 1]), np.zeros(4))
    assert found.p_ahead == pytest.approx(0.05, abs=1e-6)


def test_one_run_decides_nothing_and_equal_differences_decide_everything():
    assert paired_t(np.array([1.0]), np.array([0.0])).p_ahead == 1.0
    sure = paired_t(np.array([1.0, 2.0]), np.array([0.5, 1.5]))
    assert (sure.p_ahead, sure.p_not_behind) == (0.0, 0.0)
    assert paired_t(np.array([1.0, 2.0]), np.array([1.0, 2.0])).p_ahead == 1.0


def test_units_are_matched_by_fold_and_seed_and_nothing_counts_as_zero():
    values = verdicts.last_values(
        rows({LEFT_OUT: [0.5, 0.6], "a": [0.4, float("nan")]}, {LEFT_OUT: [1, 2], "a": [1, 2]})
    )
    shuffled = values.filter(metric="ndcg@10").sample(fraction=1.0, shuffle=True, seed=3)
    ours, theirs = verdicts.matched(shuffled, LEFT_OUT, "a")
    assert ours.tolist() == [0.5, 0.6]
    assert theirs.tolist() == [0.4, 0.0]


def two_baselines(offline_b: float = 0.60) -> pl.DataFrame:
    """Ours .61 and 110; a is behind by .1 and 10; b is `offline_b`, and behind online by little."""
    wobble = [0.0, 0.001, 0.002, 0.001]

    def runs(base, scale=1.0):
        return [base + scale * w for w in wobble]

    online = {LEFT_OUT: [110, 111, 112, 113], "a": [100, 101, 103, 102], "b": [109, 112, 111, 114]}
    offline = {LEFT_OUT: runs(0.61), "a": runs(0.51, 2), "b": runs(offline_b, 2)}
    return rows(offline, online)


def test_holm_is_over_all_baselines_online_and_offline_apart():
    found = compare(two_baselines(), drawn(ours=[0.61], a=[0.51], b=[0.60]))
    for metric, p in (("online", "p_ahead"), ("offline", "p_not_behind")):
        part = found.filter(metric=metric)
        raw, adjusted = part[p].to_list(), part["p"].to_list()
        smaller, larger = sorted(raw)
        assert sorted(adjusted) == pytest.approx([2 * smaller, max(2 * smaller, larger)])


def test_a_cell_passes_when_every_baseline_is_beaten_in_both_ways():
    found = compare(two_baselines(), drawn(ours=[0.61], a=[0.51], b=[0.60]))
    passes = {(x["rival"], x["metric"]): x["passes"] for x in found.iter_rows(named=True)}
    # Online b is ahead in two runs of four.
    assert passes == {
        ("a", "online"): True, ("a", "offline"): True,
        ("b", "online"): False, ("b", "offline"): True,
    }  # fmt: skip
    (cell,) = verdicts.by_cell(found).iter_rows(named=True)
    assert (cell["online_passes"], cell["offline_passes"], cell["passes"]) == (False, True, False)
    assert (cell["online_best"], cell["offline_best"]) == ("b", "b")


def test_a_lower_bound_over_queries_below_the_margin_fails_whatever_seeds_say():
    # 5% quantile of 101 even steps from -.010 to 0 is -.0095, below -.005.
    steps = np.linspace(0.60, 0.61, 101)
    found = compare(two_baselines(), drawn(ours=steps, a=np.zeros(101), b=np.full(101, 0.61)))
    line = found.filter(metric="offline", rival="b").row(0, named=True)
    assert line["p"] < 0.05
    assert line["bound"] == pytest.approx(-0.0095)
    assert line["passes"] is False


def test_slightly_behind_offline_is_not_inferior_and_more_than_the_margin_is():
    near, far = (two_baselines(0.61 + behind) for behind in (0.003, 0.008))
    at = {"ours": [0.61], "a": [0.5]}
    for made, passes in ((near, True), (far, False)):
        found = compare(made, drawn(**at, b=[0.611]))
        assert found.filter(metric="offline", rival="b")["passes"].item() is passes


def test_the_mean_over_cells_is_told_of_each_rival():
    made = two_baselines()
    resampled = drawn(ours=[0.61, 0.62], a=[0.51, 0.51], b=[0.6, 0.6])
    found = verdicts.in_the_mean(compare(made, resampled), resampled)
    by = {one.rival: one for one in found}
    # Offline .61 + .001 w against .51 + .002 w with mean w 1: .1 - .001.
    assert by["a"].offline == pytest.approx(0.1 - 0.001)
    assert by["a"].bound == pytest.approx(0.1 + 0.05 * 0.01)
    assert by["a"].online == pytest.approx(111.5 / 101.5 - 1)
    assert (by["a"].n_online, by["b"].n_online, by["a"].n_cells) == (1, 0, 1)


def test_the_way_to_the_skyline_is_told_where_there_is_room():
    offline = {LEFT_OUT: [0.65, 0.65], "a": [0.5, 0.5], "b": [0.6, 0.6], "skyline": [0.8, 0.8]}
    made = rows(offline, {name: [1, 1] for name in offline})
    resampled = drawn(ours=[0.65, 0.70], a=[0.5, 0.5], b=[0.6, 0.6], skyline=[0.8, 0.8])
    (line,) = beside.closed(made, resampled).iter_rows(named=True)
    assert line["best"] == "b"
    assert line["distance"] == pytest.approx(0.2)
    assert line["share"] == pytest.approx(0.05 / 0.2)
    # Resampled shares are .25 and .5; quantiles lie between them.
    assert line["low"] == pytest.approx(0.25 + 0.025 * 0.25)
    assert line["high"] == pytest.approx(0.50 - 0.025 * 0.25)
    close = made.with_columns(
        pl.when(ranker="skyline").then(pl.col("value") - 0.185).otherwise("value").alias("value")
    )
    assert beside.closed(close, resampled).is_empty()


def way(skyline: float | None, outside: dict[str, float], **more) -> pl.DataFrame:
    """Ours .65, the baseline .6; whatever is drawn is as in the mean unless given."""
    own = {} if skyline is None else {"skyline": [skyline]}
    offline = {LEFT_OUT: [0.65], "a": [0.6], **own}
    resampled = drawn(ours=[0.65, 0.65], a=[0.6, 0.6], **{x: 2 * y for x, y in own.items()})
    resampled["set"] |= {(x, "-", "-"): np.array([y, y]) for x, y in outside.items()}
    resampled["set"] |= {(x, "-", "-"): np.array(y) for x, y in more.items()}
    made = rows(offline, {name: [1] for name in offline})
    return beside.closed(made, resampled, outside={"set": outside, "other": {"labels": 1.0}})


@pytest.mark.parametrize(
    ("skyline", "outside", "better", "distance"),
    [
        (0.80, 0.70, "skyline", 0.2),
        (0.70, 0.85, "labels", 0.25),
        (0.55, 0.70, "labels", 0.1),  # ours is below the baseline
        (None, 0.80, "labels", 0.2),
    ],
)
def test_the_way_is_measured_to_the_better_skyline(skyline, outside, better, distance):
    (line,) = way(skyline, {"labels": outside}).iter_rows(named=True)
    assert line["skyline"] == better
    assert line["distance"] == pytest.approx(distance)
    assert line["share"] == pytest.approx(0.05 / distance)
    assert (line["low"], line["high"]) == pytest.approx((0.05 / distance, 0.05 / distance))


def test_who_keeps_up_is_counted_by_the_lower_bound_against_every_baseline():
    offline = {LEFT_OUT: [0.65], "a": [0.6], "b": [0.64]}
    made = rows(offline, {name: [1] for name in offline})
    other = made.with_columns(user=pl.lit("informational"))
    resampled = drawn(ours=[0.65, 0.66], a=[0.6, 0.6], b=[0.648, 0.662])
    here = resampled["set"]
    # Informational users: behind b by .006 in one of two resamples, nearly all of which count.
    here |= {(x, "informational", y): values for (x, _, y), values in here.items()}
    here["b", "informational", "clicked"] = np.array([0.648, 0.667])
    here["labels", "-", "-"] = np.array([0.7, 0.6])
    both = pl.concat([made, other])
    assert beside.keeps_up(both, resampled, LEFT_OUT) == (1, 2)
    assert beside.keeps_up(both, resampled, "labels") == (0, 2)
    assert beside.keeps_up(made, resampled, LEFT_OUT) == (1, 1)


def test_no_skyline_or_none_with_room_has_no_line():
    assert way(None, {}).is_empty()
    assert way(0.61, {"labels": 0.615}).is_empty()


def test_a_share_of_a_distance_that_may_be_nothing_has_no_bounds():
    (line,) = way(None, {"labels": 0.7}, labels=[0.59, 0.81]).iter_rows(named=True)
    assert (line["low"], line["high"]) == (-np.inf, np.inf)


def test_folds_weigh_the_same_in_the_mean_of_who_is_outside():
    values = {"1": [0.2, 0.4, 0.6, 0.8], "2": [0.9]}
    lines = [("labels", "set", fold, x) for fold, several in values.items() for x in several]
    made = pl.DataFrame(lines, ["ranker", "dataset", "fold", "value"], orient="row")
    found = beside.outside_means(made)
    assert found == {"set": {"labels": pytest.approx((0.5 + 0.9) / 2)}}


def test_a_relative_difference_has_the_error_of_a_ratio():
    # Ours twice theirs in every run: no error at all.
    sure = beside.relative(np.array([2.0, 4.0]), np.array([1.0, 2.0]))
    assert sure == (1.0, pytest.approx(1.0), 2)
    # Ratio 1; ours - theirs is -1, 1, -1, 1 around theirs' mean 100: error 1/sqrt(3)/100.
    ratio, bound, n = beside.relative(
        np.array([99.0, 101.0, 99.0, 101.0]), np.array([100.0, 100.0, 100.0, 100.0])
    )
    assert (ratio, n) == (0.0, 4)
    assert bound == pytest.approx(-T_95_3 / sqrt(3) / 100, abs=1e-7)


def test_no_collapse_is_a_bound_above_minus_two_percent():
    wide = [100.0 + 3 * w for w in (-1, 1, -1, 1)]  # bound -.0408
    narrow = [100.0 + 1 * w for w in (-1, 1, -1, 1)]  # bound -.0136
    values = {LEFT_OUT: [100.0] * 4, "wide": wide, "narrow": narrow}
    made = rows(values, values).with_columns(pl.lit("noise").alias("condition"))
    found = beside.robust(made).filter(metric="online")
    passes = dict(found.select("rival", "passes").rows())
    assert passes == {"wide": False, "narrow": True}
