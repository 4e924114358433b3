"""olLambdaRank: delta-NDCG and weighted steps against the oracle."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import descent as oracle
from oracle import feedback, network
from rankers.served import as_oracle, impression_of

from olrank.rankers import table
from olrank.rankers.ollambdarank import delta_ndcg
from olrank.types import Rows

K = 6
fast_delta = jax.jit(delta_ndcg)


@settings(max_examples=60, deadline=None)
@given(
    scores=st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), min_size=K, max_size=K),
    clicks=st.lists(st.integers(0, 1), min_size=K, max_size=K).filter(any),
)
def test_delta_ndcg_is_the_oracles_and_ties_keep_the_shown_order(scores, clicks):
    o = feedback.last_examined(clicks)
    changes = fast_delta(jnp.array(scores), jnp.array(clicks, float), jnp.arange(K) < o)
    expected = np.zeros((K, K))
    for i in range(o):
        for j in range(o):
            if i != j:
                expected[i, j] = oracle.lambda_weight(np.array(scores), clicks, i, j)
    np.testing.assert_allclose(changes, expected, atol=1e-6)


def test_without_a_click_nothing_changes_ndcg():
    changes = fast_delta(jnp.arange(6.0), jnp.zeros(K), jnp.ones(K, bool))
    assert changes.tolist() == np.zeros((K, K)).tolist()


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("rule", ["independent", "all"])
def test_learning_takes_the_oracles_weighted_proximal_steps(rule):
    d, width, eta, pull, n_lists = 3, 6, 0.1, 0.3, 5
    made = table.make(
        "ollambdarank",
        {
            "width": width, "k": K, "history": 3, "history_batch": None, "steps": 2,
            "pairs": rule, "learning_rate": eta, "pull": pull,
        },
    )  # fmt: skip
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n_lists * K, d))
    rows, learn = Rows(jnp.asarray(X)), jax.jit(made.ranker.learn)
    state = made.ranker.init(jax.random.key(1), d, made.numbers)
    theta_0 = as_oracle(state.theta)
    # At theta_0 all scores are zero up to rounding, and rounding would decide the ranks.
    moved = jax.tree.map(lambda W: W + 0.2 * rng.normal(size=W.shape), state.theta)
    state = state._replace(theta=moved)
    theta, served = as_oracle(moved), []
    patterns = [(0, 1, 1, 0, 0, 0), (0,) * 6, (1, 0, 0, 1, 0, 1), (0, 0, 0, 1, 1, 0), (1, 0) * 3]
    for t, clicks in enumerate(patterns):
        ids = np.arange(t * K, (t + 1) * K)
        state = learn(state, jax.random.key(t), impression_of(ids, clicks), rows)
        find = feedback.independent_pairs if rule == "independent" else feedback.all_pairs
        if find(clicks):
            served.append((ids, clicks))
        held = served[-3:]  # what a history of three impressions remembers
        for _ in range(2):
            seen, weights = [], []
            for ids, clicked in held:
                scores = network.scores(X[ids], theta)
                for a, b in find(clicked):
                    seen.append((X[ids[a]], X[ids[b]], feedback.y(clicked, a, b)))
                    weights.append(oracle.lambda_weight(scores, clicked, a, b))
            theta = oracle.proximal_step(theta, theta_0, seen, eta, pull, len(seen), weights)
        ours = network.flatten(as_oracle(state.theta))
        np.testing.assert_allclose(ours, network.flatten(theta), rtol=1e-8, atol=1e-11)
    assert len(served) > 3
