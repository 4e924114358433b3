"""The engine: same seed, same rows; what it measures against slow re-enactments."""

from __future__ import annotations

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import metrics

from olrank.data.synthetic import synthetic_folds
from olrank.engine import compiled, evaluate, lockstep, protocol
from olrank.engine.buckets import shared_sizes
from olrank.errors import ConfigError
from olrank.rankers import table
from olrank.types import Impression, Ranker, Ranking, Rows
from olrank.users import presets
from olrank.users.user import click

K, D = 4, 5
SMALL = {"k": K, "width": 6, "history": 64, "steps": 2, "history_batch": 8}
FOLD = synthetic_folds(
    "small", queries=(15, 1, 15), features=D, mean_docs=6, max_docs=9, relevance="linear", seed=1
)
TRAIN = FOLD.train
TEST = FOLD.test
# One query has no relevant document, or the rules for such queries would agree.
TEST.grades[TEST.offsets[1] : TEST.offsets[2]] = 0
USER = presets.user("informational", 4, k=K)
CURVES = ("online", "regret", "examined_regret", "certain_ratio")


def keys_of(*seeds):
    return [lockstep.shard_key("train", "1", seed) for seed in seeds]


def small(name):
    fields = table.entry(name).design._fields
    return table.make(name, {key: value for key, value in SMALL.items() if key in fields})


def run(name, seeds, rounds, user=USER, **more):
    made = small(name)
    return alone(made.ranker, made.numbers, keys_of(*seeds), user, rounds=rounds, **more)


def alone(ranker, numbers, keys, user, **more):
    """One replica a shard, evaluated on TEST: the axes of replicas and held-out sets left out."""
    whole = lockstep.run(ranker, [numbers], [user], keys, TRAIN, [TEST], k=K, **more)
    rest = [getattr(whole, field)[:, 0] for field in CURVES]
    return lockstep.Measured(whole.evaluated, whole.offline[0, :, 0], *rest)


def in_order(noisy: bool) -> Ranker:
    """Serves the candidates as they stand; when noisy it draws, counts and forgets a lot."""

    def init(key, n_features, numbers):
        return {"seen": jnp.zeros((7, 3)), "key": jax.random.key_data(key)} if noisy else ()

    def rank(state, key, features, mask, k):
        shown = jnp.arange(k) < jnp.sum(mask)
        order = jnp.minimum(jnp.arange(k), mask.shape[0] - 1).astype(jnp.int32)
        if noisy:
            order = jnp.where(jax.random.uniform(key) < 2, order, 0)
        none = jnp.zeros((k, k), bool)
        return Ranking(order, shown, jnp.ones(k, jnp.int32), jnp.zeros(()), none)

    def learn(state, key, impression, rows):
        if noisy:
            return {**state, "seen": state["seen"] + jax.random.normal(key, (7, 3))}
        return state

    return Ranker(init, lambda state, features: features[:, 0], rank, learn)


def by_features(weights) -> Ranker:
    """Never learns; scores are a fixed projection."""
    still = in_order(noisy=False)
    return still._replace(score=lambda state, features: features @ jnp.asarray(weights))


def measure(ranker, seeds=(0, 1), rounds=30, **more):
    return alone(ranker, (), keys_of(*seeds), USER, rounds=rounds, **more)


def same(one, other, replicas=slice(None), rounds=slice(None)):
    for ours, theirs in zip(one[2:6], other[2:6], strict=True):
        np.testing.assert_allclose(
            ours[replicas, rounds], theirs[replicas, rounds], rtol=1e-9, atol=1e-12
        )


def test_evaluations_are_log_spaced_and_even_and_end_with_the_last_round():
    assert lockstep.evaluation_rounds(1) == [1]
    assert lockstep.evaluation_rounds(20, n_even=4) == [1, 2, 5, 10, 15, 20]
    assert lockstep.evaluation_rounds(7, n_even=2) == [1, 2, 4, 5, 7]  # 3.5 rounds to 4
    assert lockstep.evaluation_rounds(1000, n_even=1) == [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]


SCRIPT = """
import hashlib
from olrank.data.synthetic import synthetic
from olrank.experiments.running.simulate import simulate
data = synthetic("small", queries=12, features=5, mean_docs=6, max_docs=9, seed=1)
rows = simulate(
    "olranknet", data, data, rounds=20, seeds=2, k=4,
    settings={"width": 6, "history": 64, "steps": 2, "history_batch": 8},
)
print(hashlib.sha256(rows.write_csv(float_precision=17).encode()).hexdigest(), rows.height)
"""


def test_the_same_config_and_seed_give_the_same_rows_in_two_processes():
    ways = os.pathsep.join(filter(None, [*sys.path]))
    environment = {**os.environ, "PYTHONPATH": ways}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT], env=environment, text=True, stdout=subprocess.PIPE
        )
        for _ in range(2)
    ]
    first, second = (process.communicate(timeout=300)[0] for process in started)
    assert [process.returncode for process in started] == [0, 0]
    assert first == second
    assert int(first.split()[1]) > 0


def test_rankers_with_the_same_seed_meet_the_same_queries_and_moods():
    plain, noisy = measure(in_order(False)), measure(in_order(True))
    for field in ("online", "regret", "examined_regret"):
        np.testing.assert_array_equal(getattr(plain, field), getattr(noisy, field))
    assert (plain.online[0] != plain.online[1]).any()  # other seeds, other queries
    elsewhere = alone(in_order(False), (), [lockstep.shard_key("train", "2", 0)], USER, rounds=30)
    assert (plain.online[0] != elsewhere.online[0]).any()  # other folds, too


@pytest.mark.usefixtures("x64")
def test_neither_other_seeds_nor_chunks_nor_buckets_change_a_seed():
    rounds = 53  # a prime, so that chunks do not divide it
    told = []
    few = run("pdgd-linear", (0, 1), rounds, progress=lambda done, of: told.append((done, of)))
    assert told == [(53, 53)]
    many = run("pdgd-linear", (0, 1, 2, 3, 4), rounds)
    same(few, many, slice(0, 2), slice(0, 50))
    np.testing.assert_allclose(few.offline, many.offline[:2], rtol=1e-9)
    same(few, run("pdgd-linear", (0, 1), rounds, sizes=(5, int(TRAIN.sizes.max()))))

    told.clear()
    chunks = run(
        "pdgd-linear", (0, 1), rounds, chunk=20, progress=lambda done, of: told.append((done, of))
    )
    assert told == [(20, 53), (40, 53), (53, 53)]
    same(few, chunks)
    np.testing.assert_allclose(few.offline, chunks.offline, rtol=1e-9)


@pytest.mark.usefixtures("x64")
def test_replicas_differ_in_settings_and_users_and_change_nothing_for_each_other():
    made = small("pdgd-linear")
    fast = made.numbers._replace(learning_rate=1.0)
    perfect = presets.user("perfect", 4, k=K)
    numbers, users = [made.numbers, fast, made.numbers], [USER, USER, perfect]
    together = lockstep.run(
        made.ranker, numbers, users, keys_of(0, 1), TRAIN, [TEST, TRAIN], rounds=20, k=K
    )
    assert together.online.shape == (2, 3, 20)
    assert together.offline.shape == (2, 2, 3, len(together.evaluated))
    for i, (settings, user) in enumerate(zip(numbers, users, strict=True)):
        single = alone(made.ranker, settings, keys_of(0, 1), user, rounds=20)
        of_i = [getattr(together, field)[:, i] for field in CURVES]
        same(lockstep.Measured(together.evaluated, together.offline[0, :, i], *of_i), single)
        np.testing.assert_allclose(together.offline[0, :, i], single.offline, rtol=1e-9)
    assert (together.online[:, 0] != together.online[:, 1]).any()
    assert (together.online[:, 0] != together.online[:, 2]).any()
    assert (together.offline[0] != together.offline[1]).any()


def numpy_ndcg(weights, empty):
    values = []
    for q in range(TEST.n_queries):
        rows = slice(TEST.offsets[q], TEST.offsets[q + 1])
        scores = TEST.features[rows].astype(np.float64) @ weights
        grades = TEST.grades[rows].tolist()
        if max(grades) == 0 and empty == "skip":
            continue
        none = {"zero": 0.0, "one": 1.0, "skip": 0.0}[empty]
        values.append(metrics.ndcg(grades, tuple(np.argsort(-scores)), K, none))
    return np.mean(values)


@pytest.mark.parametrize("empty", ["skip", "zero", "one"])
def test_offline_ndcg_is_that_of_the_scores_on_the_test_set(empty, monkeypatch):
    weights = np.random.default_rng(0).normal(size=D)
    monkeypatch.setattr(evaluate, "_ROWS", 16)  # in blocks, the last one padded
    measured = measure(by_features(weights), rounds=3, empty=empty, evaluate_after=[3, 2])
    assert measured.evaluated.tolist() == [2, 3]
    assert measured.offline.shape == (2, 2)
    np.testing.assert_allclose(measured.offline, numpy_ndcg(weights, empty), rtol=1e-5)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", ["pairrank", "skyline"])
def test_a_run_is_a_slow_reenactment_of_its_rounds(name):
    rounds = 12
    measured = run(name, (3, 4), rounds)
    made = small(name)
    key = lockstep.shard_key("train", "1", 4)
    state = made.ranker.init(jax.random.fold_in(key, 0), D, made.numbers)
    rank, learn = jax.jit(made.ranker.rank, static_argnums=4), jax.jit(made.ranker.learn)
    rows = Rows(jnp.asarray(TRAIN.features, float), jnp.asarray(TRAIN.grades))
    longest = int(TRAIN.sizes.max())
    for t in range(1, rounds + 1):
        keys = jax.random.split(jax.random.fold_in(key, t), 5)
        q = int(jax.random.randint(keys[0], (), 0, TRAIN.n_queries))
        n_docs, first = int(TRAIN.sizes[q]), int(TRAIN.offsets[q])
        ids = np.where(np.arange(longest) < n_docs, first + np.arange(longest), -1)
        x = np.where((ids >= 0)[:, None], TRAIN.features[ids].astype(float), 0.0)
        ranking = rank(state, keys[1], jnp.asarray(x), jnp.asarray(ids >= 0), K)
        n_shown = min(n_docs, K)
        shown = tuple(ranking.order[:n_shown].tolist())
        grades = TRAIN.grades[first : first + n_docs].tolist()
        slots = np.zeros(K, np.int32)
        slots[:n_shown] = [grades[i] for i in shown]
        reaction = click(USER, keys[2], jnp.asarray(slots), jnp.zeros(K), ranking.shown)
        assert measured.online[1, t - 1] == pytest.approx(metrics.ndcg(grades, shown, K))
        assert measured.regret[1, t - 1] == metrics.regret(grades, shown)
        n_examined = int(reaction.examined.sum())
        expected = metrics.examined_regret(grades, shown, n_examined)
        assert measured.examined_regret[1, t - 1] == expected
        certain = np.zeros((n_docs, n_docs), bool)
        certain[np.ix_(shown, shown)] = np.asarray(ranking.certain)[:n_shown, :n_shown]
        ratio = metrics.certain_ratio(certain, shown)
        got = measured.certain_ratio[1, t - 1]
        assert np.isnan(got) if ratio is None else got == pytest.approx(ratio)
        row_ids = np.full(K, first, np.int32)
        row_ids[:n_shown] = first + np.array(shown)
        impression = Impression(
            jnp.asarray(row_ids), reaction.clicks, ranking, jnp.asarray(ids, jnp.int32)
        )
        state = learn(state, keys[3], impression, rows)


def test_a_ranker_that_learns_gets_better_than_it_was():
    measured = run("pdgd-linear", range(8), 300, presets.user("perfect", 4, k=K))
    first, last = measured.offline[:, 0], measured.offline[:, -1]
    assert (last - first).mean() > 0.05


@pytest.mark.parametrize("rounds", [[0, 2], [2, 4], [-1]])
def test_rounds_that_never_come_cannot_be_evaluated(rounds):
    with pytest.raises(ConfigError, match="evaluate_after: rounds count from 1 to 3"):
        measure(in_order(False), rounds=3, evaluate_after=rounds)


def test_folds_of_about_the_same_size_share_one_compiled_step():
    made = small("pdgd-linear")
    parts = [TRAIN.select(range(n)) for n in (13, 14)]  # both are rounded up to 14
    sizes = shared_sizes(parts)
    n_programs = []
    for part in parts:
        keys = keys_of(0)
        lockstep.run(
            made.ranker, [made.numbers], [USER], keys, part, [TEST], rounds=5, k=K, sizes=sizes
        )
        n_programs.append(compiled.run_chunk._cache_size())
    assert n_programs[0] == n_programs[1]


def test_lengths_are_rounded_to_three_binary_digits():
    assert [protocol._rounded(n) for n in (1, 7, 8, 9, 13, 471, 9630)] == [
        1, 7, 8, 10, 14, 512, 10240,
    ]  # fmt: skip
