"""From clicks to preferences: Sec. 3.1 and 3.2.

clicks is a sequence of 0 and 1, one for each shown slot from the top down. Pairs are pairs of
slots (counted from 0).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from .order import Certain, Ranked, forced

SlotPair = tuple[int, int]


def last_examined(clicks: Sequence[int]) -> int:
    """o_t = min(last clicked rank + 1, number shown), ranks from 1; 0 without a click.

    Sec. 3.1: everything above a click and the first unclicked document after it were examined.
    """
    ranks = [slot + 1 for slot, click in enumerate(clicks) if click]
    return min(max(ranks) + 1, len(clicks)) if ranks else 0


def y(clicks: Sequence[int], i: int, j: int) -> float:
    """y_ij = (c_i - c_j)/2 + 1/2, below Eq. (loss)."""
    return (clicks[i] - clicks[j]) / 2 + 1 / 2


def all_pairs(clicks: Sequence[int]) -> list[SlotPair]:
    """Omega_t: slots i < j of different clicks, both examined (below Eq. (loss))."""
    o = last_examined(clicks)
    return [(i, j) for i in range(o) for j in range(i + 1, o) if clicks[i] != clicks[j]]


def disjoint_positions(o: int) -> list[SlotPair]:
    """D = {(1, 2), (3, 4), ...} as slots; an odd last position is dropped (READINGS "o_t")."""
    return [(rank - 1, rank) for rank in range(1, o, 2)]


def independent_pairs(clicks: Sequence[int]) -> list[SlotPair]:
    """Omega_t^ind: the pairs of D with different clicks, Sec. 3.2."""
    D = disjoint_positions(last_examined(clicks))
    return [(i, j) for i, j in D if clicks[i] != clicks[j]]


def matched_pairs(clicks: Sequence[int]) -> dict[tuple[SlotPair, ...], float]:
    """The released code's pairs: clicked and examined-unclicked slots shuffled and zipped.

    Returns:
        Every outcome with its probability; an outcome is the sorted tuple of its pairs, each
        (clicked slot, unclicked slot), so y = 1. Enumerates all shuffles of both groups.
    """
    o = last_examined(clicks)
    clicked = [slot for slot in range(o) if clicks[slot]]
    unclicked = [slot for slot in range(o) if not clicks[slot]]
    shuffles = [(up, down) for up in permutations(clicked) for down in permutations(unclicked)]
    found: dict[tuple[SlotPair, ...], float] = {}
    for up, down in shuffles:
        outcome = tuple(sorted(zip(up, down, strict=False)))
        found[outcome] = found.get(outcome, 0.0) + 1.0 / len(shuffles)
    return found


def uncertain_pairs(pairs: Sequence[SlotPair], shown: Ranked, certain: Certain) -> list[SlotPair]:
    """The pairs joined by no certain order (no edge) when the list was shown."""
    return [
        (i, j)
        for i, j in pairs
        if not certain[shown[i], shown[j]] and not certain[shown[j], shown[i]]
    ]


def left_to_chance(pairs: Sequence[SlotPair], shown: Ranked, certain: Certain) -> list[SlotPair]:
    """The pairs joined by no path of certain orders when the list was shown (READINGS)."""
    return uncertain_pairs(pairs, shown, forced(certain))
