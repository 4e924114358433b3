"""Every way a simulated user can act on a short list, with its exact probability.

Written from the description of the cascade, one coin at a time, in plain float64; it shares no line
with the fast code. Other tests use it wherever all click patterns have to be summed over.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Pattern = tuple[tuple[int, ...], tuple[int, ...]]
"""(clicks, examined), each a 0 or 1 a slot."""


def action_patterns(
    user: Any, grades: Sequence[int], relevance: Sequence[float] | None = None
) -> dict[Pattern, float]:
    """The probability of each (clicks, examined) that can happen; all slots are shown."""
    coins = {field: np.asarray(p, dtype=np.float64) for field, p in user._asdict().items()}
    found: dict[Pattern, float] = {}

    def scan(slot: int, clicks: list[int], examined: list[int], p: float) -> None:
        if p == 0:
            return
        if slot == len(grades):
            pattern = (tuple(clicks), tuple(examined))
            found[pattern] = found.get(pattern, 0.0) + p
            return
        grade = grades[slot]
        p_examine = coins["p_examine"][slot]
        p_click = coins["p_click"][grade]
        if coins["from_relevance"] == 1:
            p_click = 1 / (1 + math.exp(-relevance[slot]))
        scan(slot + 1, [*clicks, 0], [*examined, 0], p * (1 - p_examine))
        for clicked in (0, 1):
            p_here = p * p_examine * (p_click if clicked else 1 - p_click)
            p_stop = coins["p_stop_clicked" if clicked else "p_stop_unclicked"][grade]
            scan(slot + 1, [*clicks, clicked], [*examined, 1], p_here * (1 - p_stop))
            unseen = [0] * (len(grades) - slot - 1)
            scan(len(grades), [*clicks, clicked, *unseen], [*examined, 1, *unseen], p_here * p_stop)

    scan(0, [], [], 1.0)
    return found


def click_patterns(
    user: Any, grades: Sequence[int], relevance: Sequence[float] | None = None
) -> dict[tuple[int, ...], float]:
    """The probability of each vector of clicks that can happen; all slots are shown."""
    found: dict[tuple[int, ...], float] = {}
    for (clicks, _), p in action_patterns(user, grades, relevance).items():
        found[clicks] = found.get(clicks, 0.0) + p
    return found
