"""What is measured, by brute force: Eq. (regret), NDCG and the ratio of certain orders.

grades [n] are those of all candidates; shown lists the k documents presented.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from .order import Certain, Ranked


def dcg(grades: Sequence[int], k: int) -> float:
    """Grades from the top down: sum to rank k of (2^g - 1) / log2(1 + rank)."""
    top = list(grades)[:k]
    return float(sum((2.0**g - 1.0) / np.log2(1.0 + rank) for rank, g in enumerate(top, start=1)))


def ndcg(grades: Sequence[int], shown: Ranked, k: int, no_relevant: float = 0.0) -> float:
    """NDCG@k (READINGS): the ideal is over all candidates, shown or not.

    `no_relevant` is the value of a query in which every grade is 0.
    """
    ideal = dcg(sorted(grades, reverse=True), k)
    return dcg([grades[i] for i in shown], k) / ideal if ideal > 0.0 else no_relevant


def cumulative_ndcg(values: Sequence[float], gamma: float = 0.9995) -> float:
    """sum over t of NDCG(tau_t) gamma^(t-1), Sec. 5.2."""
    return sum(value * gamma ** (t - 1) for t, value in enumerate(values, start=1))


def kendall(tau: Sequence[int], tau_star: Sequence[int]) -> int:
    """K(tau, tau*), below Eq. (regret): pairs i < j that the two order differently.

    Args:
        tau: tau(i), the rank position of document i.
        tau_star: the same in the ideal list.
    """
    return sum(
        (tau[i] < tau[j] and tau_star[i] > tau_star[j])
        or (tau[i] > tau[j] and tau_star[i] < tau_star[j])
        for i in range(len(tau))
        for j in range(i + 1, len(tau))
    )


def regret(grades: Sequence[int], shown: Ranked) -> int:
    """READINGS "regret": a shown document above a lower or unshown one of a higher grade.

    Every such pair is one mis-ordering; equal grades are none, two unshown documents are none.
    """
    wrong = 0
    for slot, i in enumerate(shown):
        below = [j for j in range(len(grades)) if j not in shown[: slot + 1]]
        wrong += sum(grades[j] > grades[i] for j in below)
    return wrong


def examined_regret(grades: Sequence[int], shown: Ranked, n_examined: int) -> int:
    """The same among examined documents only: both of the pair in the top n_examined slots."""
    top = shown[:n_examined]
    return sum(grades[j] > grades[i] for i, j in combinations(top, 2))


def certain_ratio(certain: Certain, shown: Ranked) -> float | None:
    """Pairs of shown documents joined by a certain order, over all pairs shown (READINGS).

    An edge in either direction counts, a path alone does not. None for lists of one: skipped.
    """
    pairs = list(combinations(shown, 2))
    joined = [bool(certain[i, j] or certain[j, i]) for i, j in pairs]
    return sum(joined) / len(pairs) if pairs else None
