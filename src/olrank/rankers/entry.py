"""What the table knows of a ranker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from olrank.types import Ranker


class Entry(NamedTuple):
    """One line of the table, as its ranker's file describes it.

    Attributes:
        summary: one line for a person.
        factory: design -> Ranker; called once for each design.
        design: a NamedTuple class of the settings that change shapes or code, with defaults.
        numbers: a NamedTuple class of the numeric settings, with defaults; they become arrays in
            the state, so that a grid over them is one more axis of `vmap`.
        presets: name -> settings of either kind that differ from the defaults.
        sees_grades: learns from judged grades of all candidates; the service refuses it.
        learns_from_others: can learn from lists that it did not draw itself.
        knows_certainty: tells which orders it is certain of.
        learns_without_clicks: a list teaches it also when nothing was clicked, or when there was
            nothing to compare: it models each click, not preferences.
    """

    summary: str
    factory: Callable[[Any], Ranker]
    design: type[Any]
    numbers: type[Any]
    presets: Mapping[str, Mapping[str, Any]]
    sees_grades: bool = False
    learns_from_others: bool = True
    knows_certainty: bool = False
    learns_without_clicks: bool = False
