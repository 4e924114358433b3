"""Which pairs of shown documents a click pattern teaches, and with what weight.

Paper                             Here                     Where
o_t                               last_examined            Sec. 3.1
Omega_t                           "all"                    Eq. (loss)
Omega_t^ind, D = (1,2), (3,4)..   "independent"            Sec. 3.2
(released code)                   "matched"                clicked and unclicked shuffled and zipped

A pair's winner was clicked with a greater weight than its loser, which was examined: most often it
was not clicked at all. The pair's weight is the difference of the two clicks' weights, times the
chance that the loser was examined (1 where it was clicked), times the swap weight where that is
asked for. With plain clicks, all of weight 1, these are the paper's pairs.

"matched" joins clicked with unclicked documents only. "all" holds as many pairs as plain clicks can
teach (`n_max`); of the few more that four or more different weights in one list can teach, it keeps
the heaviest.
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
    """The most pairs that one list of k can teach by plain clicks, and the most that are kept."""
    return (k // 2) * (k - k // 2) if rule == "all" else k // 2


def in_view(impression: Impression) -> Array:
    """[k] bool, the slots that were filled and that the user can have looked at."""
    shown = impression.ranking.shown
    return shown if impression.seen is None else shown & impression.seen


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
    clicks = jnp.where(impression.ranking.shown, impression.clicks, 0.0)
    chance = jnp.where(clicks > 0, 1.0, examined)
    preferred = (clicks[:, None] > clicks[None, :]) & (chance > 0)[None, :]
    weight = jnp.where(preferred, (clicks[:, None] - clicks[None, :]) * chance[None, :], 0.0)
    if only_uncertain:
        certain = impression.ranking.certain
        weight = jnp.where(certain | certain.T, 0.0, weight)
    if rule == "matched":
        weight = jnp.where(clicks[None, :] > 0, 0.0, weight)
    winners, losers = {"independent": _neighbours, "matched": _matched, "all": _all}[rule](
        key, clicks, examined, weight
    )
    weights = weight[winners, losers]
    if swap_weights is not None:
        weights = weights * jnp.maximum(swap_weights, swap_weights.T)[winners, losers]
    return Pairs(winners.astype(jnp.int32), losers.astype(jnp.int32), weights)


def _neighbours(key: Key, clicks: Array, examined: Array, weight: Array) -> tuple[Array, Array]:
    upper = jnp.arange(0, 2 * (clicks.shape[0] // 2), 2)
    lower = upper + 1
    upper_wins = (clicks[upper] > 0) & (clicks[upper] >= clicks[lower])
    return jnp.where(upper_wins, upper, lower), jnp.where(upper_wins, lower, upper)


def _matched(key: Key, clicks: Array, examined: Array, weight: Array) -> tuple[Array, Array]:
    k = clicks.shape[0]
    coins = jax.random.uniform(key, (2, k))
    clicked = clicks > 0
    winners = jnp.lexsort((coins[0], ~clicked))[: k // 2]
    losers = jnp.lexsort((coins[1], clicked | (examined <= 0)))[: k // 2]
    return winners, losers


def _all(key: Key, clicks: Array, examined: Array, weight: Array) -> tuple[Array, Array]:
    size = n_max("all", clicks.shape[0])
    heaviest = jnp.argsort(-weight.reshape(-1), stable=True)[:size]
    kept = jnp.zeros(weight.size, bool).at[heaviest].set(True).reshape(weight.shape)
    # The tail is filled with slot 0 twice, whose weight is 0.
    winners, losers = jnp.nonzero(kept & (weight > 0), size=size, fill_value=0)
    return winners, losers
