"""One cascade that covers every simulated user, so that different users stack along a `vmap` axis.

The user scans the list from the top. A slot that is reached is examined with `p_examine[slot]`;
an examined document is clicked with `p_click[grade]`; then the user stops with
`p_stop_clicked[grade]` after a click, or with `p_stop_unclicked[grade]` after none. Special cases:

User                             Here
dependent click model (paper)    p_examine = 1, p_stop_unclicked = 0
the released code's user         p_examine = 1, p_stop_unclicked = p_stop_clicked
position-based user              p_stop_clicked = p_stop_unclicked = 0
well-specified user              the last, p_examine = 1, and from_relevance = 1
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from olrank.errors import ConfigError
from olrank.types import Array, Key


class User(NamedTuple):
    """The coins of a simulated user, a pytree of float arrays.

    Attributes:
        p_click: [n_grades] chance that an examined document of the grade is clicked.
        p_stop_clicked: [n_grades] chance to stop after clicking a document of the grade.
        p_stop_unclicked: [n_grades] chance to stop after examining one without a click.
        p_examine: [max_k] chance that the document at a reached slot is examined.
        from_relevance: 1 when clicks follow sigmoid(h) of the true relevance and not
            `p_click`, else 0. Such a user needs data whose h is known.
    """

    p_click: Array
    p_stop_clicked: Array
    p_stop_unclicked: Array
    p_examine: Array
    from_relevance: Array


class Clicks(NamedTuple):
    """What one user did with one list.

    Attributes:
        clicks: [k] float, 1 where clicked, else 0.
        examined: [k] bool, True where the document was seen; no learner may read it.
    """

    clicks: Array
    examined: Array


def click(user: User, key: Key, grades: Array, relevance: Array, shown: Array) -> Clicks:
    """Let a user scan a shown list.

    All coins are drawn at once, a vector per kind, as if every slot were reached; what lies below
    the first stop is masked out afterwards. Neither padding nor k changes the coin of a slot.

    Args:
        user: the coins.
        key: the user's mood in this round.
        grades: [k] int, judged grades in the order shown; anything where not shown.
        relevance: [k] float, the true h in the order shown; zeros where nobody knows it.
        shown: [k] bool, False at the slots past the last document.

    Returns:
        Clicks, both [k].
    """
    p_examine = _examination(user, grades.shape[0])
    coin_examine, coin_click, coin_stop = _coins(key, grades.shape[0])
    p_click = jnp.where(user.from_relevance > 0, jax.nn.sigmoid(relevance), user.p_click[grades])

    would_examine = shown & (coin_examine < p_examine)
    would_click = would_examine & (coin_click < p_click)
    p_stop = jnp.where(would_click, user.p_stop_clicked[grades], user.p_stop_unclicked[grades])
    would_stop = would_examine & (coin_stop < p_stop)
    stops_above = jnp.cumsum(would_stop) - would_stop
    reached = stops_above == 0

    clicks = (would_click & reached).astype(jnp.result_type(float))
    return Clicks(clicks=clicks, examined=would_examine & reached)


def validate(user: User) -> User:
    """The same user, or a ConfigError that names the field which cannot be right.

    Needs concrete arrays, one user (not a stack); the factories call it.
    """
    for field, value in user._asdict().items():
        p = np.asarray(value)
        n_axes = 0 if field == "from_relevance" else 1
        if p.ndim != n_axes or p.size == 0:
            expected = "one number" if n_axes == 0 else "a list of probabilities, at least one"
            raise ConfigError(f"user, {field}: expected {expected}, found shape {p.shape}.")
        outside = p[~((p >= 0) & (p <= 1))]  # written so that NaN is outside
        if outside.size:
            raise ConfigError(f"user, {field}: a probability lies in [0, 1], found {outside[0]}.")
    _check_lengths(user)
    return user


def _check_lengths(user: User) -> None:
    n_grades = np.shape(user.p_click)[0]
    for field in ("p_stop_clicked", "p_stop_unclicked"):
        n_found = np.shape(getattr(user, field))[0]
        if n_found != n_grades:
            raise ConfigError(
                f"user, {field}: has {n_found} grades, but p_click has {n_grades}. "
                "Give one probability a grade, from grade 0 up."
            )


def _examination(user: User, k: int) -> Array:
    max_k = user.p_examine.shape[0]
    if k > max_k:
        raise ConfigError(
            f"user, p_examine: covers {max_k} slots, but the list has {k}. "
            f"Build the user with k={k} or more."
        )
    return user.p_examine[:k]


def _coins(key: Key, k: int) -> tuple[Array, Array, Array]:
    key_examine, key_click, key_stop = jax.random.split(key, 3)
    dtype = jnp.result_type(float)
    return (
        jax.random.uniform(key_examine, (k,), dtype),
        jax.random.uniform(key_click, (k,), dtype),
        jax.random.uniform(key_stop, (k,), dtype),
    )
