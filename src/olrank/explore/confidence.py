"""Confidence widths of pairwise orders, from the tangent features seen in observed pairs.

Paper                                   Here                  Where
A_t = lambda I + sum g_ij g_ij^T / m    Confidence, update    Lemma 1, Alg. 1 lines 3 and 12
||g_ij / sqrt(m)||_{A_t^-1}             pair_norms            Lemma 1
alpha_t                                 alpha_of_lemma        Lemma 1
eps(m)                                  eps_of_lemma          Lemma 1
CB_ij = alpha_t ||.|| + eps(m)          widths                Def. 1, with the proof's plus

"diagonal" keeps A_t's diagonal only, as the paper's experiments do; "full" keeps the dense inverse
by rank-one updates. Tangents come divided by sqrt(m) already. Norms of differences are taken from
a Gram matrix, K_ii + K_jj - 2 K_ij, after centring the tangents on their mean: differences do not
change, and near-duplicate documents no longer cancel away their digits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from olrank.errors import unknown_name
from olrank.types import Array


class Confidence(NamedTuple):
    """What is known of A_t.

    Attributes:
        A: [n_params] the diagonal of A_t, or [n_params, n_params] the inverse of A_t.
        log_det_ratio: log(det A_t / det A_1), tracked along the updates.
    """

    A: Array
    log_det_ratio: Array


class ConfidenceKind(NamedTuple):
    """One way to keep A_t.

    Attributes:
        init: (n_params, prior) -> Confidence with A_1 = prior * I.
        update: (confidence, pairs [n, n_params], weights [n]) -> A + sum of weight * g g^T.
        gram: (confidence, tangents [n, n_params]) -> [n, n], g_i^T A^-1 g_j.
    """

    init: Callable[[int, Array], Confidence]
    update: Callable[[Confidence, Array, Array], Confidence]
    gram: Callable[[Confidence, Array], Array]


def _init_diagonal(n_params: int, prior: Array) -> Confidence:
    return Confidence(jnp.full(n_params, prior, jnp.result_type(float)), jnp.zeros((), float))


def _update_diagonal(confidence: Confidence, pairs: Array, weights: Array) -> Confidence:
    A = confidence.A + jnp.matmul(weights, pairs**2, precision="highest")
    gained = jnp.sum(jnp.log(A / confidence.A))
    return Confidence(A, confidence.log_det_ratio + gained)


def _gram_diagonal(confidence: Confidence, tangents: Array) -> Array:
    scaled = tangents * jax.lax.rsqrt(confidence.A)
    return jnp.matmul(scaled, scaled.T, precision="highest")


def _init_full(n_params: int, prior: Array) -> Confidence:
    inverse = jnp.eye(n_params, dtype=jnp.result_type(float)) / prior
    return Confidence(inverse, jnp.zeros((), float))


def _update_full(confidence: Confidence, pairs: Array, weights: Array) -> Confidence:
    def add_one(now: Confidence, pair: tuple[Array, Array]) -> tuple[Confidence, None]:
        """Sherman-Morrison, and the matrix determinant lemma; weight 0 changes nothing."""
        g, weight = pair
        Ag = jnp.matmul(now.A, g, precision="highest")
        growth = 1.0 + weight * jnp.dot(g, Ag, precision="highest")
        inverse = now.A - (weight / growth) * jnp.outer(Ag, Ag)
        return Confidence(inverse, now.log_det_ratio + jnp.log(growth)), None

    updated, _ = jax.lax.scan(add_one, confidence, (pairs, weights))
    return updated


def _gram_full(confidence: Confidence, tangents: Array) -> Array:
    half = jnp.matmul(tangents, confidence.A, precision="highest")
    return jnp.matmul(half, tangents.T, precision="highest")


_KINDS = {
    "diagonal": ConfidenceKind(_init_diagonal, _update_diagonal, _gram_diagonal),
    "full": ConfidenceKind(_init_full, _update_full, _gram_full),
}


def kind(name: str) -> ConfidenceKind:
    """The way to keep A_t that is called `name`: "diagonal" or "full"."""
    if name not in _KINDS:
        raise unknown_name("confidence", name, _KINDS)
    return _KINDS[name]


def pair_norms(way: ConfidenceKind, confidence: Confidence, tangents: Array, mask: Array) -> Array:
    """||g_ij / sqrt(m)||_{A^-1} of all pairs of candidates.

    Args:
        way: how A is kept.
        confidence: the current A.
        tangents: [n_docs, n_params] g / sqrt(m) of the candidates.
        mask: [n_docs] False at padding.

    Returns:
        [n_docs, n_docs], symmetric, 0 on the diagonal, never negative.
    """
    inside = mask[:, None]
    # where() and not a product: padding may hold anything, and 0 * inf is NaN.
    total = jnp.sum(jnp.where(inside, tangents, 0.0), axis=0)
    mean = total / jnp.maximum(jnp.sum(mask), 1).astype(tangents.dtype)
    K = way.gram(confidence, jnp.where(inside, tangents - mean, 0.0))
    squared = (jnp.diag(K)[:, None] + jnp.diag(K)[None, :]) - (K + K.T)
    return jnp.sqrt(jnp.maximum(squared, 0.0))


def alpha_of_lemma(
    log_det_ratio: Array, prior: Array, nu: Array, delta: Array, norm_bound: Array, scale: Array
) -> Array:
    """alpha_t of Lemma 1: scale (sqrt(nu^2 log(det A_t / (delta^2 det A_1))) + sqrt(prior) S)."""
    noise = nu * jnp.sqrt(log_det_ratio - 2.0 * jnp.log(delta))
    return scale * (noise + jnp.sqrt(prior) * norm_bound)


def eps_of_lemma(
    horizon: Array, width: float, depth: int, prior: Array, rate: Array, steps: int, scale: Array
) -> Array:
    """eps(m) of Lemma 1, times `scale` (its C_3): how far the network is from its linearisation."""
    T, m, L = horizon, width, depth
    first = T ** (2 / 3) * m ** (-1 / 6) * prior ** (-2 / 3) * L**3 * jnp.sqrt(jnp.log(m))
    shrink = jnp.maximum(1.0 - rate * m * prior, 0.0) ** (steps / 2)
    second = L**0.5 * shrink * jnp.sqrt(T / prior)
    third = T ** (5 / 3) * m ** (-1 / 6) * prior ** (-5 / 3) * L**4 * (1.0 + jnp.sqrt(T / prior))
    total: Array = scale * (first + second + third)
    return total


def widths(norms: Array, alpha: Array, eps: Array) -> Array:
    """CB_ij of Definition 1, never negative, so that the certain orders have no cycle."""
    return jnp.maximum(alpha * norms + eps, 0.0)
