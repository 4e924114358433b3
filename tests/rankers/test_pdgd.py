"""PDGD: its update against the oracle, its steps by hand, and its unbiasedness by enumeration."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import clicks as oracle_clicks
from oracle import network
from oracle import plackett_luce as oracle
from rankers.served import ranking_of

from olrank.explore.plackett_luce import Memo
from olrank.rankers import table
from olrank.rankers.pdgd import _document_weights
from olrank.types import Impression, Rows

D, N, K = 3, 5, 4
RATE, DECAY = 0.3, 0.9
SHOWN, CLICKS = (3, 0, 4, 1), (0, 1, 0, 1)
pytestmark = pytest.mark.usefixtures("x64")


def drawn(scores, shown, clicks) -> Impression:
    """The list as the ranker would have drawn it from these scores of all candidates."""
    rest = [scores[i] for i in range(len(scores)) if i not in shown]
    log_rest = jnp.asarray(np.logaddexp.reduce(rest) if rest else -np.inf)
    k = len(shown)
    memo = Memo(jnp.asarray([scores[i] for i in shown]), log_rest)
    ranking = ranking_of(shown, k, memo)
    return Impression(ranking.order, jnp.asarray(clicks, float), ranking)


def started(name, **settings):
    made = table.make(name, {"k": K, "learning_rate": RATE, "decay": DECAY, **settings})
    state = made.ranker.init(jax.random.key(0), D, made.numbers)
    return made.ranker, state, jax.jit(made.ranker.learn)


def test_a_linear_step_is_the_oracles():
    ranker, state, learn = started("pdgd-linear")
    X = np.random.default_rng(1).normal(size=(N, D))
    state = state._replace(theta=jnp.array([0.5, -1.0, 0.3]))
    scores = X @ np.array([0.5, -1.0, 0.3])
    after = learn(state, jax.random.key(0), drawn(scores, SHOWN, CLICKS), Rows(jnp.asarray(X)))
    step = oracle.pdgd_gradient(scores, X, SHOWN, CLICKS)
    assert abs(step).max() > 0.01
    np.testing.assert_allclose(after.theta - state.theta, RATE * step, rtol=1e-10)


def test_the_memo_of_a_draw_gives_the_same_step_as_all_scores_would():
    ranker, state, learn = started("pdgd-linear")
    X = np.random.default_rng(2).normal(size=(N, D))
    state = state._replace(theta=jnp.array([0.5, -1.0, 0.3]))
    ranking = ranker.rank(state, jax.random.key(5), jnp.asarray(X), jnp.ones(N, bool), K)
    impression = Impression(ranking.order, jnp.asarray(CLICKS, float), ranking)
    after = learn(state, jax.random.key(0), impression, Rows(jnp.asarray(X)))
    scores, shown = X @ np.asarray(state.theta), tuple(ranking.order.tolist())
    step = oracle.pdgd_gradient(scores, X, shown, CLICKS)
    np.testing.assert_allclose(after.theta - state.theta, RATE * step, rtol=1e-10)


def test_of_two_clicked_documents_the_heavier_click_wins_by_the_difference():
    scores = [0.3, -0.2, 0.1]
    found = _document_weights(drawn(scores, (0, 1), (3.0, 1.0)))

    def log_p(first, second):
        e = np.exp(scores)
        return np.log(e[first] / e.sum()) + np.log(e[second] / (e.sum() - e[first]))

    rho = 1 / (1 + np.exp(log_p(0, 1) - log_p(1, 0)))
    margin = 0.3 - -0.2
    push = (3.0 - 1.0) * rho * np.exp(margin) / (1 + np.exp(margin)) ** 2
    np.testing.assert_allclose(found, [push, -push], rtol=1e-10)


def test_a_slot_out_of_view_does_not_lose():
    whole = drawn([0.3, -0.2, 0.1], (0, 1, 2), (1.0, 0.0, 0.0))
    assert float(_document_weights(whole)[1]) < 0
    short = whole._replace(seen=jnp.arange(3) < 1)
    np.testing.assert_array_equal(_document_weights(short), 0.0)


@pytest.mark.parametrize("activation", ["relu", "sigmoid"])
def test_a_neural_step_is_the_oracles_with_gradients_by_finite_differences(activation):
    ranker, state, learn = started("pdgd-neural", width=4, activation=activation)
    X = np.random.default_rng(3).normal(size=(N, D))
    layers = [(np.asarray(W), np.asarray(b)) for W, b in state.theta]
    phi = network.relu if activation == "relu" else network.sigmoid
    scores = np.array([network.plain(x, layers, phi) for x in X])
    slopes = np.array([network.plain_finite_difference(x, layers, phi) for x in X])
    after = learn(state, jax.random.key(0), drawn(scores, SHOWN, CLICKS), Rows(jnp.asarray(X)))
    moved = [
        np.asarray(a - b)
        for a, b in zip(jax.tree.leaves(after.theta), jax.tree.leaves(state.theta), strict=True)
    ]
    step = oracle.pdgd_gradient(scores, slopes, SHOWN, CLICKS)
    np.testing.assert_allclose(network.flatten(moved), RATE * step, rtol=1e-6, atol=1e-9)


def test_the_rate_decays_with_every_step_that_moves_and_gradients_are_summed():
    X = np.random.default_rng(4).normal(size=(N, D))
    scores = np.zeros(N)
    impression, nothing = drawn(scores, SHOWN, CLICKS), drawn(scores, SHOWN, (0,) * K)
    rows = Rows(jnp.asarray(X))
    g = oracle.pdgd_gradient(scores, X, SHOWN, CLICKS)  # scores stay in the memo
    _, state, learn = started("pdgd-linear")
    sizes = []
    for one in (impression, nothing, impression):
        after = learn(state, jax.random.key(0), one, rows)
        sizes.append(np.asarray(after.theta - state.theta) @ g / (g @ g))
        state = after
    assert sizes == pytest.approx([RATE, 0.0, RATE * DECAY])

    _, state, learn = started("pdgd-linear", update_every=3)
    thetas = [np.zeros(D)]
    for _ in range(6):
        state = learn(state, jax.random.key(0), impression, rows)
        thetas.append(np.asarray(state.theta))
    expected = [0, 0, 0, 3 * RATE, 3 * RATE, 3 * RATE, 3 * RATE * (1 + DECAY)]
    for theta, size in zip(thetas, expected, strict=True):
        np.testing.assert_allclose(theta, size * g, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("stop", ["clicked", "examined"])
def test_equally_relevant_documents_get_no_expected_push(stop, monkeypatch):
    """By enumerating every list and every click pattern; the weights are those of our code."""
    scores, grades = np.array([0.7, -0.4, 0.1, 1.2]), (1, 1, 0, 2)
    k = 3
    p_click, p_stop = oracle_clicks.THREE_GRADES["informational"]
    push = expected_pushes(scores, grades, k, p_click, p_stop, stop)
    assert abs(push[0, 1] - push[1, 0]) < 1e-15
    assert push[0, 1] > 1e-3  # each way alone there is one
    assert push[3, 2] - push[2, 3] > 1e-3  # and a better document is pushed up
    monkeypatch.setattr(
        "olrank.rankers.pdgd.plackett_luce.swap_weights", lambda memo, shown: jnp.ones((k, k))
    )
    biased = expected_pushes(scores, grades, k, p_click, p_stop, stop)
    assert abs(biased[0, 1] - biased[1, 0]) > 1e-3


def expected_pushes(scores, grades, k, p_click, p_stop, stop):
    """[n, n] the expected weight of i over j, summed over all lists and click patterns.

    Weights are linear in the weights of clicks. So one pair's weight is what its loser loses when
    the winner's click weighs 1 and the other clicks next to nothing: they only say what was seen.
    """
    n = len(scores)

    @jax.jit
    def document_weights(memo_scores, log_rest, clicks):
        ranking = ranking_of(range(k), k, Memo(memo_scores, log_rest))
        return _document_weights(Impression(ranking.order, clicks, ranking))

    def pair_weight(shown, clicks, a, b):
        rest = np.logaddexp.reduce([scores[i] for i in range(n) if i not in shown])
        of_list = jnp.asarray([scores[i] for i in shown])
        tiny = np.where(np.array(clicks) > 0, 1e-200, 0.0)
        tiny[a] = 1.0
        return -float(document_weights(of_list, jnp.asarray(rest), jnp.asarray(tiny))[b])

    push = np.zeros((n, n))
    for shown, p_shown in oracle.lists(scores, k).items():
        in_order = [grades[i] for i in shown]
        for clicks, p in oracle_clicks.patterns(in_order, p_click, p_stop, stop).items():
            for a, b in oracle.preferences(clicks):
                push[shown[a], shown[b]] += p_shown * p * pair_weight(shown, clicks, a, b)
    return push
