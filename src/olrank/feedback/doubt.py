"""Whether what was learned still holds: lists that knowing nothing would have explained better.

Users change, and some change at once. A ranker that remembers everything is then wrong and sure of
it for as long again as it has learned. So each list is explained twice before it is learned from:
by the scores that it was drawn with, and by none, as if all its documents were alike. What the
second explains better, in nats, is summed up; the sum does not fall below 0, and where it last was
0 is remembered (the CUSUM of Page 1954). While what was learned holds, the sum is driven to 0 by
every list, and it is a rare thing that it gets far: where scores foretell as they say they do,
exp(n) lists go by, on average, before it gets n nats too high by chance. When it does get there,
what came before the sum began to rise is no longer what users want, or never was: scores that were
learned from noise and are too sure of themselves are given up as well.

One list says no more than a bound either way, so that no single one can raise an alarm. Scores that
are no numbers any more explain nothing, and are doubted as much as one list allows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from olrank.feedback import cascade
from olrank.types import Array

_MOST = 4.0  # nats that one list can say


class Doubt(NamedTuple):
    """What speaks against what was learned.

    Attributes:
        nats: summed up so far, 0 or more.
        since: int32, how many impressions there were when it last was 0.
        first: int32, number of the first impression that counts; those before it are forgotten.
    """

    nats: Array
    since: Array
    first: Array


def none() -> Doubt:
    """Nothing to doubt, nothing forgotten."""
    # One array each: donated buffers must not alias.
    return Doubt(jnp.zeros(()), jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))


def after(
    doubt: Doubt,
    scores: Array,
    clicks: Array,
    seen: Array,
    habits: cascade.Habits,
    level_prior: Any,
    n: Array,
) -> Doubt:
    """The doubt after an impression.

    Both explanations are put at the level that the clicks on this list ask for: only how its
    documents compare is in question.

    Args:
        doubt: before it.
        scores: [k] that it was drawn with.
        clicks: [k].
        seen: [k] bool.
        habits: of the users.
        level_prior: 1 / variance of lists' levels.
        n: impressions so far, with this one.
    """

    def explained(scores: Array) -> Array:
        ones = jnp.ones_like(scores)
        placed = cascade.placed(scores, clicks, seen, habits, ones, level_prior)
        return cascade.log_likelihood(placed, clicks, seen, habits)

    better = explained(jnp.zeros_like(scores)) - explained(scores)
    better = jnp.clip(jnp.where(jnp.isnan(better), _MOST, better), -_MOST, _MOST)
    nats = jnp.maximum(doubt.nats + better, 0.0)
    return doubt._replace(nats=nats, since=jnp.where(nats > 0, doubt.since, n))


def forgotten(doubt: Doubt, n: Array) -> Doubt:
    """After an alarm: all before the doubt arose is forgotten, and nothing is doubted.

    Args:
        doubt: that raised it.
        n: impressions so far.
    """
    return Doubt(jnp.zeros_like(doubt.nats), n, doubt.since)
