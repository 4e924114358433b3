"""The simulated users by name, per grade scale.

Scale    Source of the click and stop chances
0 to 4   the paper's table of click models
0 to 2   the presets published for MQ2007 and MQ2008
0 to 1   the binary presets of the same literature

"perfect", "navigational" and "informational" are dependent click models and read those tables.
The users with "-flipped" behind their name are these three, with one click decision in ten turned
round: an examined document is left that would be clicked, or clicked that would be left.
"near-random" is a dependent click model that clicks hardly more often where the grade is higher.
"position-based" clicks like "perfect" and examines rank r with chance 1/r. "random" is the
control: its clicks say nothing. "well-specified" clicks with log-odds h, the model that the
paper's theory assumes, so its data must know h.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp

from olrank.errors import ConfigError, unknown_name
from olrank.users.dcm import check_stop_rule, dcm
from olrank.users.pbm import examination_curve, pbm
from olrank.users.user import User


class _Table(NamedTuple):
    p_click: tuple[float, ...]
    p_stop: tuple[float, ...]


_TABLES: dict[str, dict[int, _Table]] = {
    "perfect": {
        1: _Table((0.0, 1.0), (0.0, 0.0)),
        2: _Table((0.0, 0.5, 1.0), (0.0, 0.0, 0.0)),
        4: _Table((0.0, 0.2, 0.4, 0.8, 1.0), (0.0, 0.0, 0.0, 0.0, 0.0)),
    },
    "navigational": {
        1: _Table((0.05, 0.95), (0.2, 0.9)),
        2: _Table((0.05, 0.5, 0.95), (0.2, 0.5, 0.9)),
        4: _Table((0.05, 0.3, 0.5, 0.7, 0.95), (0.2, 0.3, 0.5, 0.7, 0.9)),
    },
    "informational": {
        1: _Table((0.4, 0.9), (0.1, 0.5)),
        2: _Table((0.4, 0.7, 0.9), (0.1, 0.3, 0.5)),
        4: _Table((0.4, 0.6, 0.7, 0.8, 0.9), (0.1, 0.2, 0.3, 0.4, 0.5)),
    },
}

_P_FLIP = 0.1  # of all click decisions at examined documents


def _flipped(table: _Table) -> _Table:
    """The same user with some click decisions turned round; stops as before."""
    p_click = tuple((1 - _P_FLIP) * p + _P_FLIP * (1 - p) for p in table.p_click)
    return _Table(p_click, table.p_stop)


_TABLES |= {
    f"{name}-flipped": {top: _flipped(table) for top, table in scales.items()}
    for name, scales in _TABLES.items()
}
_TABLES["near-random"] = {
    1: _Table((0.4, 0.6), (0.1, 0.1)),
    2: _Table((0.4, 0.5, 0.6), (0.1, 0.1, 0.1)),
    4: _Table((0.4, 0.45, 0.5, 0.55, 0.6), (0.1, 0.1, 0.1, 0.1, 0.1)),
}

_P_RANDOM = 0.5  # a fair coin: the most clicks that differ, and so the most noise
_CURVE_ETA = 1.0  # chance 1/rank


def names() -> tuple[str, ...]:
    """The names that `user` knows, in alphabetical order."""
    return tuple(sorted([*_TABLES, *_OTHERS]))


def user(name: str, max_grade: int, stop: str = "clicked", k: int = 10) -> User:
    """A simulated user by name.

    Args:
        name: one of `names()`.
        max_grade: the highest grade of the data's scale. The tables exist for 1, 2 and 4; "random"
            and "well-specified" take any.
        stop: "clicked" or "examined"; has an effect only on users who ever stop.
        k: the length of the shown list.

    Returns:
        The user, with `max_grade + 1` grades and k slots, so that all of them can be stacked.
    """
    check_stop_rule(stop)
    if max_grade < 0:
        raise ConfigError(f"user, max_grade: the lowest grade is 0, found {max_grade}.")
    if name in _TABLES:
        table = _table(name, max_grade)
        return dcm(table.p_click, table.p_stop, stop, k)
    if name in _OTHERS:
        return _OTHERS[name](max_grade, k)
    raise unknown_name("user", name, names())


def _table(name: str, max_grade: int) -> _Table:
    scales = _TABLES[name]
    if max_grade not in scales:
        known = ", ".join(str(top) for top in sorted(scales))
        raise ConfigError(
            f'user "{name}": no click table for grades 0 to {max_grade}; there are tables for a '
            f"highest grade of {known}. Pass your own chances to olrank.users.dcm.dcm."
        )
    return scales[max_grade]


def _position_based(max_grade: int, k: int) -> User:
    return pbm(_table("perfect", max_grade).p_click, examination_curve(_CURVE_ETA, k))


def _random(max_grade: int, k: int) -> User:
    return dcm([_P_RANDOM] * (max_grade + 1), [0.0] * (max_grade + 1), "clicked", k)


def _well_specified(max_grade: int, k: int) -> User:
    # p_click is not read here; a fair coin is what sigmoid(0) would give.
    return _random(max_grade, k)._replace(from_relevance=jnp.ones(()))


_OTHERS: dict[str, Callable[[int, int], User]] = {
    "position-based": _position_based,
    "random": _random,
    "well-specified": _well_specified,
}
