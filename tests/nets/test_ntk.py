"""The NTK by hand at two layers, against wide networks, and the effective dimension."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import dblquad

from olrank.errors import ConfigError
from olrank.nets import mlp, ntk

pytestmark = pytest.mark.usefixtures("x64")

COS_60 = 0.5
PAIR = jnp.array([[1.0, 0.0], [COS_60, np.sqrt(1 - COS_60**2)]])  # 60 degrees apart, norm 1


def test_at_one_layer_all_kernels_are_the_inner_products():
    X = jnp.array([[1.0, 2.0], [3.0, -1.0]])
    found = ntk.kernels(X, 1)
    assert np.allclose(found.tangent, [[5.0, 1.0], [1.0, 10.0]])
    assert np.allclose(found.average, found.tangent)


def test_two_layers_by_hand_at_sixty_degrees():
    theta = np.pi / 3
    sigma = (np.sin(theta) + (np.pi - theta) * COS_60) / np.pi
    tangent = COS_60 * (np.pi - theta) / np.pi + sigma
    found = ntk.kernels(PAIR, 2)
    assert np.allclose(found.output, [[1, sigma], [sigma, 1]])
    assert np.allclose(found.tangent, [[2, tangent], [tangent, 2]])
    half = (tangent + sigma) / 2
    assert np.allclose(found.average, [[1.5, half], [half, 1.5]])


@pytest.mark.parametrize("depth", [1, 2, 3, 5])
def test_the_diagonal_is_the_number_of_layers_for_inputs_of_norm_one(depth):
    # Each layer adds Sigma_ii = 1 and multiplies the rest by 1.
    assert np.allclose(np.diag(ntk.kernels(PAIR, depth).tangent), depth)


def test_the_closed_forms_are_the_expectations_of_the_definition():
    cov = 0.3  # of u and v, both of variance 1: a pair of inputs of norm 1
    X = jnp.array([[1.0, 0.0], [cov, np.sqrt(1 - cov**2)]])

    def density(u, v):
        form = (u**2 - 2 * cov * u * v + v**2) / (1 - cov**2)
        return np.exp(-form / 2) / (2 * np.pi * np.sqrt(1 - cov**2))

    both, _ = dblquad(lambda u, v: u * v * density(u, v), 0, 9, 0, 9)  # relu cuts at 0
    slopes, _ = dblquad(density, 0, 9, 0, 9)
    found = ntk.kernels(X, 2)
    assert found.output[0, 1] == pytest.approx(2 * both, rel=1e-6)
    assert found.tangent[0, 1] == pytest.approx(2 * cov * slopes + 2 * both, rel=1e-6)


@pytest.mark.parametrize(("depth", "width"), [(2, 40_000), (3, 1_600)])
def test_wide_networks_tend_to_the_tangent_kernel_and_not_to_the_average(depth, width):
    # An entry is a mean over width / 2 units of products with a spread of order 1: six standard
    # errors, a false alarm below 1e-8 an entry; the seed is fixed.
    X = jax.random.normal(jax.random.key(1), (4, 3))
    X = X / jnp.linalg.norm(X, axis=1, keepdims=True)
    net = mlp.paper(width, depth)
    G = net.tangents(net.init(jax.random.key(2), 3), X)
    found = ntk.kernels(X, depth)
    error = 6 * depth / np.sqrt(width / 2)
    assert np.abs(G @ G.T - found.tangent).max() < error
    assert np.abs(G @ G.T - found.average).max() > error


def test_a_document_of_zeros_has_no_kernel_with_any_other():
    X = jnp.array([[0.0, 0.0], [1.0, 2.0]])
    found = ntk.kernels(X, 3)
    assert np.allclose(found.tangent[0], 0)
    assert np.isfinite(found.tangent).all()


def test_kernels_between_two_tables_are_a_block_of_the_whole():
    X = jax.random.normal(jax.random.key(0), (7, 4))
    whole, block = ntk.kernels(X, 3), ntk.kernels(X[:3], 3, X[3:])
    assert np.allclose(whole.tangent[:3, 3:], block.tangent)


def test_the_effective_dimension_is_that_of_documents_and_pairs_written_out():
    H = np.asarray(ntk.kernels(jax.random.normal(jax.random.key(0), (3, 4)), 2).tangent)
    prior = 0.5
    D = np.array([[1, 0, 0, 1, 1, 0], [0, 1, 0, -1, 0, 1], [0, 0, 1, 0, -1, -1]])
    expected = np.log(np.linalg.det(np.eye(6) + D.T @ H @ D / prior)) / np.log(1 + 6 / prior)
    assert ntk.effective_dimension(H, prior) == pytest.approx(expected)


def test_only_pairs_inside_a_query_count_where_queries_are_known():
    H = np.asarray(ntk.kernels(jax.random.normal(jax.random.key(0), (3, 4)), 2).tangent)
    D = np.array([[1, 0, 0, 1], [0, 1, 0, -1], [0, 0, 1, 0]])  # documents 0 and 1 share a query
    expected = np.log(np.linalg.det(np.eye(4) + D.T @ H @ D)) / np.log(1 + 4)
    assert ntk.effective_dimension(H, 1.0, [0, 2, 3]) == pytest.approx(expected)


def test_copies_of_one_document_have_less_than_one_dimension_each():
    copies = np.asarray(ntk.kernels(jnp.ones((20, 3)) / np.sqrt(3), 2).tangent)
    spread = 2 * np.eye(20)
    assert ntk.effective_dimension(copies, 1.0) < 1.1 < ntk.effective_dimension(spread, 1.0)


def test_a_prior_of_zero_is_refused():
    with pytest.raises(ConfigError, match="prior"):
        ntk.effective_dimension(np.eye(2), 0.0)
