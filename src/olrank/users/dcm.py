"""The dependent click model: chances to click and to stop that depend on the grade.

The paper's user may stop only after a click, which is a true DCM. The released code flips the stop
coin at every examined document, clicked or not; that one choice moves every published number, so
both rules exist by name and results say which was used.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp

from olrank.errors import ConfigError, unknown_name
from olrank.users.user import User, validate

STOP_RULES = ("clicked", "examined")
"""When the stop coin is flipped: after a click only, or at every examined document."""


def dcm(p_click: Sequence[float], p_stop: Sequence[float], stop: str, max_k: int) -> User:
    """A user who scans from the top without skipping.

    Args:
        p_click: [n_grades] chance that an examined document of the grade is clicked.
        p_stop: [n_grades] chance to stop there, where the stop coin is flipped.
        stop: "clicked" (the paper) or "examined" (the released code).
        max_k: the longest list the user can be shown.

    Returns:
        The user, validated.
    """
    check_stop_rule(stop)
    if max_k < 1:
        raise ConfigError(f"user, k: a list has at least one slot, found {max_k}.")
    p_stop_clicked = jnp.asarray(p_stop, dtype=float)
    never = jnp.zeros_like(p_stop_clicked)
    return validate(
        User(
            p_click=jnp.asarray(p_click, dtype=float),
            p_stop_clicked=p_stop_clicked,
            p_stop_unclicked=p_stop_clicked if stop == "examined" else never,
            p_examine=jnp.ones(max_k),
            from_relevance=jnp.zeros(()),
        )
    )


def check_stop_rule(stop: str) -> None:
    """Raise a ConfigError unless this is the name of a stop rule."""
    if stop not in STOP_RULES:
        raise unknown_name("stop rule", stop, STOP_RULES)
