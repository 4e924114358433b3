"""Plackett-Luce lists and the gradient estimate of PDGD (Oosterhuis and de Rijke, 2018).

The paper's Sec. 5 uses it as a baseline: the next document is drawn with probability
proportional to e^score among the unplaced; preferences found in clicks are weighted by how much
less likely the list is than the one with the pair exchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np

from .feedback import last_examined
from .network import Array
from .order import Ranked, swapped


def p_list(scores: Array, shown: Ranked) -> float:
    """P(R) = product over slots of e^{f of the slot} / sum of e^f over the unplaced.

    Scores are shifted by the largest unplaced one at each slot, which changes no probability.
    """
    p = 1.0
    for slot, i in enumerate(shown):
        left = [j for j in range(len(scores)) if j not in shown[:slot]]
        top = max(float(scores[j]) for j in left)
        p *= np.exp(scores[i] - top) / sum(np.exp(scores[j] - top) for j in left)
    return float(p)


def lists(scores: Array, k: int) -> dict[Ranked, float]:
    """Every ordered top-k list with its probability."""
    n = len(scores)
    return {shown: p_list(scores, shown) for shown in permutations(range(n), min(k, n))}


def pair_weight(scores: Array, shown: Ranked, a: int, b: int) -> float:
    """rho(i, j, R) = P(R*) / (P(R) + P(R*)), R* having slots a and b exchanged."""
    p_shown, p_swapped = p_list(scores, shown), p_list(scores, swapped(shown, a, b))
    return p_swapped / (p_shown + p_swapped)


def preferences(clicks: Sequence[int]) -> list[tuple[int, int]]:
    """(clicked slot, examined unclicked slot): PDGD's inferred preferences; y = 1."""
    o = last_examined(clicks)
    return [(a, b) for a in range(o) for b in range(o) if clicks[a] and not clicks[b]]


def pdgd_gradient(
    scores: Array, score_gradients: Array, shown: Ranked, clicks: Sequence[int]
) -> Array:
    """[p] PDGD's estimate from one impression; an ascent direction.

    sum over clicked i and examined unclicked j of
    rho(i, j, R) * e^{f_i} e^{f_j} / (e^{f_i} + e^{f_j})^2 * (grad f_i - grad f_j).

    Args:
        scores: [n] of all candidates.
        score_gradients: [n, p] their gradients with respect to the parameters.
        shown: the k documents shown.
        clicks: [k].
    """
    total = np.zeros(score_gradients.shape[1])
    for a, b in preferences(clicks):
        i, j = shown[a], shown[b]
        shrunk = np.exp(-abs(scores[i] - scores[j]))  # the fraction, divided through by the larger
        slope = shrunk / (1.0 + shrunk) ** 2
        difference = score_gradients[i] - score_gradients[j]
        total += pair_weight(scores, shown, a, b) * slope * difference
    return total
