"""Small cases that several tests of the oracle share."""

from __future__ import annotations

import numpy as np

from .network import Theta
from .order import Certain

A, B, C, D, E, F = range(6)


def certain_graph(n: int, uncertain: set[tuple[int, int]]) -> Certain:
    """Documents 0 > 1 > ... > n-1 with every order certain but these."""
    return np.array([[i < j and (i, j) not in uncertain for j in range(n)] for i in range(n)])


FIGURE_1 = certain_graph(6, {(B, C), (C, D), (E, F)})
"""The document graph of Figure 1: all pairs certain except (B, C), (C, D), (E, F)."""


def random_graph(rng: np.random.Generator, n: int, share: float = 0.5) -> Certain:
    """An acyclic graph that need not be transitive, its documents in random order."""
    upper = np.triu(rng.random((n, n)) < share, 1)
    shuffle = rng.permutation(n)
    return upper[np.ix_(shuffle, shuffle)]


def perturbed(theta: Theta, rng: np.random.Generator, size: float = 0.1) -> Theta:
    """theta with a normal step added to every weight, structural zeros included."""
    return [W + size * rng.normal(size=W.shape) for W in theta]
