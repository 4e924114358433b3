"""Which pairs of shown documents a click pattern teaches, and with what weight.

Paper                             Here                     Where
o_t                               last_examined            Sec. 3.1
Omega_t                           "all"                    Eq. (loss)
Omega_t^ind, D = (1,2), (3,4)..   "independent"            Sec. 3.2
(released code)                   "matched"                clicked and unclicked shuffled and zipped

A pair's winner was clicked, its loser was examined and not clicked. The pair's weight is the
click's weight, times the chance that the loser was examined, times the swap weight where that is
asked for.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from olrank.errors import unknown_name
from olrank.types import Array, Impression, Key

_RULES = ("independent", "matched", "all")
_EXAMINATIONS = ("last-click-plus-one", "position-based")


class Pairs(NamedTuple):
    """Learned pairs of one impression, in arrays of fixed length; weight 0 where there is none.

    Attributes:
        winners: [n_max] int32 slots.
        losers: [n_max] int32 slots.
        weights: [n_max] float.
    """

    winners: Array
    losers: Array
    weights: Array


def check_rules(rule: str, examination: str) -> None:
    """Raise a ConfigError when there is no such pair rule or examination assumption."""
    if rule not in _RULES:
        raise unknown_name("pair rule", rule, _RULES)
    if examination not in _EXAMINATIONS:
        raise unknown_name("examination", examination, _EXAMINATIONS)


def n_max(rule: str, k: int) -> int:
    """The most pairs that one list of k can teach."""
    return (k // 2) * (k - k // 2) if rule == "all" else k // 2


def last_examined(clicks: Array, shown: Array) -> Array:
    """o_t: min(last click + 1, number shown), counted from 1; 0 when nothing was clicked."""
    ranks = jnp.arange(1, clicks.shape[0] + 1)
    last_click = jnp.max(jnp.where((clicks > 0) & shown, ranks, 0))
    return jnp.where(last_click > 0, jnp.minimum(last_click + 1, jnp.sum(shown)), 0)


def p_examined(clicks: Array, shown: Array, examination: str, power: Array) -> Array:
    """The chance, in the learner's eyes, that each shown document was examined.

    Args:
        clicks: [k], 0 where not clicked.
        shown: [k] bool.
        examination: "last-click-plus-one" (the paper), or "position-based".
        power: of the position-based curve, 1 / rank^power.

    Returns:
        [k], 0 where not shown.
    """
    ranks = jnp.arange(1, clicks.shape[0] + 1)
    if examination == "last-click-plus-one":
        return (ranks <= last_examined(clicks, shown)).astype(jnp.result_type(float))
    return jnp.where(shown, ranks ** (-power), 0.0)


def select(
    key: Key,
    impression: Impression,
    examined: Array,
    rule: str,
    *,
    only_uncertain: bool = False,
    swap_weights: Array | None = None,
) -> Pairs:
    """The pairs that an impression teaches.

    Args:
        key: used by "matched" only.
        impression: of k shown documents.
        examined: [k], see `p_examined`.
        rule: "independent", "matched" or "all".
        only_uncertain: leave out pairs whose order was certain when they were shown.
        swap_weights: [k, k] rho at slots (x, y), x < y; None weighs all pairs alike.
    """
    clicks = impression.clicks
    clicked = (clicks > 0) & impression.ranking.shown
    seen_not_clicked = ~clicked & (examined > 0)
    usable = clicked[:, None] & seen_not_clicked[None, :]
    if only_uncertain:
        certain = impression.ranking.certain
        usable = usable & ~(certain | certain.T)
    winners, losers = {"independent": _neighbours, "matched": _matched, "all": _all}[rule](
        key, clicked, usable, seen_not_clicked
    )
    weights = jnp.where(usable[winners, losers], clicks[winners] * examined[losers], 0.0)
    if rule == "all":  # nonzero() fills its tail with slot 0 twice, which is never usable
        weights = jnp.where(winners == losers, 0.0, weights)
    if swap_weights is not None:
        weights = weights * jnp.maximum(swap_weights, swap_weights.T)[winners, losers]
    return Pairs(winners.astype(jnp.int32), losers.astype(jnp.int32), weights)


def _neighbours(
    key: Key, clicked: Array, usable: Array, seen_not_clicked: Array
) -> tuple[Array, Array]:
    upper = jnp.arange(0, 2 * (clicked.shape[0] // 2), 2)
    lower = upper + 1
    upper_wins = clicked[upper]
    return jnp.where(upper_wins, upper, lower), jnp.where(upper_wins, lower, upper)


def _matched(
    key: Key, clicked: Array, usable: Array, seen_not_clicked: Array
) -> tuple[Array, Array]:
    k = clicked.shape[0]
    coins = jax.random.uniform(key, (2, k))
    winners = jnp.lexsort((coins[0], ~clicked))[: k // 2]
    losers = jnp.lexsort((coins[1], ~seen_not_clicked))[: k // 2]
    return winners, losers


def _all(key: Key, clicked: Array, usable: Array, seen_not_clicked: Array) -> tuple[Array, Array]:
    size = n_max("all", clicked.shape[0])
    winners, losers = jnp.nonzero(usable, size=size, fill_value=0)
    return winners, losers
