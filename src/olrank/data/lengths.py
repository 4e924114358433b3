"""Lengths of made-up lists: most are short, a few are very long."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

_MIN_QUERIES_FOR_MAX = 20  # fewer lists need not contain the longest one


def list_lengths(
    rng: np.random.Generator, queries: int, mean_docs: float, max_docs: int, tail: float
) -> Ints:
    """Lengths of lists: log-normal, clipped, then moved until mean and maximum are as asked.

    Args:
        rng: for the draws.
        queries: how many lists.
        mean_docs: their mean length.
        max_docs: the length of the longest, which sets of few queries need not reach.
        tail: standard deviation of the log of a length.

    Returns:
        [queries] from 1 to max_docs.
    """
    deviates = rng.standard_normal(queries)
    total = round(mean_docs * queries)
    longest = int(np.argmax(deviates))
    force = queries >= _MIN_QUERIES_FOR_MAX

    def lengths(log_scale: float) -> Ints:
        drawn = np.exp(np.minimum(log_scale + tail * deviates, np.log(max_docs)))
        drawn = np.maximum(np.rint(drawn), 1).astype(np.int64)
        drawn[longest] = max_docs if force else drawn[longest]
        return drawn

    low, high = -10.0, 10.0 + np.log(max_docs)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if lengths(middle).sum() < total else (low, middle)
    return _with_total(rng, lengths(high), total, max_docs, longest if force else -1)


def _with_total(
    rng: np.random.Generator, lengths: Ints, total: int, max_docs: int, fixed: int
) -> Ints:
    """The lengths after adding or taking single documents until they sum to the total."""
    while (missing := total - int(lengths.sum())) != 0:
        step = 1 if missing > 0 else -1
        free = np.flatnonzero(lengths < max_docs) if step > 0 else np.flatnonzero(lengths > 1)
        free = free[free != fixed]
        if not len(free):
            break
        lengths[rng.permutation(free)[: abs(missing)]] += step
    return lengths
