"""Lines that are pulled to zero more or less, weighed by what they foretell.

How far a line must be pulled to zero to rank documents that it has not seen differs by orders of
magnitude between data sets: some have few queries and many features, some the opposite. So there
is a line for each of some pulls, and clicks say which of them to trust, by cross-validation on the
fly. Documents are halved by the bits of their features. Each line comes twice: one copy learns from
the one half and is judged on the other, the other copy the other way round. A judgement is the
log-likelihood of an impression's clicks, before it is learned from. Weights are the softmax of the
sums of judgements, and the line that serves is the weighted mean of all, copies included.

Like the network, the lines learn from click patterns (feedback.cascade), and from differences
within lists only.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from olrank.feedback import cascade
from olrank.types import Array

PULLS = (10.0, 60.0, 400.0, 2500.0)
_RECENT = 0.01  # least share of the newest impression in how steep the loss is


class Lines(NamedTuple):
    """What is known of the lines.

    Attributes:
        betas: [2, n_pulls, n_features]; the first axis is the half that a copy learns from.
        judged: [n_pulls] summed log-likelihoods of clicks on the halves not learned from, less
            their mean over the pulls: sums of millions of impressions would lose the differences.
        steepness: running bound on the curvature of an impression's loss; 0 before the first.
    """

    betas: Array
    judged: Array
    steepness: Array


def empty(n_features: int) -> Lines:
    """Nothing learned yet."""
    dtype = jnp.result_type(float)
    return Lines(
        jnp.zeros((2, len(PULLS), n_features), dtype),
        jnp.zeros(len(PULLS), dtype),
        jnp.zeros((), dtype),
    )


def served(lines: Lines) -> Array:
    """[n_features] the line that serves."""
    weights = jax.nn.softmax(lines.judged)
    found: Array = weights @ jnp.mean(lines.betas, axis=0)
    return found


def score(betas: Array, features: Array) -> Array:
    """[2, n_pulls, n] of every line."""
    return jnp.matmul(betas, features.T, precision="highest")


def judge(
    lines: Lines,
    features: Array,
    halves: Array,
    clicks: Array,
    seen: Array,
    habits: cascade.Habits,
    n: Array,
) -> Lines:
    """The lines after they were judged by an impression that they have not learned from.

    Args:
        lines: before it.
        features: [k, n_features] of the shown documents.
        halves: [k] bool, which half each belongs to.
        clicks: [k].
        seen: [k] bool.
        habits: of the users.
        n: impressions so far, with this one.
    """
    scores = score(lines.betas, features)
    judgement = sum(
        log_likelihoods(scores[copy], seen & (halves != bool(copy)), clicks, seen, habits)
        for copy in (0, 1)
    )
    centred = jnp.where(seen, cascade.levelled(features.T, seen), 0.0)
    # No decision curves the log-likelihood by more than a quarter.
    bound = 0.25 * jnp.sum(centred**2)
    share = jnp.where(jnp.any(seen), jnp.maximum(1.0 / jnp.maximum(n, 1), _RECENT), 0.0)
    return lines._replace(
        judged=lines.judged + judgement - jnp.mean(judgement),
        steepness=lines.steepness + share * (bound - lines.steepness),
    )


def log_likelihoods(
    scores: Array, counted: Array, clicks: Array, seen: Array, habits: cascade.Habits
) -> Array:
    """[n_pulls] of an impression's clicks, by scores [n_pulls, k] of the counted documents.

    Scores are taken less their mean over what is counted; the other documents' are 0.
    """
    centred = jnp.where(counted, cascade.levelled(scores, counted), 0.0)
    found: Array = jax.vmap(cascade.log_likelihood, (0, None, None, None))(
        centred, clicks, seen, habits
    )
    return found
