"""Test queries drawn anew, with known answers."""

import numpy as np
import polars as pl
import pytest

from olrank.errors import DataError
from olrank.experiments.reports.resampling import resample

WHO = {"user": "perfect", "stop": "clicked"}


def frame(unit: str, values: dict[tuple[str, str], list[float]], dataset: str = "set"):
    return pl.DataFrame(
        [
            {"ranker": ranker, "dataset": dataset, "fold": fold, **WHO, unit: i, "value": value}
            for (ranker, fold), several in values.items()
            for i, value in enumerate(several)
        ]
    )


def drawn(queries, seeds, ranker="a", **rest):
    found = resample(frame("query", queries), frame("seed", seeds), **rest)
    return found["set"][ranker, "perfect", "clicked"]


def test_equal_queries_and_equal_seeds_leave_nothing_to_chance():
    found = drawn(
        {("a", "1"): [0.5] * 4, ("a", "2"): [0.7] * 9}, {("a", f): [0.6] * 3 for f in "12"}
    )
    assert found == pytest.approx(np.full(2000, (0.5 + 0.7) / 2))


def test_the_variance_is_that_of_queries_within_folds_and_of_seeds():
    # Half of n queries 0, half 1: a resampled mean has the variance 1/4 / n; folds are averaged, so
    # theirs is (1/4/100 + 1/4/400) / 4. Seeds -s and s in equal numbers: s^2 / 4 a fold, over 4.
    queries = {("a", "1"): [0.0, 1.0] * 50, ("a", "2"): [0.0, 1.0] * 200}
    s = 0.06
    seeds = {("a", fold): [0.5 - s, 0.5 + s, 0.5 - s, 0.5 + s] for fold in "12"}
    found = drawn(queries, seeds, n_resamples=20_000)
    variance = (0.25 / 100 + 0.25 / 400 + 2 * s**2 / 4) / 4
    # Of 20,000 draws the mean has an error of sd / 141 and the variance one of 1%: five of them
    # are a false alarm in a million.
    assert found.mean() == pytest.approx(0.5, abs=5 * np.sqrt(variance / 20_000))
    assert found.var() == pytest.approx(variance, rel=0.05)


def test_rankers_share_the_draws_so_that_a_constant_difference_stays_constant():
    values = np.linspace(0, 1, 30)
    queries = {("a", "1"): list(values), ("b", "1"): list(values - 0.1)}
    seeds = {("a", "1"): [0.5, 0.7, 0.4], ("b", "1"): [0.4, 0.6, 0.3]}
    difference = drawn(queries, seeds, "a") - drawn(queries, seeds, "b")
    assert difference == pytest.approx(np.full(2000, 0.1))


def test_the_same_seed_draws_the_same_and_data_sets_are_drawn_apart():
    queries = {("a", "1"): list(np.linspace(0, 1, 30))}
    seeds = {("a", "1"): [0.5, 0.5]}
    assert (drawn(queries, seeds) == drawn(queries, seeds)).all()
    assert (drawn(queries, seeds) != drawn(queries, seeds, seed=1)).any()
    both = [
        pl.concat([frame(unit, of), frame(unit, of, "other")])
        for unit, of in (("query", queries), ("seed", seeds))
    ]
    found = resample(*both)
    one, other = (found[name]["a", "perfect", "clicked"] for name in ("set", "other"))
    assert (one != other).any()


def test_rankers_with_different_queries_are_refused():
    with pytest.raises(DataError, match="same query values"):
        drawn({("a", "1"): [1.0], ("b", "1"): [1.0, 2.0]}, {("a", "1"): [1.0], ("b", "1"): [1.0]})
    with pytest.raises(DataError, match="different rankers"):
        drawn({("a", "1"): [1.0]}, {("b", "1"): [1.0]})


def outside(values, ranker="labels", ids=None):
    made = frame("query", {(ranker, fold): of for fold, of in values.items()})
    made = made.with_columns(user=pl.lit("-"), stop=pl.lit("-"))
    return made if ids is None else made.with_columns(query=pl.Series(ids))


def test_who_is_drawn_along_meets_the_same_queries_and_moves_no_bit_of_the_others():
    rng = np.random.default_rng(5)
    of = {fold: rng.random(n) for fold, n in (("1", 31), ("2", 17))}
    # Ranker "a" has seeds that differ, "even" has none: what is drawn of it are queries alone.
    queries = {("a", f): list(rng.random(len(of[f]))) for f in of}
    queries |= {("even", f): list(of[f] - 0.1) for f in of}
    seeds = {("a", f): [0.3, 0.6] for f in of} | {("even", f): [0.5, 0.5] for f in of}
    both = frame("query", queries), frame("seed", seeds)
    alone = resample(*both)["set"]
    along = resample(*both, outside=outside({f: list(of[f]) for f in of}))["set"]
    assert set(along) - set(alone) == {("labels", "-", "-")}
    for who, drawn_alone in alone.items():
        assert drawn_alone.tobytes() == along[who].tobytes()
    difference = along["labels", "-", "-"] - alone["even", "perfect", "clicked"]
    assert difference == pytest.approx(np.full(2000, 0.1))


def test_who_is_drawn_along_must_have_the_same_queries():
    both = frame("query", {("a", "1"): [0.1, 0.2]}), frame("seed", {("a", "1"): [0.1]})
    with pytest.raises(DataError, match="other queries than the rows"):
        resample(*both, outside=outside({"1": [0.1, 0.2]}, ids=[0, 2]))
