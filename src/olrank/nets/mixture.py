"""Networks beside the one that serves: f(x) = f_0(x; theta) + sum_e w_e f_e(x; theta_e).

Tangents are those of f_0 alone: what is uncertain is judged by one network, whichever are trusted.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from olrank.nets import standard
from olrank.nets.net import Net
from olrank.types import Array, Factors, Key, PyTree


class Others(NamedTuple):
    """Parameters of n networks, stacked, and their weights [n].

    `moments` are those of the features that they see standardised (nets.standard); () where they
    see them as they are.
    """

    thetas: PyTree
    weights: Array
    moments: Any = ()


Params = tuple[PyTree, Others]
"""Of the network that others stand beside, and of these."""


def seen_as(moments: Any, features: Array) -> Array:
    """Features as the others see them."""
    return features if moments == () else standard.standardised(moments, features)


@cache
def beside(net: Net, other: Net, n: int, standardise: bool = False) -> Net:
    """The network with n others beside it, which have no weight at first."""

    def init(key: Key, n_features: int) -> Params:
        keys = jax.random.split(jax.random.fold_in(key, 1), n)
        thetas = jax.vmap(lambda one: other.init(one, n_features))(keys)
        moments = standard.none(n_features) if standardise else ()
        weights = jnp.zeros(n, jnp.result_type(float))
        return net.init(key, n_features), Others(thetas, weights, moments)

    def score(params: Params, features: Array) -> Array:
        first, others = params
        found = jax.vmap(other.score, (0, None))(others.thetas, seen_as(others.moments, features))
        return net.score(first, features) + others.weights @ found

    def tangents(params: Params, features: Array) -> Array:
        return net.tangents(params[0], features)

    def factors(params: Params, features: Array) -> Factors:
        return net.factors(params[0], features)

    return Net(init, score, tangents, factors, net.scale)
