"""olLambdaRank: olRankNet whose pairs are weighed by the NDCG that their swap would change.

Paper                     Here            Where
LambdaRank's gradient     _lambda_loss    Sec. 3.2, "Extend to LambdaRank"
delta NDCG                delta_ndcg      not stated; our reading below

Gains are the clicks themselves (their weights, where they differ), ranks are those under the
current network among the examined documents of the same impression, and the ideal DCG is over those
documents. So the history keeps whole impressions, and a step takes impressions (`history_batch`
counts them) with all their pairs. Everything else is olRankNet's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from olrank.feedback import history as ring
from olrank.rankers import descent
from olrank.rankers.entry import Entry
from olrank.rankers.explorer import RELEASED, Design, Numbers, explorer
from olrank.rankers.olranknet import fit_by_descent
from olrank.rankers.scorers import choose_net
from olrank.types import Array, Ranker, Rows


def ollambdarank(design: Design) -> Ranker:
    """The paper's Algorithm 1 with LambdaRank's pair weights."""
    net = choose_net(design)
    return explorer(design, net, fit_by_descent(design, net, LAMBDARANK))


class Batch(NamedTuple):
    """Stored impressions [n, k] with their pairs [n, n_max]; weight 0 where there is no pair."""

    rows: Array
    clicks: Array
    examined: Array
    winners: Array
    losers: Array
    weights: Array


def delta_ndcg(scores: Array, gains: Array, counted: Array) -> Array:
    """|NDCG change| when two documents of a list swap ranks.

    Args:
        scores: [k] under the current network; they give the ranks.
        gains: [k].
        counted: [k] bool; other documents have no rank.

    Returns:
        [k, k], symmetric; 0 where either is not counted or no document has a gain.
    """
    k = scores.shape[0]
    slots = jnp.arange(k)
    # A sort and not comparisons: a compiler may compute a score twice and round it differently.
    order = jnp.argsort(jnp.where(counted, -scores, jnp.inf), stable=True)
    rank = 1 + jnp.argsort(order)
    discount = jnp.where(counted, 1.0 / jnp.log2(1.0 + rank), 0.0)
    best = jnp.sort(jnp.where(counted, gains, 0.0))[::-1]
    ideal = jnp.sum(best / jnp.log2(2.0 + slots))
    change = (gains[:, None] - gains[None, :]) * (discount[:, None] - discount[None, :])
    both = counted[:, None] & counted[None, :] & (ideal > 0)
    return jnp.where(both, jnp.abs(change) / jnp.where(ideal > 0, ideal, 1.0), 0.0)


def _gather_impressions(history: ring.History, counters: Array) -> Batch:
    capacity, k = history.rows.shape
    n_pairs_max = history.weights.shape[0]
    at = counters % capacity
    first = history.first_pair[at]
    pair = first[:, None] + jnp.arange(n_pairs_max // capacity)
    pair_at = pair % n_pairs_max
    # An impression's pairs end where another impression's begin, or where nothing is stored yet.
    own = (history.pair_impression[pair_at] == at[:, None]) & (pair < history.n_pairs)
    return Batch(
        history.rows[at],
        history.clicks[at],
        history.examined[at],
        history.winners[pair_at],
        history.losers[pair_at],
        jnp.where(own, history.weights[pair_at], 0.0),
    )


def _lambda_loss(scorer: Any, batch: Batch, keep: Array, rows: Rows) -> tuple[Array, Array]:
    n, k = batch.rows.shape
    scores = scorer(rows.features[batch.rows.reshape(-1)]).reshape(n, k)
    fixed = jax.lax.stop_gradient(scores)
    changes = jax.vmap(delta_ndcg)(fixed, batch.clicks, batch.examined > 0)
    lists = jnp.arange(n)[:, None]
    margin = scores[lists, batch.winners] - scores[lists, batch.losers]
    weights = jnp.where(keep[:, None], batch.weights, 0.0)
    change = changes[lists, batch.winners, batch.losers]
    return jnp.sum(weights * change * jax.nn.softplus(-margin)), jnp.sum(weights > 0)


LAMBDARANK = descent.Objective(
    held=ring.impressions_held,
    gather=_gather_impressions,
    loss=_lambda_loss,
    n_pairs=lambda history: ring.pairs_held(history).n,
)

ENTRY = Entry(
    summary="olRankNet with LambdaRank's weights: the NDCG on clicks that a swap would change.",
    factory=ollambdarank,
    design=Design,
    numbers=Numbers,
    presets={
        # LambdaRank's weights are well below 1, so its rate is above olRankNet's; chosen within the
        # paper's grid on the validation part of the built-in synthetic data.
        "paper": {"history_batch": 128, "learning_rate": 1e-2},
        "released": {**RELEASED, "history_batch": 512},
    },
    knows_certainty=True,
)
