"""A linear scoring function, f(x; theta) = theta^T x, whose tangent feature is x itself."""

from __future__ import annotations

from functools import cache

import jax.numpy as jnp

from olrank.nets.net import Net
from olrank.types import Array, Factors, Key


@cache
def linear() -> Net:
    """The linear net: starts at zero, tangents are the features."""

    def init(key: Key, n_features: int) -> Array:
        return jnp.zeros(n_features, jnp.result_type(float))

    def score(params: Array, features: Array) -> Array:
        return features @ params

    def tangents(params: Array, features: Array) -> Array:
        return features

    def factors(params: Array, features: Array) -> Factors:
        return ((jnp.ones((features.shape[0], 1), features.dtype), features),)

    return Net(init, score, tangents, factors, scale=1.0)
