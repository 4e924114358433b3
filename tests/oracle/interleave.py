"""Interleaved comparison of a current and a candidate ranker, for DBGD.

Rankers are given by `ranks`: for every document its rank (from 1) among all candidates.
Probabilistic interleaving: Hofmann et al., 2011; team draft: Radlinski et al., 2008.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from .order import Ranked

Ranks = Sequence[int]
CURRENT, CANDIDATE = 0, 1


def p_next(ranks: Ranks, placed: Sequence[int], power: float = 3.0) -> dict[int, float]:
    """P(d) proportional to 1 / rank^3 over the unplaced; ranks stay those of the full ranking."""
    mass = {d: 1.0 / rank**power for d, rank in enumerate(ranks) if d not in placed}
    return {d: value / sum(mass.values()) for d, value in mass.items()}


def p_list(current: Ranks, candidate: Ranks, shown: Ranked, power: float = 3.0) -> float:
    """P(list): at each slot a fair coin picks the ranker that draws the document."""
    p = 1.0
    for slot, d in enumerate(shown):
        by_current = p_next(current, shown[:slot], power)[d]
        by_candidate = p_next(candidate, shown[:slot], power)[d]
        p *= 0.5 * by_current + 0.5 * by_candidate
    return p


def lists(current: Ranks, candidate: Ranks, k: int, power: float = 3.0) -> dict[Ranked, float]:
    """Every probabilistically interleaved top-k list with its probability."""
    n = len(current)
    return {
        shown: p_list(current, candidate, shown, power)
        for shown in permutations(range(n), min(k, n))
    }


def credits(current: Ranks, candidate: Ranks, shown: Ranked, power: float = 3.0) -> list[float]:
    """[k] P(the candidate drew the slot's document | the list), the coins marginalised out.

    p_candidate / (p_candidate + p_current), since the coin is fair and coins are independent.
    """
    credit = []
    for slot, d in enumerate(shown):
        by_current = p_next(current, shown[:slot], power)[d]
        by_candidate = p_next(candidate, shown[:slot], power)[d]
        credit.append(by_candidate / (by_candidate + by_current))
    return credit


def lead(credit: Sequence[float], clicks: Sequence[int]) -> float:
    """Expected clicks of the candidate minus those of the current ranker; above 0 it wins."""
    return sum(c * (p - (1.0 - p)) for p, c in zip(credit, clicks, strict=True))


def team_drafts(
    current: Ranks, candidate: Ranks, k: int
) -> dict[tuple[Ranked, tuple[int, ...]], float]:
    """Every team-draft outcome (list, teams) with its probability; teams are 0 or 1 a slot.

    A fair coin before each pair of picks decides who picks first; each pick is the ranker's
    best unplaced document. The last pair has one pick when k or the candidates are odd.
    """
    rankers = {CURRENT: current, CANDIDATE: candidate}
    k = min(k, len(current))
    found: dict[tuple[Ranked, tuple[int, ...]], float] = {}

    def pick(team: int, shown: Ranked) -> int:
        left = [d for d in range(len(current)) if d not in shown]
        return min(left, key=lambda d: rankers[team][d])

    def grow(shown: Ranked, teams: tuple[int, ...], p: float) -> None:
        if len(shown) == k:
            found[shown, teams] = found.get((shown, teams), 0.0) + p
            return
        for first in (CURRENT, CANDIDATE):
            longer, with_teams = shown, teams
            for team in (first, 1 - first)[: k - len(shown)]:
                longer, with_teams = (*longer, pick(team, longer)), (*with_teams, team)
            grow(longer, with_teams, p / 2)

    grow((), (), 1.0)
    return found
