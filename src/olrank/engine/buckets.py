"""Padded sizes for queries: few, so that little is compiled, and where they save the most work."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from olrank.types import Dataset

_STEP = 16  # sizes are multiples of it: vector units are filled, and there are few to choose from
_MOST = 6  # sizes, unless asked otherwise
_POWER = 2.0  # ranking works on pairs of candidates


def shared_sizes(parts: Iterable[Dataset], n_buckets: int = _MOST) -> tuple[int, ...]:
    """Sizes for several sets, like the train parts of all folds: one compiled step serves them."""
    return bucket_sizes(np.concatenate([part.sizes for part in parts]), n_buckets)


def bucket_sizes(sizes: npt.ArrayLike, n_buckets: int = _MOST) -> tuple[int, ...]:
    """Sizes to pad queries to, at the least expected work.

    Args:
        sizes: [n_queries] documents of each query.
        n_buckets: at most this many; each is compiled.

    Returns:
        Ascending; the last holds the largest query.
    """
    needed = -(-np.asarray(sizes, np.int64) // _STEP) * _STEP
    levels, counts = np.unique(needed, return_counts=True)
    work = levels.astype(float) ** _POWER
    below = np.concatenate([[0], np.cumsum(counts)])
    n = len(levels)
    # best[b, j]: least work of the first j levels in at most b buckets, the last one levels[j-1].
    best = np.full((n_buckets + 1, n + 1), np.inf)
    cut = np.zeros((n_buckets + 1, n + 1), int)
    best[:, 0] = 0.0
    for b in range(1, n_buckets + 1):
        for j in range(1, n + 1):
            options = best[b - 1, :j] + (below[j] - below[:j]) * work[j - 1]
            cut[b, j] = int(np.argmin(options))
            best[b, j] = options[cut[b, j]]
    chosen, j = [], n
    for b in range(n_buckets, 0, -1):
        if j == 0:
            break
        chosen.append(int(levels[j - 1]))
        j = cut[b, j]
    return tuple(sorted(chosen))
