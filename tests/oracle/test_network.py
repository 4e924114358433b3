"""The network: Sec. 3.2, Algorithm 1 line 2, by hand and by what must hold exactly."""

from __future__ import annotations

import numpy as np
import pytest

from oracle import confidence, descent, network
from oracle.cases import perturbed


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_the_network_starts_at_zero_everywhere(depth, rng):
    theta = network.init(rng, d=5, m=8, L=depth)
    assert network.scores(rng.normal(size=(20, 5)), theta) == pytest.approx(0.0, abs=1e-14)


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_the_gradient_is_that_of_finite_differences(depth, rng):
    theta = perturbed(network.init(rng, d=3, m=6, L=depth), rng)
    assert network.flatten(theta).size == 6 + 6 * 3 + 6**2 * (depth - 2)  # p of Sec. 3.2
    for x in rng.normal(size=(3, 3)):
        by_hand, by_steps = network.gradient(x, theta), network.finite_difference(x, theta)
        np.testing.assert_allclose(by_hand, by_steps, rtol=1e-6, atol=1e-7)


def test_a_two_layer_network_by_hand():
    theta = [np.array([[1.0, -1.0], [0.0, 2.0]]), np.array([[3.0, -1.0]])]
    x = np.array([2.0, 1.0])  # W_1 x = (1, 2)
    assert network.f(x, theta) == pytest.approx(2**0.5 * (3 * 1 - 1 * 2))
    first_layer = 2**0.5 * np.array([3 * 2, 3 * 1, -1 * 2, -1 * 1])
    last_layer = 2**0.5 * np.array([1.0, 2.0])
    np.testing.assert_allclose(network.gradient(x, theta), [*first_layer, *last_layer])


def test_the_initial_weights_have_the_variances_of_the_algorithm(rng):
    m = 400
    W_1, W_2, W_3 = network.init(rng, d=400, m=m, L=3)
    # Variances of 40,000 or more normals: the relative error is 0.7 %, 4 % is beyond 5 sigma.
    assert W_1[:200].var() == pytest.approx(2 / m, rel=0.04)
    assert W_2[:200, :200].var() == pytest.approx(4 / m, rel=0.04)
    assert not W_2[:200, 200:].any()
    assert np.array_equal(W_2[:200, :200], W_2[200:, 200:])
    assert np.array_equal(W_3[:, :200], -W_3[:, 200:])
    assert W_3[:, :200].var() == pytest.approx(2 / m, rel=0.5)  # 200 normals: 10 %, 5 sigma


@pytest.mark.parametrize("depth", [2, 3])
def test_duplicated_inputs_and_stacked_weights_are_the_same_network(depth):
    stacked = network.init(np.random.default_rng(3), d=4, m=6, L=depth)
    literal = network.init_duplicated(np.random.default_rng(3), d=4, m=6, L=depth)
    for ours, theirs in zip(stacked, network.stack(literal), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-14)
    rng = np.random.default_rng(4)
    moved = perturbed(literal, rng)  # the zeros of the blocks move too
    X = rng.normal(size=(5, 4))
    for theta in (literal, moved):
        G_literal = network.tangents(np.array([network.duplicate(x) for x in X]), theta)
        G_stacked = network.tangents(X, network.stack(theta))
        np.testing.assert_allclose(G_literal @ G_literal.T, G_stacked @ G_stacked.T)
        for x in X:
            f_literal = network.f(network.duplicate(x), theta)
            assert f_literal == pytest.approx(network.f(x, network.stack(theta)), abs=1e-12)


def test_duplicated_inputs_and_stacked_weights_descend_alike(rng):
    stacked_0 = network.init(np.random.default_rng(3), d=4, m=6)
    literal_0 = network.init_duplicated(np.random.default_rng(3), d=4, m=6)
    X = rng.normal(size=(6, 4))
    pairs = [(X[0], X[1], 1.0), (X[2], X[3], 0.0), (X[4], X[0], 1.0)]
    twice = [(network.duplicate(a), network.duplicate(b), y) for a, b, y in pairs]
    stacked, literal = stacked_0, literal_0
    for _ in range(5):
        stacked = descent.proximal_step(stacked, stacked_0, pairs, eta=0.05, pull=0.3, n_history=3)
        literal = descent.proximal_step(literal, literal_0, twice, eta=0.05, pull=0.3, n_history=3)
    moved = network.flatten(stacked) - network.flatten(stacked_0)
    moved_literal = network.flatten(literal) - network.flatten(literal_0)
    assert np.linalg.norm(moved) == pytest.approx(np.linalg.norm(moved_literal))
    for x in X:
        f_literal = network.f(network.duplicate(x), literal)
        assert network.f(x, stacked) == pytest.approx(f_literal, rel=1e-10)


def test_with_a_diagonal_matrix_the_two_forms_differ(rng):
    theta = network.init_duplicated(rng, d=4, m=6)
    X = rng.normal(size=(3, 4))
    widths = []
    for inputs, weights in [
        (np.array([network.duplicate(x) for x in X]), theta),
        (X, network.stack(theta)),
    ]:
        G = network.tangents(inputs, weights)
        diagonal = confidence.initial_diagonal(G.shape[1], 1.0)
        widths.append(confidence.widths(G, confidence.update(diagonal, G, [(0, 1)], 6), 6, 1.0))
    assert abs(widths[0] - widths[1]).max() > 1e-3


def test_the_plain_network_by_hand():
    layers = [
        (np.array([[1.0, 2.0], [-3.0, 0.0]]), np.array([0.5, 1.0])),
        (np.array([[2.0, 5.0]]), np.array([-1.0])),
    ]
    x = np.array([1.0, 1.0])  # hidden: relu(3.5), relu(-2)
    assert network.plain(x, layers) == pytest.approx(2 * 3.5 + 5 * 0 - 1)
    expected = [2 * 1, 2 * 1, 0, 0, 2, 0, 3.5, 0, 1]  # W_1, b_1, W_2, b_2
    np.testing.assert_allclose(network.plain_finite_difference(x, layers), expected, atol=1e-8)
