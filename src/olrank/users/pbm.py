"""The position-based model: a slot is examined with its own chance, whatever was clicked above."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from olrank.errors import ConfigError
from olrank.types import Array
from olrank.users.user import User, validate


def pbm(p_click: Sequence[float], p_examine: npt.ArrayLike | Array) -> User:
    """A user who never stops, but does not see every slot.

    Args:
        p_click: [n_grades] chance that an examined document of the grade is clicked.
        p_examine: [max_k] chance that a slot is examined; any curve, or `examination_curve`.

    Returns:
        The user, validated.
    """
    clicks = jnp.asarray(p_click, dtype=float)
    return validate(
        User(
            p_click=clicks,
            p_stop_clicked=jnp.zeros_like(clicks),
            p_stop_unclicked=jnp.zeros_like(clicks),
            p_examine=jnp.asarray(p_examine, dtype=float),
            from_relevance=jnp.zeros(()),
        )
    )


def examination_curve(eta: float, max_k: int) -> Array:
    """[max_k] the usual curve (1 / rank)^eta: eta 0 sees everything, 1 is the common choice."""
    if not (eta >= 0 and max_k >= 1):
        raise ConfigError(
            f"examination curve: needs eta >= 0 and at least one slot, found {eta} and {max_k}."
        )
    ranks = np.arange(1, max_k + 1)
    return jnp.asarray((1.0 / ranks) ** eta, dtype=float)
