"""Rows of a simulation: columns, sums by hand, and what cannot be simulated."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import polars as pl
import pytest

from olrank.data.synthetic import synthetic
from olrank.engine import lockstep
from olrank.engine.bare import Task
from olrank.engine.measure import Line, Options, since_last
from olrank.errors import ConfigError
from olrank.experiments.rows import files
from olrank.experiments.running import simulate as module
from olrank.experiments.running.simulate import simulate, simulate_task
from olrank.users import presets

COLUMNS = [
    "ranker", "dataset", "fold", "user", "stop", "seed", "round", "metric", "value", "conventions",
]  # fmt: skip
DATA = synthetic("small", queries=4, features=4, mean_docs=4, max_docs=6, seed=1)
NAN = float("nan")
MEASURED = lockstep.Measured(
    evaluated=np.array([1, 3]),
    # Two shards (seeds), one replica each.
    offline=np.array([[[[0.25, 0.5]], [[0.125, 0.75]]]]),
    online=np.array([[[1.0, 0.5, 0.25]], [[0.0, 1.0, 1.0]]]),
    regret=np.array([[[3.0, 2.0, 1.0]], [[0.0, 4.0, 5.0]]]),
    examined_regret=np.array([[[1.0, 1.0, 0.0]], [[0.0, 2.0, 2.0]]]),
    certain_ratio=np.array([[[NAN, 0.5, 0.25]], [[0.0, NAN, NAN]]]),
)


@pytest.fixture
def stubbed(monkeypatch):
    """lockstep.run as a stub; gives what it was called with."""
    called = {}

    def run(ranker, numbers, users, keys, train, held_out, **more):
        called.update(ranker=ranker, numbers=numbers, keys=keys, users=users, **more)
        return MEASURED

    monkeypatch.setattr(module.lockstep, "run", run)
    return called


def values(frame, metric, seed):
    chosen = frame.filter((pl.col("metric") == metric) & (pl.col("seed") == seed))
    assert chosen["round"].to_list() == [1, 3]
    return chosen["value"].to_list()


def test_the_rows_have_these_columns_and_say_what_was_simulated(stubbed):
    frame = simulate(
        "pdgd-linear", DATA, DATA, user="perfect", stop="examined", rounds=3, seeds=[7, 8], k=5,
        gamma=0.5, fold="2", empty="zero", settings={"preset": "released"},
    )  # fmt: skip
    assert frame.columns == COLUMNS
    first = frame.row(0, named=True)
    assert [first[c] for c in COLUMNS[:5]] == ["pdgd-linear", "small", "2", "perfect", "examined"]
    assert first["conventions"] == (
        "k=5 gamma=0.5 empty=zero normalise=query preset=released network=linear"
    )
    assert frame.schema["seed"] == frame.schema["round"] == pl.Int64
    assert frame.schema["value"] == pl.Float64
    assert stubbed["k"] == 5
    assert stubbed["empty"] == "zero"
    expected = [lockstep.shard_key("small", "2", seed) for seed in (7, 8)]
    assert [jax.random.key_data(key).tolist() for key in stubbed["keys"]] == [
        jax.random.key_data(key).tolist() for key in expected
    ]


def test_sums_run_from_the_first_round_and_only_ndcg_is_discounted(stubbed):
    frame = simulate("olranknet", DATA, DATA, rounds=3, seeds=2, gamma=0.5)
    assert values(frame, "ndcg@10", 0) == [0.25, 0.5]
    assert values(frame, "online_ndcg", 0) == [1.0, 1.0 + 0.5 * 0.5 + 0.5**2 * 0.25]
    assert values(frame, "online_ndcg", 1) == [0.0, 0.5 * 1.0 + 0.5**2 * 1.0]
    assert values(frame, "regret", 0) == [3.0, 3.0 + 2.0 + 1.0]
    assert values(frame, "regret", 1) == [0.0, 4.0 + 5.0]
    assert values(frame, "examined_regret", 0) == [1.0, 1.0 + 1.0]


def test_the_certain_ratio_is_a_mean_since_the_last_evaluation(stubbed):
    frame = simulate("olranknet", DATA, DATA, rounds=3, seeds=2)
    first, second = values(frame, "certain_ratio", 0)
    assert np.isnan(first)
    assert second == (0.5 + 0.25) / 2
    first, second = values(frame, "certain_ratio", 1)
    assert first == 0.0
    assert np.isnan(second)


@pytest.mark.parametrize(
    ("ranker", "knows"), [("olranknet", True), ("pairrank", True), ("pdgd-linear", False)]
)
def test_only_rankers_that_know_certainty_have_a_certain_ratio(stubbed, ranker, knows):
    frame = simulate(ranker, DATA, DATA, rounds=3, seeds=2)
    found = set(frame["metric"])
    assert found - {"certain_ratio"} == {"ndcg@10", "online_ndcg", "regret", "examined_regret"}
    assert ("certain_ratio" in found) == knows


def test_means_since_the_last_evaluation_leave_out_what_is_not_a_number():
    ratios = np.array([[1.0, NAN, 0.5, NAN, NAN, 0.2]])
    means = since_last(ratios, np.array([1, 3, 5, 6]))
    assert means[0, [0, 1, 3]].tolist() == pytest.approx([1.0, 0.5, 0.2])
    assert np.isnan(means[0, 2])


def test_single_queries_are_rows_of_the_last_round_with_a_query(monkeypatch):
    by_query = (np.array([[[0.5, NAN, 1.0]], [[0.25, NAN, 0.0]]], np.float32),)
    measured = MEASURED._replace(by_query=by_query)
    monkeypatch.setattr(module.lockstep, "run", lambda *given, **more: measured)
    options = Options(rounds=3, seeds=(7, 8), per_query=True, taste_changes_after=2)
    line = Line({}, "perfect", "clicked", "a")
    frame = simulate_task(Task("pdgd-linear", DATA, {"ndcg@10": DATA}, [line], options))
    whole, single = files.apart(frame)
    assert whole.height == 4 * 2 * 2  # metrics, seeds, evaluations
    assert "taste_changes_after=2" in whole["conventions"][0]
    assert set(single["metric"]) == {"ndcg@10"}
    assert set(single["round"]) == {3}
    assert single.select("settings", "seed", "query").rows() == [
        ("a", seed, query) for seed in (7, 8) for query in range(3)
    ]
    np.testing.assert_array_equal(single["value"], [0.5, NAN, 1.0, 0.25, NAN, 0.0])


def test_a_label_and_a_user_of_one_s_own_are_named_in_the_rows(stubbed):
    own = presets.user("random", 4, k=10)
    frame = simulate("olranknet", DATA, DATA, user=own, rounds=3, seeds=2, label="wide")
    assert set(frame["ranker"]) == {"wide"}
    assert set(frame["user"]) == {"custom"}
    assert stubbed["users"][0] is own


def test_the_well_specified_user_needs_data_whose_relevance_is_known(stubbed):
    unknown = replace(DATA, relevance=None)
    with pytest.raises(ConfigError, match='"well-specified" clicks by the true relevance h.*small'):
        simulate("olranknet", unknown, DATA, user="well-specified", rounds=3)
    simulate("olranknet", DATA, unknown, user="well-specified", rounds=3, seeds=2)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"rounds": 0}, "rounds: must be at least 1, not 0"),
        ({"k": 1}, "k: must be at least 2, not 1"),
        ({"seeds": 0}, "seeds: at least one"),
        ({"seeds": []}, "seeds: at least one"),
        ({"user": "perfekt"}, 'no user is called "perfekt".*"perfect"'),
        ({"stop": "clicks"}, 'no stop rule is called "clicks"'),
        ({"ranker": "pdgd-lin"}, 'no ranker is called "pdgd-lin"'),
        ({"settings": {"preset": "papers"}}, 'no preset is called "papers"'),
    ],
)
def test_what_cannot_be_simulated_is_refused(stubbed, more, message):
    with pytest.raises(ConfigError, match=message):
        simulate(**{"ranker": "olranknet", "data": DATA, "test": DATA, "rounds": 3, **more})


def test_data_and_test_must_have_the_same_features():
    wider = synthetic("small", queries=4, features=5, mean_docs=4, max_docs=6, seed=1)
    with pytest.raises(ConfigError, match="data has 4 features, test has 5"):
        simulate("olranknet", DATA, wider, rounds=3)


def test_a_run_of_the_engine_ends_in_such_rows():
    frame = simulate("pdgd-linear", DATA, DATA, rounds=6, seeds=2, k=3, evaluate_after=[2, 6])
    assert frame.columns == COLUMNS
    assert frame.height == 4 * 2 * 2  # metrics, seeds, evaluations
    assert frame["round"].unique().sort().to_list() == [2, 6]
    assert frame.filter(pl.col("metric") == "ndcg@3")["value"].is_between(0, 1).all()


def test_k_is_given_once_and_a_user_knows_every_grade():
    with pytest.raises(ConfigError, match="settings k = 5, but the lists shown have k = 10"):
        simulate("pdgd-linear", DATA, DATA, rounds=3, settings={"k": 5})
    with pytest.raises(ConfigError, match="chances for 3 grades, the data goes up to grade 4"):
        simulate("pdgd-linear", DATA, DATA, rounds=3, user=presets.user("perfect", 2))
