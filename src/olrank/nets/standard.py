"""Features as they differ between documents: less their mean, in units of their spread.

What all documents have in common tells none apart, but is most of the length of features that lie
between 0 and 1: a network then has to unlearn its answer to the mean with every step, and what
tells documents apart is learned slowly or, with longer steps, not at all. Means and spreads are
those of the documents shown so far, the latest some thousands of them.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from olrank.types import Array

_REMEMBERED = 20_000.0  # documents: later ones count as if there had been so many before
_FARTHEST = 4.0  # spreads from the mean: a value that hardly ever differs would be very far away


class Moments(NamedTuple):
    """How many documents, and the mean and the variance of each feature [n_features]."""

    n: Array
    mean: Array
    variance: Array


def none(n_features: int) -> Moments:
    """Of no documents."""
    dtype = jnp.result_type(float)
    # One array each: donated buffers must not alias.
    return Moments(jnp.zeros((), dtype), jnp.zeros(n_features, dtype), jnp.zeros(n_features, dtype))


def after(moments: Moments, features: Array, counted: Array) -> Moments:
    """With some documents more.

    Args:
        moments: before.
        features: [k, n_features].
        counted: [k] bool.
    """
    more = jnp.sum(counted).astype(moments.n.dtype)
    n = jnp.minimum(moments.n + more, _REMEMBERED)
    share = jnp.where(more > 0, more / jnp.maximum(n, 1.0), 0.0)
    weights = counted / jnp.maximum(more, 1.0)
    mean = weights @ features
    variance = weights @ (features - mean) ** 2
    apart = mean - moments.mean
    return Moments(
        n,
        moments.mean + share * apart,
        moments.variance + share * (variance - moments.variance + (1.0 - share) * apart**2),
    )


def standardised(moments: Moments, features: Array) -> Array:
    """[n, n_features] of features [n, n_features]; 0 for those that never differed."""
    differs = moments.variance > 0
    spread = jnp.sqrt(jnp.where(differs, moments.variance, 1.0))
    values = jnp.where(differs, (features - moments.mean) / spread, 0.0)
    return jnp.clip(values, -_FARTHEST, _FARTHEST)
