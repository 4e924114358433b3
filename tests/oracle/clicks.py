"""Simulated users: the dependent click model of Sec. 5.1 with both stop rules.

grades are those of the shown documents from the top down; p_click and p_stop are indexed by
grade. "clicked" (a true DCM, the paper's words): the user may stop only after a click.
"examined" (the released code): a stop coin falls at every examined document.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod

import numpy as np

from .network import sigmoid

Clicks = tuple[int, ...]
Probabilities = Sequence[float]

# Table "Configuration of simulated click models": (click, stop) by grade 0 to 4.
FIVE_GRADES: dict[str, tuple[Probabilities, Probabilities]] = {
    "perfect": ((0.0, 0.2, 0.4, 0.8, 1.0), (0.0, 0.0, 0.0, 0.0, 0.0)),
    "navigational": ((0.05, 0.3, 0.5, 0.7, 0.95), (0.2, 0.3, 0.5, 0.7, 0.9)),
    "informational": ((0.4, 0.6, 0.7, 0.8, 0.9), (0.1, 0.2, 0.3, 0.4, 0.5)),
}
# ANCHORS section 2, for the MQ sets: by grade 0 to 2.
THREE_GRADES: dict[str, tuple[Probabilities, Probabilities]] = {
    "perfect": ((0.0, 0.5, 1.0), (0.0, 0.0, 0.0)),
    "navigational": ((0.05, 0.5, 0.95), (0.2, 0.5, 0.9)),
    "informational": ((0.4, 0.7, 0.9), (0.1, 0.3, 0.5)),
}


def sessions(
    grades: Sequence[int], p_click: Probabilities, p_stop: Probabilities, stop: str
) -> dict[tuple[Clicks, int], float]:
    """Every (click pattern, number examined) with its probability, scanning from the top.

    Reaching the end of the list counts as having examined all of it.
    """
    found: dict[tuple[Clicks, int], float] = {}
    n = len(grades)

    def end(clicks: Clicks, p: float) -> None:
        session = ((*clicks, *(0,) * (n - len(clicks))), len(clicks))
        found[session] = found.get(session, 0.0) + p

    def examine(clicks: Clicks, p: float) -> None:
        if len(clicks) == n:
            end(clicks, p)
            return
        grade = grades[len(clicks)]
        for click in (0, 1):
            p_this = p * (p_click[grade] if click else 1.0 - p_click[grade])
            leave = p_stop[grade] if _may_stop(stop, click) else 0.0
            end((*clicks, click), p_this * leave)
            examine((*clicks, click), p_this * (1.0 - leave))

    examine((), 1.0)
    return {session: p for session, p in found.items() if p > 0.0}


def patterns(
    grades: Sequence[int], p_click: Probabilities, p_stop: Probabilities, stop: str
) -> dict[Clicks, float]:
    """Every click pattern with its probability, whatever was examined."""
    found: dict[Clicks, float] = {}
    for (clicks, _), p in sessions(grades, p_click, p_stop, stop).items():
        found[clicks] = found.get(clicks, 0.0) + p
    return found


def well_specified(relevance: Sequence[float]) -> dict[Clicks, float]:
    """READINGS "model of y": examines everything, clicks document i with log-odds h_i.

    Then, given different clicks, i was the clicked one with probability sigma(h_i - h_j).
    """
    p = [float(sigmoid(h)) for h in relevance]
    return {
        clicks: prod(q if click else 1.0 - q for q, click in zip(p, clicks, strict=True))
        for clicks in product((0, 1), repeat=len(p))
    }


def user(
    rng: np.random.Generator, p_click: Probabilities, p_stop: Probabilities, stop: str
) -> Callable[[Sequence[int]], Clicks]:
    """A function from shown grades to one drawn click pattern, for the literal simulator."""

    def look(grades: Sequence[int]) -> Clicks:
        clicks = [0] * len(grades)
        for slot, grade in enumerate(grades):
            clicks[slot] = int(rng.random() < p_click[grade])
            if _may_stop(stop, clicks[slot]) and rng.random() < p_stop[grade]:
                break
        return tuple(clicks)

    return look


def _may_stop(stop: str, click: int) -> bool:
    if stop not in ("clicked", "examined"):
        raise ValueError(f'the stop rule is "clicked" or "examined", not "{stop}"')
    return stop == "examined" or bool(click)
