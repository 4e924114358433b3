"""The whole matrix A_t: its inverse kept by low-rank updates, and made anew before errors add up.

Paper                                   Here           Where
A_t = lambda I + sum g_ij g_ij^T / m    matrix         Lemma 1, Alg. 1 lines 3 and 12
A_t^-1                                  inverse        Lemma 1

The pairs of one impression are added together (Woodbury), so that the inverse is read twice and
written once whatever their number. Every update leaves a rounding error as large as the inverse
was; as the inverse shrinks where pairs were seen, such errors come to matter there. So the pairs
are kept until there are _RECENT of them, then added to A_t in one product, and the inverse is
computed from A_t anew.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from olrank.errors import ConfigError
from olrank.types import Array

# Pairs between two exact inversions. An inversion costs as much as some hundred updates; after so
# many pairs widths are off by 1e-5 of themselves at most (tried at WEB10K's shape, m = 12).
_RECENT = 2048


class FullConfidence(NamedTuple):
    """What is known of A_t, all of it.

    Attributes:
        inverse: [n_params, n_params] of A_t.
        matrix: [n_params, n_params] A_t without the recent pairs.
        recent: [_RECENT, n_params] pairs not yet in `matrix`, times the root of their weight.
        n_recent: int32, how many.
        log_det_ratio: log(det A_t / det A_1), tracked along the updates.
    """

    inverse: Array
    matrix: Array
    recent: Array
    n_recent: Array
    log_det_ratio: Array


def init(n_params: int, prior: Array) -> FullConfidence:
    """A_1 = prior * I; refused where the device cannot hold it."""
    dtype = jnp.result_type(float)
    _check_memory(n_params, dtype.itemsize)
    eye = jnp.eye(n_params, dtype=dtype)
    return FullConfidence(
        inverse=eye / prior,
        matrix=eye * prior,
        recent=jnp.zeros((_RECENT, n_params), dtype),
        n_recent=jnp.zeros((), jnp.int32),
        log_det_ratio=jnp.zeros((), dtype),
    )


def update(confidence: FullConfidence, pairs: Array, weights: Array) -> FullConfidence:
    """A + sum of weight * g g^T.

    Args:
        confidence: the current A.
        pairs: [n, n_params] tangent differences g.
        weights: [n], 0 for a pair that adds nothing.
    """
    most = _RECENT // 4
    for first in range(0, len(weights), most):
        part = slice(first, first + most)
        confidence = _add(confidence, pairs[part], weights[part])
    return confidence


def _add(confidence: FullConfidence, pairs: Array, weights: Array) -> FullConfidence:
    inverse, matrix, recent, n_recent, log_det_ratio = confidence
    G = pairs * jnp.sqrt(weights)[:, None]
    AG = jnp.matmul(inverse, G.T, precision="highest")
    inner = jnp.eye(len(weights), dtype=G.dtype) + jnp.matmul(G, AG, precision="highest")
    factor = jnp.linalg.cholesky((inner + inner.T) / 2)
    half = jax.scipy.linalg.solve_triangular(factor, AG.T, lower=True)
    # A product that is added to: one pass over the inverse, without a matrix in between.
    inverse = jnp.matmul(-half.T, half, precision="highest") + inverse
    adds = weights > 0
    # An index past the end drops the write.
    at = jnp.where(adds, n_recent + jnp.cumsum(adds) - 1, _RECENT)
    recent = recent.at[at].set(G, mode="drop")
    n_recent = n_recent + jnp.sum(adds, dtype=jnp.int32)
    due = n_recent > _RECENT - len(weights)
    inverse, matrix = _refreshed(inverse, matrix, recent, n_recent, due)
    gained = 2.0 * jnp.sum(jnp.log(jnp.diag(factor)))
    return FullConfidence(
        inverse, matrix, recent, jnp.where(due, 0, n_recent), log_det_ratio + gained
    )


def squared(confidence: FullConfidence, tangents: Array, mask: Array) -> Array:
    """[n_docs, n_docs] squared norms, from a Gram matrix of centred tangents.

    Differences K_ii + K_jj - 2 K_ij do not change by centring, and near-duplicates no longer cancel
    away their digits.
    """
    inside = mask[:, None]
    total = jnp.sum(jnp.where(inside, tangents, 0.0), axis=0)
    mean = total / jnp.maximum(jnp.sum(mask), 1).astype(tangents.dtype)
    centred = jnp.where(inside, tangents - mean, 0.0)
    half = jnp.matmul(centred, confidence.inverse, precision="highest")
    K = jnp.matmul(half, centred.T, precision="highest")
    return (jnp.diag(K)[:, None] + jnp.diag(K)[None, :]) - (K + K.T)


@custom_vmap
def _refreshed(
    inverse: Array, matrix: Array, recent: Array, n_recent: Array, due: Array
) -> tuple[Array, Array]:
    """(inverse, matrix), made anew where that is due; any number of leading axes.

    Under a plain `vmap` a condition becomes a choice between two results that are both computed.
    Here the batch is one more leading axis, and a loop visits those who are due: nobody, mostly. It
    is a loop and not a condition because a loop leaves its matrices where they are, and a condition
    copies them.
    """
    n_leading = due.ndim
    flat = [
        leaf.reshape(-1, *leaf.shape[n_leading:]) for leaf in (inverse, matrix, recent, n_recent)
    ]
    pairs, n_pairs = flat[2:]
    whose = jnp.argsort(~due.reshape(-1))

    def one(i: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        inverses, matrices = now
        r = whose[i]
        kept = jnp.where(jnp.arange(_RECENT)[:, None] < n_pairs[r], pairs[r], 0.0)
        A = matrices[r] + jnp.matmul(kept.T, kept, precision="highest")
        return inverses.at[r].set(_inverse(A)), matrices.at[r].set(A)

    new = jax.lax.fori_loop(0, jnp.sum(due), one, (flat[0], flat[1]))
    return new[0].reshape(inverse.shape), new[1].reshape(matrix.shape)


@_refreshed.def_vmap
def _refreshed_batch(
    axis_size: int, in_batched: list[bool], *given: Array
) -> tuple[tuple[Array, Array], tuple[bool, bool]]:
    stacked = [
        value if batched else jnp.broadcast_to(value, (axis_size, *value.shape))
        for value, batched in zip(given, in_batched, strict=True)
    ]
    return _refreshed(*stacked), (True, True)


def _inverse(matrix: Array) -> Array:
    factor = jax.scipy.linalg.cho_factor(matrix, lower=True)
    found: Array = jax.scipy.linalg.cho_solve(factor, jnp.eye(len(matrix), dtype=matrix.dtype))
    return (found + found.T) / 2


def _check_memory(n_params: int, itemsize: int) -> None:
    needed = (2 * n_params**2 + _RECENT * n_params) * itemsize
    device = jax.devices()[0]
    stats = device.memory_stats() or {}
    there = stats.get("bytes_limit") or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > there:
        raise ConfigError(
            f'confidence: "full" keeps two matrices of {n_params:,} x {n_params:,}, which take '
            f"{needed / 1e9:.1f} GB, and {device.device_kind} has {there / 1e9:.1f} GB. "
            'Use confidence = "diagonal", a narrower network, or fewer features.'
        )
