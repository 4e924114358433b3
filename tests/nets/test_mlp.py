"""The paper's network and the plain one: by hand, by claim, and against the oracle."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree
from oracle import network
from oracle.cases import perturbed
from scipy.stats import chi2, kstest

from olrank.errors import ConfigError
from olrank.nets import mlp

D, M = 3, 6  # features and width of the small networks below
DEPTHS = (2, 3, 4)
FALSE_ALARM = 1e-6  # of each statistical check; seeds are fixed

score = jax.jit(lambda params, X, depth: mlp.paper(M, depth).score(params, X), static_argnums=2)
tangents = jax.jit(
    lambda params, X, depth: mlp.paper(M, depth).tangents(params, X), static_argnums=2
)
init = jax.jit(lambda key, depth: mlp.paper(M, depth).init(key, D), static_argnums=1)
plain = jax.jit(
    lambda params, X, depth, activation: (
        mlp.plain(M, depth, activation).score(params, X),
        mlp.plain(M, depth, activation).tangents(params, X),
    ),
    static_argnums=(2, 3),
)
PLAIN = {"relu": network.relu, "sigmoid": network.sigmoid}

seeds = st.integers(0, 2**32 - 1)
quick = partial(settings, max_examples=25, deadline=None)


def layers_of(theta: network.Theta) -> mlp.Layers:
    return tuple((jnp.asarray(W),) for W in theta)


def random_case(seed: int, depth: int) -> tuple[network.Theta, np.ndarray]:
    """A network some way from theta_0 and five documents."""
    rng = np.random.default_rng(seed)
    theta = perturbed(network.init(rng, D, M, depth), rng, size=0.3)
    return theta, rng.normal(size=(5, D))


def plain_case(seed: int, depth: int) -> tuple[network.Layers, np.ndarray]:
    """A plain network with random weights and biases, and four documents."""
    rng = np.random.default_rng(seed)
    sizes = [D, *[M] * (depth - 1), 1]
    layers = [
        (rng.normal(size=(n_out, n_in)), rng.normal(size=n_out))
        for n_in, n_out in zip(sizes[:-1], sizes[1:], strict=True)
    ]
    return layers, rng.normal(size=(4, D))


@pytest.fixture(scope="module")
def wide() -> mlp.Layers:
    """Twenty networks theta_0 of width 100 and depth 4 on 50 features, stacked."""
    keys = jax.random.split(jax.random.key(11), 20)
    many = jax.jit(jax.vmap(lambda key: mlp.paper(100, 4).init(key, 50)))(keys)
    return jax.tree.map(np.asarray, many)


def test_two_layers_by_hand():
    V, w = np.array([[1.0, -1.0], [2.0, 0.5]]), np.array([[3.0, -4.0]])
    params = layers_of([V, w])
    x = jnp.array([[2.0, 1.0], [-1.0, 1.0]])
    # Hidden units: 2 - 1 = 1 and 4 + 0.5 = 4.5; then -2 and -1.5, which ReLU stops.
    expected = [2**0.5 * (3 * 1 - 4 * 4.5), 0.0]
    net = mlp.paper(2, 2)
    np.testing.assert_allclose(net.score(params, x), expected, rtol=1e-6)
    # d/dV = w * x where the unit is on, row by row; d/dw = the hidden units; no sqrt(m).
    first = [3 * 2, 3 * 1, -4 * 2, -4 * 1, 1, 4.5]
    np.testing.assert_allclose(net.tangents(params, x), [first, [0.0] * 6], rtol=1e-6)
    assert net.scale == 2


@pytest.mark.parametrize("depth", DEPTHS)
def test_every_document_scores_zero_at_theta_0(depth, x64):
    rng = np.random.default_rng(depth)
    X = jnp.asarray(np.concatenate([rng.normal(size=(50, D)), 1e3 * rng.normal(size=(50, D))]))
    for seed in range(5):
        theta_0 = init(jax.random.key(seed), depth)
        size = np.linalg.norm(np.asarray(X), axis=1)
        assert np.all(np.abs(score(theta_0, X, depth)) <= 1e-14 * size)
        moved = jax.tree.map(lambda W: W + 0.1, theta_0)
        assert np.any(np.abs(score(moved, X, depth)) > 1e-3 * size)


def test_theta_0_scores_zero_in_single_precision_too(wide):
    X = np.random.default_rng(1).normal(size=(100, 50)).astype(np.float32)
    theta_0 = [(W[0],) for (W,) in wide]
    f = jax.jit(mlp.paper(100, 4).score)
    # f is sqrt(m) times a sum that cancels: what is left is its rounding, a few units of
    # epsilon times the sum of sizes of its terms.
    sizes = (np.abs(theta_0[-1][0]),)
    bound = 16 * np.finfo(np.float32).eps * f((*theta_0[:-1], sizes), X)
    assert np.all(np.abs(f(tuple(theta_0), X)) <= bound)


@pytest.mark.parametrize("depth", DEPTHS)
@quick()
@given(seed=seeds)
def test_scores_and_tangents_are_the_oracles(depth, seed):
    theta, X = random_case(seed, depth)
    with jax.enable_x64(True):
        f, g = score(layers_of(theta), X, depth), tangents(layers_of(theta), X, depth)
    assert f.dtype == g.dtype == np.float64
    np.testing.assert_allclose(f, network.scores(X, theta), rtol=1e-12, atol=1e-12)
    expected = network.tangents(X, theta) / np.sqrt(M)
    np.testing.assert_allclose(g, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_tangents_are_the_finite_differences_of_the_score(depth, seed, x64):
    theta, X = random_case(seed, depth)
    at = network.flatten(theta)
    step = 1e-6

    def f(vector: np.ndarray) -> np.ndarray:
        return np.asarray(score(layers_of(network.unflatten(vector, theta)), X, depth))

    slopes = [(f(at + step * e) - f(at - step * e)) / (2 * step) for e in np.eye(at.size)]
    found = np.asarray(tangents(layers_of(theta), X, depth)) * np.sqrt(M)
    assert np.abs(found).max() > 0.1
    np.testing.assert_allclose(found, np.transpose(slopes), atol=1e-7)


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("activation", ["relu", "sigmoid"])
@pytest.mark.parametrize("seed", [3, 4])
def test_the_plain_network_is_the_oracles_with_biases(depth, activation, seed, x64):
    layers, X = plain_case(seed, depth)
    params = tuple((jnp.asarray(W), jnp.asarray(b)) for W, b in layers)
    expected = [network.plain(x, layers, PLAIN[activation]) for x in X]
    f, found = plain(params, X, depth, activation)
    np.testing.assert_allclose(f, expected, rtol=1e-12)
    slopes = [network.plain_finite_difference(x, layers, PLAIN[activation]) for x in X]
    np.testing.assert_allclose(found, slopes, atol=1e-8)
    assert mlp.plain(M, depth, activation).scale == 1
    assert found.shape[1] == sum(W.size + b.size for W, b in layers)


def test_tangents_come_in_the_order_of_the_flattened_parameters(x64):
    theta, X = random_case(5, 3)
    params = layers_of(theta)
    flat, unravel = ravel_pytree(params)
    by_jax = jax.jacobian(lambda v: score(unravel(v), X, 3))(flat) / np.sqrt(M)
    np.testing.assert_allclose(tangents(params, X, 3), by_jax, atol=1e-12)


@pytest.mark.parametrize("depth", DEPTHS)
def test_theta_0_is_made_of_mirrored_halves(depth, x64):
    first, *inner, last = [np.asarray(W) for (W,) in init(jax.random.key(0), depth)]
    half = M // 2
    assert first.shape == (M, D)
    np.testing.assert_array_equal(first[:half], first[half:])
    assert len(inner) == depth - 2
    for W in inner:
        assert W.shape == (M, M)
        np.testing.assert_array_equal(W[:half, :half], W[half:, half:])
        assert not W[:half, half:].any()
        assert not W[half:, :half].any()
    assert last.shape == (1, M)
    np.testing.assert_array_equal(last[:, :half], -last[:, half:])


def assert_normal(entries: np.ndarray, variance: float) -> None:
    """Mean zero, this variance and a normal shape; three checks, each with FALSE_ALARM."""
    n, z = entries.size, entries.reshape(-1).astype(float) / variance**0.5
    low, high = chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], n)
    assert low < np.sum(z**2) < high
    assert abs(np.sum(z)) < 4.9 * n**0.5  # two-sided normal tail of 1e-6
    assert kstest(z, "norm").pvalue > FALSE_ALARM


def test_theta_0_has_the_papers_variances(wide):
    m, half = 100, 50
    (V,), (W,), (U,), (w,) = wide
    assert_normal(V[:, :half], 2 / m)
    assert_normal(W[:, :half, :half], 4 / m)
    assert_normal(U[:, :half, :half], 4 / m)
    assert_normal(w[:, 0, :half], 2 / m)


def test_layers_are_drawn_independently_of_one_another(wide):
    half = 50
    blocks = [W[:, :half, :half].reshape(-1) for (W,) in wide[:-1]]
    for a, b in [(0, 1), (0, 2), (1, 2)]:
        # Sample correlation of independent entries; beyond 4.9 / sqrt(n) in 1e-6 of seeds.
        assert abs(np.corrcoef(blocks[a], blocks[b])[0, 1]) < 4.9 / blocks[a].size ** 0.5


def test_plain_weights_and_biases_are_uniform_within_one_over_root_inputs():
    width, d = 50, 30
    layers = jax.jit(mlp.plain(width, 3).init, static_argnums=1)(jax.random.key(14), d)
    for (W, b), n_in, n_out in zip(layers, [d, width, width], [width, width, 1], strict=True):
        assert W.shape == (n_out, n_in)
        assert b.shape == (n_out,)
        for part in (W, b):
            on_unit = (np.asarray(part).reshape(-1) * n_in**0.5 + 1) / 2
            assert np.all((on_unit >= 0) & (on_unit <= 1))
            assert kstest(on_unit, "uniform").pvalue > FALSE_ALARM


def test_the_stacked_first_layer_is_the_papers_network_on_doubled_inputs(x64):
    """Same function and same tangent kernel as Algorithm 1's block-diagonal W_1 on [x; x]."""
    for depth in DEPTHS:
        rng = np.random.default_rng(depth)
        doubled = network.init_duplicated(rng, D, M, depth)
        stacked = network.stack(doubled)
        X = rng.normal(size=(4, D))
        X_doubled = np.array([network.duplicate(x) for x in X])
        moved = [*doubled[:-1], doubled[-1] + 0.1]
        moved_stacked = [*stacked[:-1], stacked[-1] + 0.1]
        f = score(layers_of(moved_stacked), X, depth)
        np.testing.assert_allclose(f, network.scores(X_doubled, moved), atol=1e-12)
        G = np.asarray(tangents(layers_of(moved_stacked), X, depth))
        G_doubled = network.tangents(X_doubled, moved) / np.sqrt(M)
        np.testing.assert_allclose(G @ G.T, G_doubled @ G_doubled.T, atol=1e-12)


def test_the_same_key_gives_the_same_network_and_another_key_another(x64):
    one, same, other = (init(jax.random.key(seed), 3) for seed in (0, 0, 1))
    for (W,), (W_same,), (W_other,) in zip(one, same, other, strict=True):
        np.testing.assert_array_equal(W, W_same)
        assert np.any(W != W_other)


@pytest.mark.parametrize("width", [3, 101])
def test_an_odd_width_is_refused_and_the_message_says_what_to_do(width):
    with pytest.raises(ConfigError, match=f"even width, not {width}.*'plain'"):
        mlp.paper(width, 2)
    mlp.plain(width, 2)


@pytest.mark.parametrize("factory", [mlp.paper, mlp.plain])
def test_one_layer_or_no_width_is_refused(factory):
    for depth in (1, 0):
        with pytest.raises(ConfigError, match=f"depth: .*at least 2 layers, not {depth}"):
            factory(4, depth)
    with pytest.raises(ConfigError, match="width: .*at least 2 units a layer, not 0"):
        factory(0, 2)


def test_an_unknown_activation_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match='"rellu".*relu, sigmoid.*mean "relu"'):
        mlp.plain(4, 2, "rellu")
