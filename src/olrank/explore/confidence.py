"""Confidence widths of pairwise orders, from the tangent features seen in observed pairs.

Paper                                   Here                  Where
A_t = lambda I + sum g_ij g_ij^T / m    Confidence, update    Lemma 1, Alg. 1 lines 3 and 12
||g_ij / sqrt(m)||_{A_t^-1}             pair_norms            Lemma 1
alpha_t                                 alpha_of_lemma        Lemma 1
eps(m)                                  eps_of_lemma          Lemma 1
CB_ij = alpha_t ||.|| + eps(m)          widths                Def. 1, with the proof's plus

"diagonal" keeps A_t's diagonal only, as the paper's experiments do; "full" keeps all of it (see
explore.full). Tangents come divided by sqrt(m) already.

For the diagonal they come as outer products, delta_i x x_i for each weight matrix, and are never
multiplied out. With B = 1 / A and E_i = B x_i^2 (squares by entry), the squared norm of a pair is

    sum over outputs o of   delta_io delta_jo  sum_d B_od (x_id - x_jd)^2
                          + (delta_io - delta_jo) (delta_io E_io - delta_jo E_jo),

which takes half the work of a Gram matrix of the tangents, shares (x_i - x_j)^2 among all replicas
that rank the same query, and keeps its digits for near-duplicate documents, because differences are
taken before anything is squared.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from olrank.errors import unknown_name
from olrank.explore import full
from olrank.types import Array, Factors

_CACHE_FLOATS = 1 << 15  # 128 KB: what is made of them, too, stays in a core's second-level cache
_GPU_PAIRS = 1 << 14  # pairs at a time on an accelerator: enough to fill it, and memory stays small
_TF32_BITS = 10  # of a mantissa, in the operands of a GPU's matrix units


class Confidence(NamedTuple):
    """What is known of A_t when only its diagonal is kept.

    Attributes:
        A: [n_params] the diagonal of A_t.
        log_det_ratio: log(det A_t / det A_1), tracked along the updates.
    """

    A: Array
    log_det_ratio: Array


class ConfidenceKind(NamedTuple):
    """One way to keep A_t.

    Attributes:
        init: (n_params, prior) -> confidence with A_1 = prior * I.
        update: (confidence, pairs [n, n_params], weights [n]) -> A + sum of weight * g g^T.
        squared: (confidence, tangents, mask [n]) -> [n, n] squared norms of all pairs.
        factored: tangents may come as outer products.
    """

    init: Callable[[int, Array], Any]
    update: Callable[[Any, Array, Array], Any]
    squared: Callable[[Any, Any, Array], Array]
    factored: bool


def _init_diagonal(n_params: int, prior: Array) -> Confidence:
    return Confidence(jnp.full(n_params, prior, jnp.result_type(float)), jnp.zeros((), float))


def _update_diagonal(confidence: Confidence, pairs: Array, weights: Array) -> Confidence:
    A = confidence.A + jnp.matmul(weights, pairs**2, precision="highest")
    gained = jnp.sum(jnp.log(A / confidence.A))
    return Confidence(A, confidence.log_det_ratio + gained)


def _squared_diagonal(confidence: Confidence, tangents: Array | Factors, mask: Array) -> Array:
    """[n_docs, n_docs], every pair once and then mirrored; 0 at padding, whatever it holds."""
    n_docs = mask.shape[0]
    factors = tangents
    if not isinstance(factors, tuple):
        factors = ((jnp.ones((n_docs, 1), factors.dtype), factors),)
    square = _by_shifts(_pair_function(confidence.A, factors), factors, n_docs)
    return jnp.where(mask[:, None] & mask[None, :], square, 0.0)


_Part = tuple[Array, Array, Array]
"""What a pair's norm needs of a document, for each weight matrix: delta, inputs, delta * E."""


def _pair_function(A: Array, factors: Factors) -> tuple[list[_Part], Any]:
    """What is needed of each document, and the squared norm of two documents from it."""
    parts, inverses = [], []
    for (delta, inputs), layer in zip(factors, layers(A, factors), strict=True):
        B = 1.0 / layer
        E = jnp.matmul(inputs**2, B.T, precision="highest")
        parts.append((delta, inputs, delta * E))
        inverses.append(B.T)

    def squared(one: list[_Part], other: list[_Part]) -> Array:
        total: Array = jnp.zeros((), A.dtype)
        for (d_i, x_i, F_i), (d_j, x_j, F_j), B in zip(one, other, inverses, strict=True):
            D = _product((x_i - x_j) ** 2, B)
            total = total + jnp.sum(d_i * d_j * D + (d_i - d_j) * (F_i - F_j), axis=-1)
        return jnp.maximum(total, 0.0)

    return parts, squared


def _by_shifts(given: tuple[list[_Part], Any], factors: Factors, n_docs: int) -> Array:
    """[n_docs, n_docs] of a symmetric function of pairs.

    Document i meets i + s, counted around, for the shifts s = 1, 2, ... up to half of them all: so
    every pair is met once (twice at exactly half), and each shift reads the documents as one
    slice, where a list of pairs would gather them row by row.
    """
    parts, squared = given
    n_shifts = n_docs // 2
    if n_shifts == 0:
        return jnp.zeros((n_docs, n_docs), factors[0][1].dtype)
    around = jax.tree.map(lambda leaf: jnp.concatenate([leaf, leaf]), parts)

    def some(shifts: Array) -> Array:
        def turned(leaf: Array) -> Array:
            return jax.vmap(lambda s: jax.lax.dynamic_slice_in_dim(leaf, s, n_docs))(shifts)

        found: Array = squared(parts, jax.tree.map(turned, around))
        return found

    at_once = _shifts_at_once(n_docs, factors)
    n_chunks = -(-n_shifts // at_once)
    at_once = -(-n_shifts // n_chunks)
    shifts = np.minimum(1 + np.arange(n_chunks * at_once), n_shifts).reshape(n_chunks, at_once)
    if n_chunks == 1:
        found = some(jnp.asarray(shifts[0]))
    else:
        found = jax.lax.map(some, jnp.asarray(shifts))
    flat = found.reshape(-1)
    return jnp.append(flat, jnp.zeros(1, flat.dtype))[_places(n_docs, flat.shape[0])]


def _places(n_docs: int, n_found: int) -> npt.NDArray[np.int32]:
    """[n_docs, n_docs] where each pair stands among the shifts; the diagonal points at a zero."""
    i, j = np.indices((n_docs, n_docs))
    ahead, behind = (j - i) % n_docs, (i - j) % n_docs
    place = np.where(ahead <= behind, (ahead - 1) * n_docs + i, (behind - 1) * n_docs + j)
    return np.where(i == j, n_found, place).astype(np.int32)


def _shifts_at_once(n_docs: int, factors: Factors) -> int:
    """As many as stay in a processor's cache, or fill an accelerator."""
    if jax.default_backend() == "cpu":
        widest = max(max(delta.shape[1], inputs.shape[1]) for delta, inputs in factors)
        return max(1, _CACHE_FLOATS // (n_docs * widest))
    return max(1, _GPU_PAIRS // n_docs)


def _product(squares: Array, B: Array) -> Array:
    """The product of squares and B, in full precision; on a GPU by its matrix units.

    Both operands are rounded to the nearest number that a matrix unit can take; left to itself it
    would cut digits off, which makes every width too small. All terms are positive, so the error
    stays relative to the result: 1e-4 at most, also for near-duplicates.
    """
    if jax.default_backend() != "gpu" or squares.dtype != jnp.float32:
        return jnp.matmul(squares, B, precision="highest")
    short = [jax.lax.reduce_precision(x, 8, _TF32_BITS) for x in (squares, B)]
    return jnp.matmul(*short, precision="default")


def layers(A: Array, factors: Factors) -> list[Array]:
    """The diagonal of A_t as one [out, in] matrix for each weight matrix."""
    shapes = [(delta.shape[1], inputs.shape[1]) for delta, inputs in factors]
    ends = list(itertools.accumulate(out * width for out, width in shapes))
    starts = [0, *ends[:-1]]
    return [A[a:b].reshape(shape) for a, b, shape in zip(starts, ends, shapes, strict=True)]


_KINDS = {
    "diagonal": ConfidenceKind(_init_diagonal, _update_diagonal, _squared_diagonal, factored=True),
    "full": ConfidenceKind(full.init, full.update, full.squared, factored=False),
}


def kind(name: str) -> ConfidenceKind:
    """The way to keep A_t that is called `name`: "diagonal" or "full"."""
    if name not in _KINDS:
        raise unknown_name("confidence", name, _KINDS)
    return _KINDS[name]


def pair_norms(
    way: ConfidenceKind, confidence: Any, tangents: Array | Factors, mask: Array
) -> Array:
    """||g_ij / sqrt(m)||_{A^-1} of all pairs of candidates.

    Args:
        way: how A is kept.
        confidence: the current A.
        tangents: [n_docs, n_params] g / sqrt(m) of the candidates; for the diagonal also as outer
            products.
        mask: [n_docs] False at padding.

    Returns:
        [n_docs, n_docs], symmetric, 0 on the diagonal, never negative.
    """
    return jnp.sqrt(jnp.maximum(way.squared(confidence, tangents, mask), 0.0))


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
