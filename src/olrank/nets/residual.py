"""A linear part beside a network: f(x) = sqrt(m) beta^T x + f_NN(x; theta).

The network then has to learn only what a line cannot say. sqrt(m) is the paper's own scale: with it
the tangent feature g / sqrt(m) of the linear part is x itself, and a gradient step moves both parts
at comparable speed. beta starts at 0, so that f(x; theta_0) = 0 stays true.
"""

from __future__ import annotations

import math
from functools import cache

import jax.numpy as jnp

from olrank.nets.net import Net
from olrank.types import Array, Factors, Key, PyTree

Params = tuple[Array, PyTree]
"""beta [n_features], and the network's own parameters."""


@cache
def with_linear(net: Net) -> Net:
    """The network with a linear part beside it; its parameters are (beta, the network's)."""
    root = math.sqrt(net.scale)

    def init(key: Key, n_features: int) -> Params:
        return jnp.zeros(n_features, jnp.result_type(float)), net.init(key, n_features)

    def score(params: Params, features: Array) -> Array:
        return root * (features @ params[0]) + net.score(params[1], features)

    def tangents(params: Params, features: Array) -> Array:
        return jnp.concatenate([features, net.tangents(params[1], features)], axis=1)

    def factors(params: Params, features: Array) -> Factors:
        one = jnp.ones((features.shape[0], 1), features.dtype)
        return ((one, features), *net.factors(params[1], features))

    return Net(init, score, tangents, factors, net.scale)
