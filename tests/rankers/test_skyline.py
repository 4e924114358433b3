"""The skyline: delta-NDCG@k by literal swaps, and what a warm start costs."""

from __future__ import annotations

from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import metrics
from rankers.served import impression_of

from olrank.data.synthetic import synthetic
from olrank.engine import lockstep
from olrank.rankers import table
from olrank.rankers.skyline import _query_loss
from olrank.types import Rows
from olrank.users import presets

PADDED = 9
query_loss = jax.jit(jax.value_and_grad(_query_loss, has_aux=True), static_argnums=3)


def by_swapping(scores, grades, k):
    """(loss, gradient, pairs): exchange every two documents of the list and measure NDCG@k."""
    n = len(scores)
    order = sorted(range(n), key=lambda i: -scores[i])
    value, slope, count = 0.0, np.zeros(n), 0
    for i, j in combinations(range(n), 2):
        exchanged = [{i: j, j: i}.get(document, document) for document in order]
        change = metrics.ndcg(grades, order, k) - metrics.ndcg(grades, exchanged, k)
        if change == 0:
            continue
        up, down = (i, j) if grades[i] > grades[j] else (j, i)
        margin = scores[up] - scores[down]
        value += abs(change) * np.log1p(np.exp(-margin))
        push = abs(change) / (1 + np.exp(margin))
        slope[up] -= push
        slope[down] += push
        count += 1
    return value, slope, count


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("k", [2, 4, 12])
@pytest.mark.parametrize("n_docs", [1, 5, PADDED])
def test_a_query_s_loss_weighs_every_pair_by_the_ndcg_that_its_swap_changes(k, n_docs):
    rng = np.random.default_rng(n_docs)
    for grades in (rng.integers(0, 4, n_docs), np.zeros(n_docs, int)):
        scores = rng.normal(size=n_docs)
        padded_scores, padded_grades = np.full(PADDED, 50.0), np.full(PADDED, 4)
        padded_scores[:n_docs], padded_grades[:n_docs] = scores, grades
        (value, count), slope = query_loss(
            jnp.asarray(padded_scores), jnp.asarray(padded_grades), jnp.arange(PADDED) < n_docs, k
        )
        expected, expected_slope, n_pairs = by_swapping(scores.tolist(), grades.tolist(), k)
        assert float(value) == pytest.approx(expected, rel=1e-12)
        assert count == n_pairs
        np.testing.assert_allclose(slope[:n_docs], expected_slope, rtol=1e-9, atol=1e-14)
        assert not slope[n_docs:].any()


def test_without_grades_it_says_that_it_needs_them():
    made = table.make("skyline", {"width": 4, "history": 4})
    state = made.ranker.init(jax.random.key(0), 3, made.numbers)
    with pytest.raises(ValueError, match="grades"):
        made.ranker.learn(
            state, jax.random.key(0), impression_of([0, 1], [1, 0]), Rows(jnp.ones((2, 3)))
        )


def final_ndcg(update, steps, data, rounds):
    made = table.make(
        "skyline",
        {
            "k": 5, "width": 16, "history": 64, "update": update, "steps": steps,
            "history_batch": 8, "learning_rate": 0.05,
        },
    )  # fmt: skip
    keys = [lockstep.shard_key(data.name, "", seed) for seed in range(2)]
    user = presets.user("perfect", data.max_grade, k=5)
    measured = lockstep.run(
        made.ranker, [made.numbers], [user], keys, data, [data],
        rounds=rounds, k=5, evaluate_after=[1, rounds],
    )  # fmt: skip
    return measured.offline[0, :, 0].mean(axis=0)


def test_a_warm_start_is_as_good_as_a_refit_from_theta0():
    """On the training queries, mean of two seeds: 20 steps a round from where it was, or 300."""
    data = synthetic("small", queries=20, features=6, mean_docs=7, max_docs=12, seed=1)
    start, warm = final_ndcg("continue", 20, data, rounds=30)
    _, refit = final_ndcg("theta0", 300, data, rounds=30)
    print(f"NDCG@5 of a warm start {warm:.4f}, of a refit {refit:.4f}, after one round {start:.4f}")
    assert abs(warm - refit) < 0.03
    assert min(warm, refit) > start + 0.05
