"""Random acyclic graphs of certain orders, with padding, for hypothesis."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays


class Case(NamedTuple):
    """Documents of a certain graph spread among padding.

    Attributes:
        certain: [n, n] bool, acyclic, of the documents alone.
        scores: [n] float, that agree with it: a certain pair's first scores higher.
        at: [n] where the documents stand, rising.
        padded: [size, size] bool, the graph with padding that claims certain orders everywhere.
        padded_scores: [size] float; padding scores higher than anybody.
        mask: [size] bool.
    """

    certain: np.ndarray
    scores: np.ndarray
    at: np.ndarray
    padded: np.ndarray
    padded_scores: np.ndarray
    mask: np.ndarray


def spread(certain: np.ndarray, scores: np.ndarray, at: np.ndarray, size: int) -> Case:
    """The case with these documents at these places of arrays of this size."""
    padded, padded_scores, mask = (
        np.ones((size, size), bool),
        np.full(size, 1e6),
        np.zeros(size, bool),
    )
    padded[np.ix_(at, at)] = certain
    padded_scores[at] = scores
    mask[at] = True
    return Case(certain, scores, at, padded, padded_scores, mask)


def whole(certain: np.ndarray) -> Case:
    """A case without padding; the scores follow the graph."""
    n = certain.shape[0]
    return spread(certain, _scores_that_agree(certain), np.arange(n), n)


@st.composite
def cases(draw: st.DrawFn, size: int, smallest: int = 1) -> Case:
    """Random cases of `smallest` to `size` documents in arrays of `size`."""
    at = np.array(sorted(draw(st.sets(st.integers(0, size - 1), min_size=smallest))))
    n = at.size
    upper = np.triu(draw(arrays(bool, (n, n))), 1)
    shuffle = draw(st.permutations(range(n)))
    certain = upper[np.ix_(shuffle, shuffle)]
    return spread(certain, _scores_that_agree(certain), at, size)


def _scores_that_agree(certain: np.ndarray) -> np.ndarray:
    """[n] minus each document's place in one topological order."""
    n = certain.shape[0]
    left, scores = set(range(n)), np.zeros(n)
    for place in range(n):
        best = min(j for j in left if not any(certain[i, j] for i in left))
        left.remove(best)
        scores[best] = -float(place)
    return scores
