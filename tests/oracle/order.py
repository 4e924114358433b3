"""Certain orders and the random topological sort: Algorithm 1 lines 7 and 8.

A certain graph is an [n, n] bool array, True at (i, j) when i certainly stands above j. A list
is a tuple of the k documents shown, from the top down; its propensity is READINGS' "Propensities
of the topological draw".
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from math import factorial, prod

import numpy as np
import numpy.typing as npt

Certain = npt.NDArray[np.bool_]
Ranked = tuple[int, ...]


def is_acyclic(certain: Certain) -> bool:
    """Whether no path of certain orders comes back to where it started (depth-first search)."""
    n = certain.shape[0]
    state = ["new"] * n

    def meets_itself(i: int) -> bool:
        state[i] = "open"
        for j in range(n):
            if certain[i, j] and (state[j] == "open" or (state[j] == "new" and meets_itself(j))):
                return True
        state[i] = "done"
        return False

    return not any(state[i] == "new" and meets_itself(i) for i in range(n))


def forced(certain: Certain) -> Certain:
    """[n, n] True at (i, j) when a path of certain orders leads from i to j (READINGS).

    The certain graph need not be transitive: an order can be forced without being certain.
    """
    n = certain.shape[0]
    reach = np.zeros((n, n), dtype=bool)
    for i in range(n):
        frontier = [i]
        while frontier:
            via = frontier.pop()
            for j in range(n):
                if certain[via, j] and not reach[i, j]:
                    reach[i, j] = True
                    frontier.append(j)
    return reach


def available(certain: Certain, placed: Sequence[int]) -> list[int]:
    """The unplaced documents with in-degree zero: no certain better one is left unplaced."""
    left = [i for i in range(certain.shape[0]) if i not in placed]
    return [j for j in left if not any(certain[i, j] for i in left)]


def draw(rng: np.random.Generator, certain: Certain, k: int) -> Ranked:
    """One random topological sort, cut at k: a uniform pick among the available, k times."""
    placed: list[int] = []
    for _ in range(min(k, certain.shape[0])):
        placed.append(int(rng.choice(available(certain, placed))))
    return tuple(placed)


def lists(certain: Certain, k: int) -> dict[Ranked, float]:
    """Every top-k list of the topological sort with its exact probability."""
    found: dict[Ranked, float] = {}

    def grow(placed: Ranked, p: float) -> None:
        if len(placed) == min(k, certain.shape[0]):
            found[placed] = p
            return
        free = available(certain, placed)
        for i in free:
            grow((*placed, i), p / len(free))

    grow((), 1.0)
    return found


def choices(certain: Certain, shown: Ranked) -> list[int]:
    """[k] how many documents could have stood at each slot of this list, given those above."""
    return [len(available(certain, shown[:slot])) for slot in range(len(shown))]


def p_list(certain: Certain, shown: Ranked) -> float:
    """P(list) = product over slots of 1/choices; 0 where the sort cannot make the list."""
    for slot, i in enumerate(shown):
        if i not in available(certain, shown[:slot]):
            return 0.0
    return prod(1.0 / c for c in choices(certain, shown))


def swapped(shown: Ranked, a: int, b: int) -> Ranked:
    """The list with the documents at slots a and b exchanged."""
    other = list(shown)
    other[a], other[b] = other[b], other[a]
    return tuple(other)


def swap_weight(certain: Certain, shown: Ranked, a: int, b: int) -> float:
    """rho = P(swapped) / (P(shown) + P(swapped)) for slots a and b; 0 if not swappable."""
    p_shown, p_swapped = p_list(certain, shown), p_list(certain, swapped(shown, a, b))
    return p_swapped / (p_shown + p_swapped)


def swap_weights(certain: Certain, shown: Ranked) -> npt.NDArray[np.float64]:
    """[k, k] rho of every pair of slots; symmetric, 0 on the diagonal."""
    k = len(shown)
    rho = np.zeros((k, k))
    for a in range(k):
        for b in range(k):
            if a != b:
                rho[a, b] = swap_weight(certain, shown, a, b)
    return rho


def swappable(certain: Certain, shown: Ranked, a: int, b: int) -> bool:
    """READINGS' words, for slots a < b: the lower document was available at the upper slot.

    And no document between them is a certain successor of the upper one.
    """
    was_free = shown[b] in available(certain, shown[:a])
    return was_free and not any(certain[shown[a], i] for i in shown[a + 1 : b])


def components(certain: Certain) -> list[list[int]]:
    """Connected components of the uncertain graph: i - j when neither order is certain."""
    n = certain.shape[0]
    found: list[list[int]] = []
    for start in range(n):
        if any(start in component for component in found):
            continue
        component, frontier = {start}, [start]
        while frontier:
            i = frontier.pop()
            for j in range(n):
                if j not in component and not certain[i, j] and not certain[j, i]:
                    component.add(j)
                    frontier.append(j)
        found.append(sorted(component))
    return found


def blocks(certain: Certain, scores: npt.NDArray[np.float64]) -> list[list[int]]:
    """The components, best first by their highest score (ANCHORS section 1, "ranking")."""
    return sorted(components(certain), key=lambda c: -max(float(scores[i]) for i in c))


def block_lists(certain: Certain, scores: npt.NDArray[np.float64], k: int) -> dict[Ranked, float]:
    """Every top-k list of the released code's default order, with its probability.

    Blocks follow one another, each shuffled uniformly: of a block of s documents every ordered
    choice of the first r has probability (s - r)! / s!. It can reverse certain orders.
    """
    found: dict[Ranked, float] = {(): 1.0}
    for block in blocks(certain, scores):
        s, so_far = len(block), len(next(iter(found)))
        r = min(s, k - so_far)
        p = factorial(s - r) / factorial(s)
        found = {
            (*top, *part): q * p for top, q in found.items() for part in permutations(block, r)
        }
    return found
