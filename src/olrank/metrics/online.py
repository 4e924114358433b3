"""What a run was worth while it learned: cumulative NDCG, pairwise regret, certain ratio.

Paper                                Here                Where
sum of gamma^(t-1) NDCG_t            cumulative_ndcg     Sec. 5
r_t, Kendall distance to the ideal   pairwise_regret     Sec. 3
r_t on the examined documents        examined_regret     Sec. 4
ratio of certain orders, top 10      certain_ratio       Sec. 5

Regret counts strictly different grades only: with tied grades no order is wrong.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from olrank.types import Array

GAMMA = 0.9995
"""The paper's discount of a round; the chance that a run stops after it is 1 - GAMMA."""


def running_cumulative_ndcg(ndcgs: Array, gamma: float = GAMMA) -> Array:
    """Cumulative discounted NDCG after every round.

    Args:
        ndcgs: [..., n_rounds] NDCG of the list served in each round, from the first round on.
        gamma: the weight of a round is gamma to the number of rounds before it.

    Returns:
        [..., n_rounds] sums up to and including each round.
    """
    # Powers in float64 on the host: in float32 they drift by 1e-4 within a few thousand rounds.
    weights = jnp.asarray(np.power(gamma, np.arange(ndcgs.shape[-1])), dtype=ndcgs.dtype)
    return jnp.cumsum(weights * ndcgs, axis=-1)


def cumulative_ndcg(ndcgs: Array, gamma: float = GAMMA) -> Array:
    """[...] the cumulative discounted NDCG of a whole run, from ndcgs [..., n_rounds]."""
    weights = jnp.asarray(np.power(gamma, np.arange(ndcgs.shape[-1])), dtype=ndcgs.dtype)
    return jnp.sum(weights * ndcgs, axis=-1)


def max_cumulative_ndcg(n_rounds: int, gamma: float = GAMMA) -> float:
    """The most that `cumulative_ndcg` can reach: NDCG 1 in every round."""
    return float(n_rounds) if gamma == 1 else (1 - gamma**n_rounds) / (1 - gamma)


def pairwise_regret(
    grades_in_order: Array, shown: Array, grades: Array, mask: Array, n_grades: int
) -> Array:
    """Pairs in the wrong order: a shown document above a better one, lower in the list or unshown.

    Counted by grade, in k * n_grades steps and one pass over the candidates.

    Args:
        grades_in_order: [k] int, grades of the shown list from the top.
        shown: [k] bool.
        grades: [n] int, grades of all candidates, the shown ones among them.
        mask: [n] bool, False at padding.
        n_grades: the number of grades of the scale, max_grade + 1.

    Returns:
        int, the number of such pairs.
    """
    shown_by_grade = _by_grade(grades_in_order, shown, n_grades)  # [k, n_grades]
    candidates = jnp.sum(_by_grade(grades, mask, n_grades), axis=0)
    not_yet_shown = candidates - jnp.cumsum(shown_by_grade, axis=0)
    better = jnp.arange(n_grades) > grades_in_order[:, None]
    return jnp.sum(jnp.where(shown[:, None] & better, not_yet_shown, 0))


def examined_regret(grades_in_order: Array, examined: Array) -> Array:
    """Pairs in the wrong order among the documents that were examined.

    Args:
        grades_in_order: [k] int, grades of the shown list from the top.
        examined: [k] bool, False where not examined or not shown.

    Returns:
        int, the number of such pairs.
    """
    worse_above = grades_in_order[:, None] < grades_in_order[None, :]
    return jnp.sum(jnp.triu(worse_above & _both(examined), 1))


def certain_ratio(certain: Array, shown: Array) -> Array:
    """The share of shown pairs whose order was certain.

    Args:
        certain: [k, k] bool, True at (a, b) when slot a's document certainly stands above b's.
        shown: [k] bool.

    Returns:
        Unordered pairs of shown documents joined by an edge over all pairs shown; NaN, to be left
        out of means, for a list of one or none.
    """
    pairs = jnp.triu(_both(shown), 1)
    n_joined = jnp.sum(pairs & (certain | certain.T))
    return n_joined / jnp.sum(pairs)


def _both(chosen: Array) -> Array:
    """[k, k] True where both slots are chosen."""
    return chosen[:, None] & chosen[None, :]


def _by_grade(grades: Array, mask: Array, n_grades: int) -> Array:
    """[n, n_grades] int, 1 at a document's own grade, a row of zeros where masked out."""
    return jax.nn.one_hot(grades, n_grades, dtype=jnp.int32) * mask[:, None]
