"""The whole matrix A_t: its inverse kept by low-rank updates, and made anew before errors add up.

Paper                                   Here           Where
A_t = lambda I + sum g_ij g_ij^T / m    matrix         Lemma 1, Alg. 1 lines 3 and 12
A_t^-1                                  inverse        Lemma 1

The pairs of one impression are added together (Woodbury), so that the inverse is read twice and
written once whatever their number. Every update leaves a rounding error as large as the inverse
was; as the inverse shrinks where pairs were seen, such errors come to matter there. So A_t is kept
beside it, and every _REFRESH updates the inverse is computed from it anew.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from olrank.errors import ConfigError
from olrank.types import Array

_REFRESH = 512  # updates between two exact inversions; an inversion costs as much as some hundred


class FullConfidence(NamedTuple):
    """What is known of A_t, all of it.

    Attributes:
        inverse: [n_params, n_params] of A_t.
        matrix: [n_params, n_params] A_t itself.
        log_det_ratio: log(det A_t / det A_1), tracked along the updates.
        n_updates: int32, impressions that added something.
    """

    inverse: Array
    matrix: Array
    log_det_ratio: Array
    n_updates: Array


def init(n_params: int, prior: Array) -> FullConfidence:
    """A_1 = prior * I; refused where the device cannot hold it."""
    dtype = jnp.result_type(float)
    _check_memory(n_params, dtype.itemsize)
    eye = jnp.eye(n_params, dtype=dtype)
    return FullConfidence(eye / prior, eye * prior, jnp.zeros((), dtype), jnp.zeros((), jnp.int32))


def update(confidence: FullConfidence, pairs: Array, weights: Array) -> FullConfidence:
    """A + sum of weight * g g^T.

    Args:
        confidence: the current A.
        pairs: [n, n_params] tangent differences g.
        weights: [n], 0 for a pair that adds nothing.
    """
    inverse, matrix, log_det_ratio, n_updates = confidence
    G = pairs * jnp.sqrt(weights)[:, None]
    AG = jnp.matmul(inverse, G.T, precision="highest")
    inner = jnp.eye(len(weights), dtype=G.dtype) + jnp.matmul(G, AG, precision="highest")
    factor = jnp.linalg.cholesky((inner + inner.T) / 2)
    half = jax.scipy.linalg.solve_triangular(factor, AG.T, lower=True)
    adds = jnp.any(weights > 0)
    inverse = inverse - jnp.matmul(half.T, half, precision="highest")
    matrix = matrix + jnp.matmul(G.T, G, precision="highest")
    n_updates = n_updates + adds
    inverse = _refreshed(inverse, matrix, adds & (n_updates % _REFRESH == 0))
    gained = 2.0 * jnp.sum(jnp.log(jnp.diag(factor)))
    return FullConfidence(inverse, matrix, log_det_ratio + gained, n_updates)


def squared(confidence: FullConfidence, tangents: Array, mask: Array) -> Array:
    """[n_docs, n_docs] squared norms, from a Gram matrix of centred tangents."""
    inside = mask[:, None]
    total = jnp.sum(jnp.where(inside, tangents, 0.0), axis=0)
    mean = total / jnp.maximum(jnp.sum(mask), 1).astype(tangents.dtype)
    centred = jnp.where(inside, tangents - mean, 0.0)
    half = jnp.matmul(centred, confidence.inverse, precision="highest")
    K = jnp.matmul(half, centred.T, precision="highest")
    return (jnp.diag(K)[:, None] + jnp.diag(K)[None, :]) - (K + K.T)


@custom_vmap
def _refreshed(inverse: Array, matrix: Array, due: Array) -> Array:
    """The inverse, made anew where it is due; any number of leading axes.

    Under a plain `vmap` a condition becomes a choice between two results that are both computed.
    Here the batch is one more leading axis, and nothing is inverted while nobody is due.
    """
    flat = (inverse.reshape(-1, *inverse.shape[-2:]), matrix.reshape(-1, *matrix.shape[-2:]))

    def one(case: tuple[Array, Array, Array]) -> Array:
        old, A, is_due = case
        found: Array = jax.lax.cond(is_due, lambda: _inverse(A), lambda: old)
        return found

    def some() -> Array:
        found: Array = jax.lax.map(one, (*flat, due.reshape(-1)))
        return found.reshape(inverse.shape)

    kept: Array = jax.lax.cond(jnp.any(due), some, lambda: inverse)
    return kept


@_refreshed.def_vmap
def _refreshed_batch(
    axis_size: int, in_batched: list[bool], inverse: Array, matrix: Array, due: Array
) -> tuple[Array, bool]:
    given = [
        value if batched else jnp.broadcast_to(value, (axis_size, *value.shape))
        for value, batched in zip((inverse, matrix, due), in_batched, strict=True)
    ]
    return _refreshed(*given), True


def _inverse(matrix: Array) -> Array:
    factor = jax.scipy.linalg.cho_factor(matrix, lower=True)
    found: Array = jax.scipy.linalg.cho_solve(factor, jnp.eye(len(matrix), dtype=matrix.dtype))
    return (found + found.T) / 2


def _check_memory(n_params: int, itemsize: int) -> None:
    needed = 2 * n_params**2 * itemsize
    device = jax.devices()[0]
    stats = device.memory_stats() or {}
    there = stats.get("bytes_limit") or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > there:
        raise ConfigError(
            f'confidence: "full" keeps two matrices of {n_params:,} x {n_params:,}, which take '
            f"{needed / 1e9:.1f} GB, and {device.device_kind} has {there / 1e9:.1f} GB. "
            'Use confidence = "diagonal", a narrower network, or fewer features.'
        )
