"""What a ranker needs of a scoring function, whatever is inside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from olrank.types import Array, Key, PyTree


class Net(NamedTuple):
    """A scoring function f(x; theta) with its tangent features.

    Attributes:
        init: (key, n_features) -> params, theta_0.
        score: (params, features [n, n_features]) -> [n], f(x; theta).
        tangents: (params, features [n, n_features]) -> [n, n_params], g(x; theta) / sqrt(scale),
            flattened layer by layer, each weight matrix row by row.
        scale: the m that divides g g^T in A_t and multiplies the pull: the width for the paper's
            network, 1 for the others.
    """

    init: Callable[[Key, int], PyTree]
    score: Callable[[PyTree, Array], Array]
    tangents: Callable[[PyTree, Array], Array]
    scale: float
