"""A floor under exploration: production's order, but for certain pairs and a share of the traffic.

With probability 1 - share the list keeps every certain order and otherwise stands as production
had it; with probability `share` it is drawn like any other list. Both follow the same availability
rule (explore.order), so the chance that the draw gives the kept list is the product of 1/choices
along it, and the list's propensity is that of the mixture,

    P(list) = share * P_draw(list) + (1 - share) * [list = kept].
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from olrank.explore.order import draw_topological
from olrank.types import Array, Key, Ranking


def keep_order(certain: Array, ranks: Array, mask: Array, k: int) -> Ranking:
    """The list that keeps every certain order and otherwise follows `ranks`.

    Args:
        certain: [n_docs, n_docs] bool, the certain orders; no cycles.
        ranks: [n_docs] production's ranks, all different, the best first.
        mask: [n_docs] False at padding.
        k: slots to fill.

    Returns:
        The ranking; `choices` and `log_p_shown` say how the topological draw would give it.
    """
    edges = certain & mask[:, None] & mask[None, :]
    n_docs = mask.shape[0]
    shown = jnp.arange(k) < jnp.sum(mask)
    last = 2**31 - 1  # the largest int32

    def fill(
        carry: tuple[Array, Array], is_shown: Array
    ) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        n_before, placed = carry
        free = mask & ~placed & (n_before == 0) & is_shown
        best = jnp.argmin(jnp.where(free, ranks, last)).astype(jnp.int32)
        document = jnp.where(is_shown, best, n_docs - 1)
        placed = placed | ((jnp.arange(n_docs) == document) & is_shown)
        n_before = jnp.where(is_shown, n_before - edges[document], n_before)
        return (n_before, placed), (document, jnp.where(is_shown, jnp.sum(free), 1))

    start = (jnp.sum(edges, axis=0, dtype=jnp.int32), jnp.zeros(n_docs, bool))
    _, (order, choices) = jax.lax.scan(fill, start, shown)
    among = edges[order[:, None], order[None, :]] & shown[:, None] & shown[None, :]
    log_p = -jnp.sum(jnp.log(choices.astype(jnp.result_type(float))))
    return Ranking(order, shown, choices.astype(jnp.int32), log_p, among)


def draw_with_floor(
    key: Key, certain: Array, scores: Array, ranks: Array, share: Array, mask: Array, k: int
) -> Ranking:
    """The kept list, or with probability `share` a drawn one; `log_p_shown` is the mixture's."""
    coin_key, draw_key = jax.random.split(key)
    drawn = draw_topological(draw_key, certain, scores, mask, k)
    kept = keep_order(certain, ranks, mask, k)
    same = jnp.all((drawn.order == kept.order) | ~kept.shown)
    explores = (jax.random.uniform(coin_key) < share) & ~same
    chosen: Ranking = jax.tree.map(lambda a, b: jnp.where(explores, a, b), drawn, kept)
    log_drawn = jnp.log(share) + chosen.log_p_shown
    log_p = jnp.where(explores, log_drawn, jnp.logaddexp(log_drawn, jnp.log1p(-share)))
    return chosen._replace(log_p_shown=log_p)
