"""What a ranker needs of a scoring function, whatever is inside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp

from olrank.types import Array, Factors, Key, PyTree


class Net(NamedTuple):
    """A scoring function f(x; theta) with its tangent features.

    Attributes:
        init: (key, n_features) -> params, theta_0.
        score: (params, features [n, n_features]) -> [n], f(x; theta).
        tangents: (params, features [n, n_features]) -> [n, n_params], g(x; theta) / sqrt(scale),
            flattened layer by layer, each weight matrix row by row.
        factors: (params, features) -> the same tangents as outer products.
        scale: the m that divides g g^T in A_t and multiplies the pull: the width for the paper's
            network, 1 for the others.
    """

    init: Callable[[Key, int], PyTree]
    score: Callable[[PyTree, Array], Array]
    tangents: Callable[[PyTree, Array], Array]
    factors: Callable[[PyTree, Array], Factors]
    scale: float


def product(factors: Factors) -> Array:
    """[n, n_params] the tangents, multiplied out."""
    n = factors[0][0].shape[0]
    parts = [(delta[:, :, None] * inputs[:, None, :]).reshape(n, -1) for delta, inputs in factors]
    return jnp.concatenate(parts, axis=1)
