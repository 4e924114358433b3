"""Descent: Eq. (loss), Algorithm 1 line 11, by hand and by what must hold exactly."""

from __future__ import annotations

import numpy as np
import pytest

from oracle import descent, feedback, network
from oracle.cases import perturbed


@pytest.fixture
def task(rng):
    theta_0 = network.init(rng, d=3, m=4, L=3)
    X = rng.normal(size=(6, 3))
    pairs = [(X[0], X[1], 1.0), (X[2], X[3], 0.0), (X[4], X[5], 0.5)]
    return perturbed(theta_0, rng), theta_0, pairs


def test_the_losses_gradient_is_that_of_finite_differences(task):
    theta, theta_0, pairs = task
    weights = [0.5, 2.0, 1.0]
    at = network.flatten(theta)

    def value(v):
        return descent.loss(network.unflatten(v, theta), theta_0, pairs, 0.3, weights)

    steps = 1e-6 * np.eye(at.size)
    numeric = [(value(at + e) - value(at - e)) / 2e-6 for e in steps]
    exact = descent.loss_gradient(theta, theta_0, pairs, 0.3, weights)
    np.testing.assert_allclose(exact, numeric, rtol=1e-6, atol=1e-7)


def test_the_loss_by_hand():
    theta = [np.array([[1.0], [-1.0]]), np.array([[1.0, 1.0]])]  # f(x) = sqrt(2) |x|
    theta_0 = [np.array([[1.0], [-1.0]]), np.array([[0.0, 1.0]])]
    pairs = [(np.array([3.0]), np.array([1.0]), 1.0), (np.array([3.0]), np.array([1.0]), 0.0)]
    f_ij = 2**0.5 * (3 - 1)
    expected = np.log(1 + np.exp(-f_ij)) + np.log(1 + np.exp(f_ij)) + 2 * 0.4 / 2 * 1**2
    assert descent.loss(theta, theta_0, pairs, pull=0.4) == pytest.approx(expected)
    assert descent.mean_loss(theta, theta_0, pairs, pull=0.4) == pytest.approx(expected / 2)
    assert descent.pair_loss(1000.0, 0.0) == pytest.approx(1000.0)


def test_the_proximal_step_solves_its_implicit_equation(task):
    theta, theta_0, pairs = task
    m, eta, pull, n = 4, 0.05, 7.0, 11
    after = descent.proximal_step(theta, theta_0, pairs, eta, pull, n)
    slope = descent.sum_gradient(theta, pairs) / 3
    pulled = (m * pull / n) * (network.flatten(after) - network.flatten(theta_0))
    expected = network.flatten(theta) - eta * (slope + pulled)
    np.testing.assert_allclose(network.flatten(after), expected)


def test_explicit_and_proximal_steps_agree_to_first_order(task):
    theta, theta_0, pairs = task
    eta = 1e-6
    explicit = descent.explicit_step(theta, theta_0, pairs, eta, 0.3, mean=True)
    proximal = descent.proximal_step(theta, theta_0, pairs, eta, 0.3, n_history=3)
    difference = network.flatten(explicit) - network.flatten(proximal)
    assert abs(difference).max() < 1e-10


def test_a_descent_of_small_steps_lowers_the_loss(task):
    theta, theta_0, pairs = task
    after = descent.descend(theta, theta_0, [pairs] * 20, eta=0.01, pull=0.1, n_history=3)
    before = descent.mean_loss(theta, theta_0, pairs, 0.1)
    assert descent.mean_loss(after, theta_0, pairs, 0.1) < before


def test_lambda_weights_by_hand():
    scores = np.array([0.1, 0.9, 0.5, 7.0])  # slot 3 was not examined; ranks 3, 1, 2
    pattern = (1, 0, 0, 0)
    assert feedback.last_examined(pattern) == 2
    # Among the two examined, slot 1 ranks first: clicks (0, 1) from the top, ideal 1.
    assert descent.lambda_weight(scores, pattern, 0, 1) == pytest.approx(1 - 1 / np.log2(3))
    pattern = (1, 1, 0, 0)  # examined: slots 0, 1, 2 with ranks 3, 1, 2
    ideal = 1 + 1 / np.log2(3)
    up = (1 / np.log2(3) - 1 / np.log2(4)) / ideal
    assert descent.lambda_weight(scores, pattern, 0, 2) == pytest.approx(up)
    down = (1 - 1 / np.log2(3)) / ideal
    assert descent.lambda_weight(scores, pattern, 1, 2) == pytest.approx(down)
    assert descent.lambda_weight(scores, pattern, 0, 1) == pytest.approx(0.0)


def test_equal_scores_keep_the_shown_order_in_lambda_weights():
    weight = descent.lambda_weight(np.zeros(2), (0, 1), 0, 1)
    assert weight == pytest.approx(1 - 1 / np.log2(3))
    three = descent.lambda_weight(np.zeros(3), (0, 0, 1), 0, 2)
    assert three == pytest.approx(1 - 1 / np.log2(4))
