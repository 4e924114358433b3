"""NDCG@k with every convention in the open.

Gain 2^grade - 1, discount log2(1 + rank), ideal over all candidates (shown or not), ties in score
broken at random by a key. The cut-off k is the number of slots of the arrays. A query without a
relevant document has NDCG 0 here; what it does to a mean is said to `mean_over_queries`.
"""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from olrank.errors import unknown_name
from olrank.types import Array, Key

EmptyRule = Literal["skip", "zero", "one"]
"""What a query without a relevant document counts as in a mean."""

EMPTY_RULES = ("skip", "zero", "one")


def gains(grades: Array) -> Array:
    """[...] the gain 2^grade - 1 of whole grades from 0 to 30."""
    # A shift of integers, because a compiled exp2 need not round to a whole number.
    return (jnp.left_shift(1, grades) - 1).astype(jnp.result_type(float))


def discounts(k: int) -> Array:
    """[k] the weight 1 / log2(1 + rank) of each slot."""
    ranks = np.arange(1, k + 1)
    return jnp.asarray(1.0 / np.log2(1 + ranks), dtype=float)


def dcg(grades_in_order: Array, shown: Array) -> Array:
    """Discounted cumulative gain of a list.

    Args:
        grades_in_order: [..., k] int, grades from the top; anything where not shown.
        shown: [..., k] bool.

    Returns:
        [...] sum over the shown slots of gain times discount.
    """
    shown_gains = jnp.where(shown, gains(jnp.where(shown, grades_in_order, 0)), 0)
    return jnp.sum(shown_gains * discounts(grades_in_order.shape[-1]), axis=-1)


def ideal_dcg(grades: Array, mask: Array, k: int) -> Array:
    """DCG@k of the best order of all candidates.

    Args:
        grades: [..., n] int, in any order; anything at padding.
        mask: [..., n] bool, False at padding.
        k: the cut-off.

    Returns:
        [...] the largest DCG that k slots can have; 0 without a relevant document.
    """
    best, _ = jax.lax.top_k(jnp.where(mask, grades, 0), min(k, grades.shape[-1]))
    return dcg(best, jnp.ones(best.shape, dtype=bool))


def ndcg(grades_in_order: Array, shown: Array, ideal: Array) -> Array:
    """DCG of a list over the ideal, in [0, 1].

    Args:
        grades_in_order: [..., k] int, grades from the top.
        shown: [..., k] bool.
        ideal: [...] from `ideal_dcg` at the same k.

    Returns:
        [...] NDCG@k; 0 where the ideal is 0.
    """
    return dcg(grades_in_order, shown) / jnp.where(ideal > 0, ideal, 1)


def order_by_score(key: Key, scores: Array, mask: Array) -> Array:
    """Candidates from the best score down, equal scores in random order.

    The tie-breakers are whole 32-bit numbers, which come out the same at every dtype and, as JAX
    draws them per index, whatever the padding. NaN counts as the worst score.

    Args:
        key: breaks ties.
        scores: [n] predicted; anything at padding.
        mask: [n] bool, False at padding.

    Returns:
        [n] int, best first, padding last.
    """
    tie_breakers = jax.random.bits(key, scores.shape, jnp.uint32)
    return jnp.lexsort((tie_breakers, -scores, ~mask))


def evaluate_ndcg(
    key: Key, scores: Array, grades: Array, mask: Array, ideal: Array, k: int
) -> Array:
    """NDCG@k of every query of a padded set under predicted scores.

    Args:
        key: breaks ties, apart for each query.
        scores: [n_queries, max_docs] predicted.
        grades: [n_queries, max_docs] int.
        mask: [n_queries, max_docs] bool, False at padding.
        ideal: [n_queries] from `ideal_dcg` at the same k.
        k: the cut-off.

    Returns:
        [n_queries] NDCG@k, ready for `mean_over_queries` with `ideal > 0`.
    """
    # fold_in, not split: a query keeps its tie-breakers when others are added after it.
    keys = jax.vmap(lambda query: jax.random.fold_in(key, query))(jnp.arange(scores.shape[0]))
    top = jax.vmap(order_by_score)(keys, scores, mask)[:, :k]
    grades_in_order = jnp.take_along_axis(grades, top, axis=1)
    return ndcg(grades_in_order, jnp.take_along_axis(mask, top, axis=1), ideal)


def count_empty(values: Array, has_relevant: Array, empty: EmptyRule) -> Array:
    """A metric by query, with the rule for empty queries made explicit.

    Args:
        values: [n_queries] a metric; not read where no document is relevant.
        has_relevant: [n_queries] bool, whether a query has a relevant document.
        empty: what a query without one counts as; see `mean_over_queries`.

    Returns:
        [n_queries] the metric, NaN at the queries that the mean leaves out.
    """
    none = {"skip": jnp.nan, "zero": 0.0, "one": 1.0}[empty]
    return jnp.where(has_relevant, values, none)


def mean_over_queries(
    values: Array, has_relevant: Array, empty: EmptyRule, there: Array | None = None
) -> Array:
    """The mean of a metric over queries, with the rule for empty ones made explicit.

    Args:
        values: [n_queries] a metric; not read where no document is relevant.
        has_relevant: [n_queries] bool, whether a query has a relevant document.
        empty: a query without one is left out ("skip"), or counts as 0 ("zero") or 1 ("one").
        there: [n_queries] bool, False at padding, which never counts; all are there when None.

    Returns:
        The mean; NaN when no query is left to average.
    """
    if empty not in EMPTY_RULES:
        raise unknown_name("rule for queries without a relevant document", empty, EMPTY_RULES)
    filled = jnp.where(has_relevant, values, 1.0 if empty == "one" else 0.0)
    counted = jnp.ones_like(has_relevant) if there is None else there
    if empty == "skip":
        counted = counted & has_relevant
    return jnp.sum(jnp.where(counted, filled, 0.0)) / jnp.sum(counted)
