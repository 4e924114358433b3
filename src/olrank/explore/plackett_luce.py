"""Plackett-Luce lists: sampling, exact log-probabilities, and the swap weight of PDGD.

P(list) is the product over slots of exp(f) / (sum of exp(f) of the documents not yet placed). All
sums stay in logs, so scores of any size are safe. Of the unshown documents only the log-sum-exp of
their scores matters, which makes the draw cheap to store and to weigh later.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from olrank.types import Array, Key, Ranking


class Memo(NamedTuple):
    """What PDGD must remember of a draw.

    Attributes:
        scores: [k] the shown documents' scores when they were drawn (0 where not shown).
        log_rest: log-sum-exp of the unshown candidates' scores, -inf when there are none.
    """

    scores: Array
    log_rest: Array


def draw(key: Key, scores: Array, mask: Array, k: int) -> Ranking:
    """Draw a top-k list: adding Gumbel noise and sorting samples Plackett-Luce exactly.

    Args:
        key: random key.
        scores: [n_docs].
        mask: [n_docs] False at padding.
        k: slots to fill.

    Returns:
        The ranking with its Memo; choices counts the documents left at each slot.
    """
    n_docs = scores.shape[0]
    noisy = jnp.where(mask, scores + jax.random.gumbel(key, (n_docs,), scores.dtype), -jnp.inf)
    best_first = jnp.argsort(-noisy, stable=True).astype(jnp.int32)
    order = best_first[jnp.minimum(jnp.arange(k), n_docs - 1)]
    n_shown = jnp.minimum(jnp.sum(mask), k)
    shown = jnp.arange(k) < n_shown
    in_list = jnp.any((order[:, None] == jnp.arange(n_docs)[None, :]) & shown[:, None], axis=0)
    memo = Memo(
        scores=jnp.where(shown, scores[order], 0.0),
        log_rest=jax.nn.logsumexp(jnp.where(mask & ~in_list, scores, -jnp.inf)),
    )
    choices = jnp.where(shown, jnp.sum(mask) - jnp.arange(k), 1).astype(jnp.int32)
    log_p = log_p_list(memo.scores, shown, memo.log_rest)
    return Ranking(order, shown, choices, log_p, jnp.zeros((k, k), bool), memo)


def log_p_list(scores: Array, shown: Array, log_rest: Array) -> Array:
    """Log-probability of a list.

    Args:
        scores: [k] scores in list order.
        shown: [k] False at slots past the end.
        log_rest: log-sum-exp of the scores of all candidates that are not in the list.
    """
    in_play = jnp.where(shown, scores, -jnp.inf)
    tail = jax.lax.cumlogsumexp(in_play, reverse=True)
    # At unshown slots -inf may meet -inf, whose gradient would be NaN though it is masked below.
    log_left = jnp.logaddexp(jnp.where(shown, tail, 0.0), log_rest)
    return jnp.sum(jnp.where(shown, scores - log_left, 0.0))


def swap_weights(memo: Memo, shown: Array) -> Array:
    """PDGD's rho(i, j, R) = P(R*) / (P(R) + P(R*)), R* being R with i and j swapped.

    Args:
        memo: of the draw of R.
        shown: [k] False at slots past the end.

    Returns:
        [k, k], symmetric; 0 where either slot is not shown.
    """
    k = shown.shape[0]
    slots = jnp.arange(k)
    log_p = log_p_list(memo.scores, shown, memo.log_rest)

    def swapped(x: Array, y: Array) -> Array:
        source = jnp.where(slots == x, y, jnp.where(slots == y, x, slots))
        return log_p_list(memo.scores[source], shown, memo.log_rest)

    log_p_swapped = jax.vmap(jax.vmap(swapped, (None, 0)), (0, None))(slots, slots)
    both = shown[:, None] & shown[None, :]
    return jnp.where(both, jax.nn.sigmoid(log_p_swapped - log_p), 0.0)
