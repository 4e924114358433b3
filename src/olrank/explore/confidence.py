"""Confidence widths of pairwise orders, from the tangent features seen in observed pairs.

Paper                                   Here                  Where
A_t = lambda I + sum g_ij g_ij^T / m    Confidence, update    Lemma 1, Alg. 1 lines 3 and 12
||g_ij / sqrt(m)||_{A_t^-1}             pair_norms            Lemma 1
alpha_t                                 alpha_of_lemma        Lemma 1
eps(m)                                  eps_of_lemma          Lemma 1
CB_ij = alpha_t ||.|| + eps(m)          widths                Def. 1, with the proof's plus

"diagonal" keeps A_t's diagonal only, as the paper's experiments do; "full" keeps the dense inverse
by rank-one updates. Tangents come divided by sqrt(m) already, multiplied out or, for the diagonal,
as outer products, which are then multiplied a block at a time and never held whole. Norms of
differences are taken from a Gram matrix, K_ii + K_jj - 2 K_ij, after centring the tangents on their
mean: differences do not change, and near-duplicate documents no longer cancel away their digits.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from olrank.errors import unknown_name
from olrank.types import Array, Factors

_CACHE_FLOATS = 1 << 18  # 1 MB: half of a core's second-level cache, or less
_PIECE = 4096  # parameters of a piece of a product on an accelerator
_FEW_DOCS = 256  # beyond these a product fills an accelerator by itself


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
        gram: (confidence, tangents, mask [n]) -> [n, n], g_i^T A^-1 g_j of centred tangents.
        factored: gram takes tangents as outer products, too.
    """

    init: Callable[[int, Array], Confidence]
    update: Callable[[Confidence, Array, Array], Confidence]
    gram: Callable[[Confidence, Any, Array], Array]
    factored: bool


def _init_diagonal(n_params: int, prior: Array) -> Confidence:
    return Confidence(jnp.full(n_params, prior, jnp.result_type(float)), jnp.zeros((), float))


def _update_diagonal(confidence: Confidence, pairs: Array, weights: Array) -> Confidence:
    A = confidence.A + jnp.matmul(weights, pairs**2, precision="highest")
    gained = jnp.sum(jnp.log(A / confidence.A))
    return Confidence(A, confidence.log_det_ratio + gained)


def _gram_diagonal(confidence: Confidence, tangents: Array | Factors, mask: Array) -> Array:
    n_docs = mask.shape[0]
    factors = tangents
    if not isinstance(factors, tuple):
        factors = ((jnp.ones((n_docs, 1), factors.dtype), factors),)
    total = jnp.zeros((n_docs, n_docs), factors[0][1].dtype)
    for (delta, inputs), A in zip(factors, layers(confidence.A, factors), strict=True):
        total = total + _gram_layer(delta, inputs, A, mask)
    return total


def layers(A: Array, factors: Factors) -> list[Array]:
    """The diagonal of A_t as one [out, in] matrix for each weight matrix."""
    shapes = [(delta.shape[1], inputs.shape[1]) for delta, inputs in factors]
    ends = list(itertools.accumulate(out * width for out, width in shapes))
    starts = [0, *ends[:-1]]
    return [A[a:b].reshape(shape) for a, b, shape in zip(starts, ends, shapes, strict=True)]


def mean_product(delta: Array, inputs: Array, mask: Array) -> Array:
    """[out, in] mean over the candidates of delta x input, without forming any of them."""
    inside = mask[:, None]
    n = jnp.maximum(jnp.sum(mask), 1).astype(inputs.dtype)
    # where() and not a product: padding may hold anything, and 0 * inf is NaN.
    clean = jnp.where(inside, inputs, 0.0)
    return jnp.matmul(jnp.where(inside, delta, 0.0).T, clean, precision="highest") / n


def _gram_layer(delta: Array, inputs: Array, A: Array, mask: Array) -> Array:
    """One weight matrix's part of the Gram matrix, a block of its rows at a time."""
    n_docs, (n_out, n_in) = mask.shape[0], A.shape
    mean = mean_product(delta, inputs, mask)
    inside = mask[:, None, None]

    def block(delta: Array, mean: Array, A: Array) -> Array:
        centred = delta[:, :, None] * inputs[:, None, :] - mean
        scaled = jnp.where(inside, centred * jax.lax.rsqrt(A), 0.0).reshape(n_docs, -1)
        return jnp.matmul(scaled, scaled.T, precision=_precision(inputs.dtype))

    n_blocks = n_out // _block_rows(n_docs, n_out, n_in)
    if n_blocks == 1:
        return block(delta, mean, A)
    parts = (
        jnp.moveaxis(delta.reshape(n_docs, n_blocks, -1), 1, 0),
        mean.reshape(n_blocks, -1, n_in),
        A.reshape(n_blocks, -1, n_in),
    )
    if jax.default_backend() != "cpu":
        return jnp.sum(jax.vmap(block)(*parts), axis=0)

    def add(total: Array, part: tuple[Array, Array, Array]) -> tuple[Array, None]:
        return total + block(*part), None

    total, _ = jax.lax.scan(add, jnp.zeros((n_docs, n_docs), inputs.dtype), parts)
    return total


def _block_rows(n_docs: int, n_out: int, n_in: int) -> int:
    """Rows of a weight matrix to take at once.

    On a processor as many as stay in its cache. On an accelerator a product of few documents by
    many parameters has too few tiles to fill it, so it is cut into pieces that run side by side.
    """
    if jax.default_backend() == "cpu":
        fits = _CACHE_FLOATS // (n_docs * n_in)
    else:
        fits = _PIECE // n_in if n_docs <= _FEW_DOCS else n_out
    return max(size for size in range(1, n_out + 1) if n_out % size == 0 and size <= max(fits, 1))


def _precision(dtype: Any) -> Any:
    """Full float32; on a GPU by three passes of its matrix units, within 1e-6 of it and faster."""
    if jax.default_backend() == "gpu" and dtype == jnp.float32:
        return jax.lax.DotAlgorithmPreset.TF32_TF32_F32_X3
    return "highest"


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


def _gram_full(confidence: Confidence, tangents: Array, mask: Array) -> Array:
    inside = mask[:, None]
    total = jnp.sum(jnp.where(inside, tangents, 0.0), axis=0)
    mean = total / jnp.maximum(jnp.sum(mask), 1).astype(tangents.dtype)
    centred = jnp.where(inside, tangents - mean, 0.0)
    half = jnp.matmul(centred, confidence.A, precision="highest")
    return jnp.matmul(half, centred.T, precision="highest")


_KINDS = {
    "diagonal": ConfidenceKind(_init_diagonal, _update_diagonal, _gram_diagonal, factored=True),
    "full": ConfidenceKind(_init_full, _update_full, _gram_full, factored=False),
}


def kind(name: str) -> ConfidenceKind:
    """The way to keep A_t that is called `name`: "diagonal" or "full"."""
    if name not in _KINDS:
        raise unknown_name("confidence", name, _KINDS)
    return _KINDS[name]


def pair_norms(
    way: ConfidenceKind, confidence: Confidence, tangents: Array | Factors, mask: Array
) -> Array:
    """||g_ij / sqrt(m)||_{A^-1} of all pairs of candidates.

    Args:
        way: how A is kept.
        confidence: the current A.
        tangents: [n_docs, n_params] g / sqrt(m) of the candidates; outer products where the way
            takes them.
        mask: [n_docs] False at padding.

    Returns:
        [n_docs, n_docs], symmetric, 0 on the diagonal, never negative.
    """
    K = way.gram(confidence, tangents, mask)
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
