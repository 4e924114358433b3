"""Rankers beside each other, weighed by what they foretell.

How far a model must be held back to rank documents that it has not seen differs by orders of
magnitude between data sets: some have few queries and many features, some the opposite, and in some
no line can tell what is relevant. So there are several, the experts: lines that are pulled to zero
more or less, and networks that are more or less free; and clicks say which of them to trust. An
expert is judged by how well it foretells what users do with queries that it knows nothing of: by
the log-likelihood of clicks on lists of one query in eight, from which no expert learns. (New
documents of known queries are no such test: those who know the queries pass it.) What users have
said of these documents before is counted in, so that the same is not asked twice. Each expert is
judged at several scales, as one that ranks well may be too sure of itself. Weights are the softmax
of the sums of judgements times `trust`, and what serves is the weighted mean of all.

Experts learn from click patterns (feedback.cascade), and from differences within lists only. What
is shown again and again is what users are known to like, whatever its features say: counted read by
read, it would teach experts that features say little. So each read of a document counts by what it
is worth as evidence about others, to the power `novelty`. How they are fitted is rankers.weighed.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from olrank.feedback import cascade
from olrank.types import Array


class Network(NamedTuple):
    """One of the networks: how much it is pulled to where it started, and its learning rate.

    `doubt` is how much better than others it must foretell to weigh as much as they do.
    """

    pull: float
    learning_rate: float
    doubt: float = 0.0


LINES = (10.0, 60.0, 400.0, 2500.0)  # their pulls
# The last is for data that no line and no small step does justice to.
NETWORKS = (Network(1.0, 1e-2), Network(100.0, 1e-3), Network(0.1, 5e-2, 5.0))
SCALES = (1.0, 0.5, 0.25)
_HELD_OUT_ONE_IN = 8  # queries
_RECENT = 0.01  # least share of the newest impression in how steep the loss is


class Experts(NamedTuple):
    """What is known of the experts; networks' parameters are kept with those that serve.

    Attributes:
        betas: [n_lines, n_features] the lines.
        judged: [n_experts, n_scales] lines first: summed log-likelihoods of clicks on held-out
            lists, less their mean: sums of millions of impressions would lose the differences.
        steepness: running bound on the curvature of an impression's loss in a line; 0 before the
            first.
    """

    betas: Array
    judged: Array
    steepness: Array


def empty(n_features: int, n_networks: int) -> Experts:
    """Nothing learned yet by the lines and the first networks."""
    dtype = jnp.result_type(float)
    return Experts(
        jnp.zeros((len(LINES), n_features), dtype),
        jnp.zeros((len(LINES) + n_networks, len(SCALES)), dtype),
        jnp.zeros((), dtype),
    )


def weights(experts: Experts, trust: Array) -> tuple[Array, Array]:
    """[n_lines] and [n_nets], what to multiply the experts' scores with."""
    n_networks = experts.judged.shape[0] - len(LINES)
    doubts = jnp.asarray([0.0] * len(LINES) + [net.doubt for net in NETWORKS[:n_networks]])
    shares = jax.nn.softmax(trust * (experts.judged - doubts[:, None]), axis=(0, 1))
    found = shares @ jnp.asarray(SCALES, shares.dtype)
    return found[: len(LINES)], found[len(LINES) :]


def line(beta: Array, features: Array) -> Array:
    """[n] scores of one line."""
    return jnp.matmul(features, beta, precision="highest")


def is_held_out(mark: Array) -> Array:
    """Whether the lists with this mark (feedback.documents) are for judging only."""
    return mark % _HELD_OUT_ONE_IN == 0


def foretold(scores: Array, served: Array, effects: Array, shares: Array, seen: Array) -> Array:
    """[n_experts, n_scales, k] what the experts make of documents some of which are known.

    A known document's score is f + b, and b is what its reads have added to the f that served:
    without it, a share of the score (see feedback.documents) would have followed another f.

    Args:
        scores: [n_experts, k] of the shown documents.
        served: [k] f.
        effects: [k] b.
        shares: [k].
        seen: [k] bool.
    """
    scales = jnp.asarray(SCALES, scores.dtype)
    each = scales[:, None] * cascade.levelled(scores, seen)[:, None]
    f = cascade.levelled(served, seen)
    return jnp.where(seen, f + effects + shares * (each - f), 0.0)


def judge(
    experts: Experts,
    scores: Array,
    clicks: Array,
    seen: Array,
    habits: cascade.Habits,
) -> Experts:
    """The experts after they were judged by an impression that they have not learned from.

    Args:
        experts: before it.
        scores: [n_experts, n_scales, k] of the shown documents, as each foretold them.
        clicks: [k].
        seen: [k] bool.
        habits: of the users.
    """
    each = jax.vmap(jax.vmap(cascade.log_likelihood, (0, None, None, None)), (0, None, None, None))
    found = each(scores, clicks, seen, habits)
    return experts._replace(judged=experts.judged + found - jnp.mean(found))


def faded(experts: Experts, n: Array, recency: int) -> Experts:
    """The experts with judgements that count by when they were made, to the power `recency`.

    Args:
        experts: before.
        n: impressions so far: the s-th of them comes to count (s / n) ** recency.
        recency: 0 lets all of them count the same for ever.
    """
    if not recency:
        return experts
    left = 1.0 - recency / jnp.maximum(n, recency).astype(experts.judged.dtype)
    return experts._replace(judged=experts.judged * left)


def steepened(experts: Experts, features: Array, seen: Array, n: Array) -> Experts:
    """The experts with an impression in their steepness.

    Args:
        experts: before it.
        features: [k, n_features] of the shown documents.
        seen: [k] bool.
        n: impressions so far, with this one.
    """
    centred = jnp.where(seen, cascade.levelled(features.T, seen), 0.0)
    # No decision curves the log-likelihood by more than a quarter.
    bound = 0.25 * jnp.sum(centred**2)
    share = jnp.where(jnp.any(seen), jnp.maximum(1.0 / jnp.maximum(n, 1), _RECENT), 0.0)
    return experts._replace(steepness=experts.steepness + share * (bound - experts.steepness))
