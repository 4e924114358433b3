"""A whole round, by hand and by what must hold exactly."""

from __future__ import annotations

import numpy as np
import pytest

from oracle import descent, feedback, network, order, round


@pytest.mark.parametrize("diagonal", [True, False])
def test_a_round_learns_what_its_user_prefers(diagonal, rng):
    settings = round.Settings(alpha=0.1, pull=0.01, eta=0.02, J=3, k=4)
    state = round.start(network.init(rng, d=2, m=4), prior=1.0, diagonal=diagonal)
    n_pairs = 0
    for _ in range(15):
        X = rng.normal(size=(5, 2))
        before = state

        def user(shown, X=X):
            return [int(X[i, 0] > 0) for i in shown]

        state, outcome = round.run(state, X, user, settings, rng)
        assert order.p_list(outcome.certain, outcome.shown) > 0
        assert outcome.pairs == feedback.independent_pairs(outcome.clicks)
        n_pairs += len(outcome.pairs)
        G = network.tangents(X, before.theta)
        expected = before.A.copy()
        for a, b in outcome.pairs:
            g = G[outcome.shown[a]] - G[outcome.shown[b]]
            expected = expected + (g * g if diagonal else np.outer(g, g)) / 4
        np.testing.assert_allclose(state.A, expected)
    assert len(state.history) == n_pairs > 0
    final = descent.mean_loss(state.theta, state.theta_0, state.history, 0.0)
    assert final < np.log(2)  # the loss of a network that has learned nothing


def test_a_round_without_clicks_changes_nothing(rng):
    state = round.start(network.init(rng, d=2, m=4), prior=1.0)
    X = rng.normal(size=(3, 2))
    after, outcome = round.run(state, X, lambda shown: [0] * len(shown), round.Settings(), rng)
    assert outcome.pairs == []
    assert np.array_equal(after.A, state.A)
    assert np.array_equal(network.flatten(after.theta), network.flatten(state.theta))


def test_descending_from_theta0_forgets_where_it_was(rng):
    settings = round.Settings(update="theta0", batch=None, J=2, eta=0.01)
    state = round.start(network.init(rng, d=2, m=4), prior=1.0)
    X = rng.normal(size=(2, 2))
    once = round.learn(state, X, (0, 1), (1, 0), settings, rng)
    again = round.descend(once, settings, rng)
    assert np.array_equal(network.flatten(once.theta), network.flatten(again))
