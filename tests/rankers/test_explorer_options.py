"""What the paper does not have: a linear part, widths on the logit, curvature, averages."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from olrank.explore import order
from olrank.rankers import table
from olrank.types import Impression, Rows

D, K = 3, 4
SMALL = {"width": 6, "k": K, "history": 30, "history_batch": 8, "steps": 2, "learning_rate": 0.05}


def one_round(made, state, seed=0):
    """Rank four documents, click on the second shown, learn."""
    features = jax.random.uniform(jax.random.key(100 + seed), (K, D))
    rank_key, learn_key = jax.random.split(jax.random.key(seed))
    ranking = made.ranker.rank(state, rank_key, features, jnp.ones(K, bool), K)
    clicks = jnp.zeros(K).at[1].set(1.0)
    impression = Impression(ranking.order, clicks, ranking, jnp.arange(K))
    return made.ranker.learn(state, learn_key, impression, Rows(features, None)), ranking, features


def started(**settings):
    made = table.make("olranknet", {**SMALL, **settings})
    return made, made.ranker.init(jax.random.key(7), D, made.numbers)


def test_on_the_logit_scale_an_order_is_certain_when_scores_differ_by_more_than_the_width():
    scores = jnp.array([2.0, 1.0, 0.0])
    widths = jnp.full((3, 3), 1.5)
    found = order.certain(scores, widths, "logit")
    expected = np.zeros((3, 3), bool)
    expected[0, 2] = True  # 2 > 1.5, while 1 < 1.5
    np.testing.assert_array_equal(found, expected)
    # As a probability, sigma(2) - 1.5 < 1/2: nothing is certain.
    assert not order.certain(scores, widths).any()


@pytest.mark.usefixtures("x64")
def test_with_curvature_a_pair_enters_the_confidence_with_the_slope_of_its_probability():
    made, state = started(curvature=True, pairs="all", prior=0.5)
    state = state._replace(theta=jax.tree.map(lambda leaf: leaf + 0.2, state.theta))
    after, ranking, features = one_round(made, state)
    scores = np.asarray(made.ranker.score(state, features))[np.asarray(ranking.order)]
    from olrank.nets import mlp

    g = np.asarray(mlp.paper(6, 2).tangents(state.theta, features))[np.asarray(ranking.order)]
    expected = np.full(g.shape[1], 0.5)
    for loser in (0, 2):  # examined: slots 0, 1 and, one past the last click, 2
        p = 1 / (1 + np.exp(-(scores[1] - scores[loser])))
        expected += p * (1 - p) * (g[1] - g[loser]) ** 2
    np.testing.assert_allclose(after.confidence.A, expected, rtol=1e-9)


@pytest.mark.usefixtures("x64")
def test_an_average_starts_as_the_mean_and_then_forgets():
    made, state = started(average=True, averaging=0.6, pairs="all")
    lasts, served = [state.last], [state.theta]
    for seed in range(4):
        state, *_ = one_round(made, state, seed)
        lasts.append(state.last)
        served.append(state.theta)
    # After n taught impressions the old average keeps min(.6, n / (n + 1)).
    for n, keep in ((1, 0.5), (2, 0.6), (3, 0.6)):
        expected = jax.tree.map(
            lambda old, new, keep=keep: keep * old + (1 - keep) * new, served[n - 1], lasts[n]
        )
        for mine, theirs in zip(jax.tree.leaves(served[n]), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-12)


@pytest.mark.usefixtures("x64")
def test_descent_of_averaged_parameters_goes_on_from_the_last_ones_not_from_the_average():
    made, state = started(average=True, averaging=0.9, pairs="all", alpha=1e6)
    plain, other = started(pairs="all", alpha=1e6)  # nothing is certain: both draw the same lists
    for seed in range(3):
        state, *_ = one_round(made, state, seed)
        other, *_ = one_round(plain, other, seed)
    for mine, theirs in zip(jax.tree.leaves(state.last), jax.tree.leaves(other.theta), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)


@pytest.mark.usefixtures("x64")
def test_the_linear_part_has_a_pull_of_its_own():
    """A huge pull holds a part where it started, and leaves the other free."""
    for held, settings in ((0, {"linear_pull": 1e9}), (1, {"pull": 1e9})):
        made, state = started(linear_part=True, pairs="all", **settings)
        after, *_ = one_round(made, state)
        for part in (0, 1):
            moved = max(
                float(jnp.abs(new - old).max())
                for new, old in zip(
                    jax.tree.leaves(after.theta[part]),
                    jax.tree.leaves(state.theta[part]),
                    strict=True,
                )
            )
            assert (moved < 1e-6) == (part == held)
