"""Metrics of one list besides NDCG: reciprocal rank, ERR and average relevant position.

Each takes grades from the top with a mask of what was shown, and an optional cut-off: slots from k
on count as not shown. Leading axes are a batch. A document is relevant from grade `threshold` up.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from olrank.metrics.ndcg import gains
from olrank.types import Array


def reciprocal_rank(
    grades_in_order: Array, shown: Array, k: int | None = None, threshold: int = 1
) -> Array:
    """1 / rank of the first relevant document; its mean over queries is MRR.

    Args:
        grades_in_order: [..., n] int.
        shown: [..., n] bool.
        k: the cut-off; None for the whole list.
        threshold: the lowest grade that is relevant.

    Returns:
        [...] between 0 (no relevant document before the cut-off) and 1.
    """
    relevant = _relevant(grades_in_order, shown, k, threshold)
    return jnp.max(jnp.where(relevant, 1 / _ranks(relevant), 0), axis=-1, initial=0)


def err(grades_in_order: Array, shown: Array, max_grade: int, k: int | None = None) -> Array:
    """Expected reciprocal rank of the document that satisfies a cascading user.

    A document of grade g satisfies with chance (2^g - 1) / 2^max_grade; the user reads on until
    satisfied.

    Args:
        grades_in_order: [..., n] int.
        shown: [..., n] bool.
        max_grade: the highest grade of the scale, not of this list.
        k: the cut-off; None for the whole list.

    Returns:
        [...] in [0, 1).
    """
    seen = _relevant(grades_in_order, shown, k, threshold=1)
    p_satisfied = jnp.where(seen, gains(jnp.where(seen, grades_in_order, 0)), 0) / 2**max_grade
    p_unsatisfied_so_far = jnp.cumprod(1 - p_satisfied, axis=-1)
    # The user reaches a slot when no slot above it satisfied.
    at_top = jnp.ones_like(p_satisfied[..., :1])
    p_reached = jnp.concatenate([at_top, p_unsatisfied_so_far[..., :-1]], axis=-1)
    return jnp.sum(p_reached * p_satisfied / _ranks(seen), axis=-1)


def average_relevant_position(
    grades_in_order: Array, shown: Array, k: int | None = None, threshold: int = 1
) -> Array:
    """The mean rank of the relevant documents; smaller is better.

    Without a cut-off it is a property of the whole order. With one, only relevant documents before
    it are averaged, so a list that buries them all is not punished: read it beside NDCG.

    Args:
        grades_in_order: [..., n] int.
        shown: [..., n] bool.
        k: the cut-off; None for the whole list.
        threshold: the lowest grade that is relevant.

    Returns:
        [...] at least 1; NaN, to be left out of means, when there is no relevant document.
    """
    relevant = _relevant(grades_in_order, shown, k, threshold)
    return jnp.sum(relevant * _ranks(relevant), axis=-1) / jnp.sum(relevant, axis=-1)


def _relevant(grades_in_order: Array, shown: Array, k: int | None, threshold: int) -> Array:
    before_cut_off = shown if k is None else shown & (np.arange(shown.shape[-1]) < k)
    return before_cut_off & (grades_in_order >= threshold)


def _ranks(slots: Array) -> Array:
    return jnp.arange(1, slots.shape[-1] + 1, dtype=float)
