"""Certain orders, and random lists that keep them.

Paper                       Here                Where
omega_t                     certain             Def. 1
topological_sort(omega_t)   draw_topological    Alg. 1, line 8
(released code)             draw_blocks         components of the uncertain graph, shuffled inside

A list is drawn slot by slot, uniformly among the documents that no unplaced document certainly
precedes. So P(list) is the product of 1/choices over its slots: exact, though not uniform over all
orders that keep the certain pairs. Only the k shown slots are drawn.

The swap weight of a shown pair is rho = P(swapped) / (P(shown) + P(swapped)), where the swapped
list has the two documents in each other's slots, and 0 when that list cannot be drawn.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from olrank.types import Array, Key, PyTree, Ranking


def settled(scores: Array) -> Array:
    """The same scores, computed once.

    A compiler may compute a score twice and round it differently each time. Compared with itself,
    such a score is above itself: a document that certainly precedes itself, and is never shown.
    Compilers dissolve barriers before they decide what to compute twice; what a sort has put in
    place is read from memory by everyone, so the scores go there and back.

    Args:
        scores: [n_docs].
    """
    slots = jnp.arange(scores.shape[0], dtype=jnp.int32)
    ordered, of_slot = jax.lax.sort_key_val(scores, slots)
    return jnp.zeros_like(scores).at[of_slot].set(ordered, unique_indices=True)


def certain(scores: Array, widths: Array, scale: str = "probability") -> Array:
    """Pairs whose order is certain: omega_t of Definition 1.

    Args:
        scores: [n_docs] predicted by the current network.
        widths: [n_docs, n_docs] confidence widths CB_ij, not negative.
        scale: what the widths bound: the "probability" sigma(f_ij) of an order, as the paper does,
            or its "logit" f_ij.

    Returns:
        [n_docs, n_docs] bool; True at (i, j) when i certainly stands above j.
    """
    scores = settled(scores)
    difference = scores[:, None] - scores[None, :]
    if scale == "logit":
        return difference > widths
    return (difference > 0) & (jax.nn.sigmoid(difference) - widths > 0.5)


def draw_topological(
    key: Key, certain: Array, scores: Array, mask: Array, k: int, *, swaps: bool = False
) -> Ranking:
    """Draw the top k of a random topological sort of the certain orders.

    Args:
        key: random key.
        certain: [n_docs, n_docs] bool, the certain orders; no cycles.
        scores: [n_docs], not needed here; the blocks order does.
        mask: [n_docs] False at padding.
        k: slots to fill.
        swaps: also compute the swap weights, as the ranking's memo.

    Returns:
        The ranking; its memo is [k, k] swap weights (upper triangle), or () without `swaps`.
    """
    edges = certain & mask[:, None] & mask[None, :]
    n_before = jnp.sum(edges, axis=0, dtype=jnp.int32)

    def available(n_before: Array, placed: Array) -> Array:
        return mask & ~placed & (n_before == 0)

    def place(n_before: Array, document: Array) -> Array:
        return n_before - edges[document].astype(jnp.int32)

    ranking = _draw(key, available, place, n_before, edges, mask, k)
    return ranking._replace(memo=swap_weights(ranking, edges, mask)) if swaps else ranking


def draw_blocks(
    key: Key, certain: Array, scores: Array, mask: Array, k: int, *, swaps: bool = False
) -> Ranking:
    """Draw the top k by blocks: components of the uncertain graph, best first, shuffled inside.

    Components are ordered by their best score. Two components can interleave by score, and a
    component can hold certain pairs, so this order can reverse a certain pair.
    """
    edges = certain & mask[:, None] & mask[None, :]
    block = _components(~edges & ~edges.T & mask[:, None] & mask[None, :])
    best = jax.ops.segment_max(jnp.where(mask, scores, -jnp.inf), block, scores.shape[0])[block]

    def available(_: PyTree, placed: Array) -> Array:
        left = mask & ~placed
        leader = jnp.argmax(jnp.where(left, best, -jnp.inf))
        return left & (block == block[leader])

    ranking = _draw(key, available, lambda nothing, _: nothing, (), edges, mask, k)
    if not swaps:
        return ranking
    of_slot = block[ranking.order]
    shown = ranking.shown[:, None] & ranking.shown[None, :]
    together = jnp.triu((of_slot[:, None] == of_slot[None, :]) & shown, 1)
    return ranking._replace(memo=jnp.where(together, 0.5, 0.0))


def draw_greedy(key: Key, scores: Array, mask: Array, k: int) -> Ranking:
    """The k best by score, ties drawn at random: nothing is explored, every order is certain."""
    n_docs, scores = scores.shape[0], settled(scores)
    tie_break = jax.random.uniform(key, (n_docs,))
    order = jnp.lexsort((tie_break, jnp.where(mask, -scores, jnp.inf), ~mask))
    order = _fit(order.astype(jnp.int32), k)
    shown = jnp.arange(k) < jnp.sum(mask)
    of_slot = scores[order]
    tied = jnp.sum((scores[None, :] == of_slot[:, None]) & mask[None, :], axis=1)
    same_above = jnp.tril(of_slot[None, :] == of_slot[:, None], -1) & shown[None, :]
    choices = jnp.where(shown, tied - jnp.sum(same_above, axis=1), 1).astype(jnp.int32)
    above = (of_slot[:, None] > of_slot[None, :]) & shown[:, None] & shown[None, :]
    return Ranking(order, shown, choices, _log_p(choices), above)


def swap_weights(ranking: Ranking, edges: Array, mask: Array) -> Array:
    """Swap weights rho of a list from the topological draw, for every pair of its slots.

    Args:
        ranking: [k] slots.
        edges: [n_docs, n_docs] bool, the certain orders it was drawn from.
        mask: [n_docs] False at padding.

    Returns:
        [k, k], rho at (x, y) for slots x < y, 0 where not swappable and elsewhere.
    """
    k, n_docs = ranking.order.shape[0], mask.shape[0]
    order, slots = ranking.order, jnp.arange(k)
    out = edges[order].astype(jnp.int32) * ranking.shown[:, None]
    # Before slot s: how many unplaced documents certainly precede each one, and who is placed.
    before = slots[None, :] < slots[:, None]
    n_before = jnp.sum(edges, axis=0, dtype=jnp.int32) - before.astype(jnp.int32) @ out
    at_slot = (jnp.arange(n_docs)[None, :] == order[:, None]) & ranking.shown[:, None]
    placed = before.astype(jnp.int32) @ at_slot.astype(jnp.int32) > 0

    def after_swap(x: Array, y: Array) -> tuple[Array, Array]:
        """(possible, sum of log choices - log choices* over the slots x+1 .. y)."""
        n_before_swapped = n_before + out[x] - out[y]
        placed_swapped = (placed & ~at_slot[x]) | at_slot[y]
        free = mask & ~placed_swapped & (n_before_swapped == 0)
        choices = jnp.sum(free, axis=1)
        inside = (slots > x) & (slots <= y)
        logs = jnp.log(ranking.choices / jnp.maximum(choices, 1))
        between = inside & (slots < y)
        blocked = jnp.any(between & edges[order[x], order])
        possible = (n_before[x, order[y]] == 0) & ~blocked & ranking.shown[y] & (x < y)
        return possible, jnp.sum(jnp.where(inside, logs, 0.0))

    over_pairs = jax.vmap(jax.vmap(after_swap, (None, 0)), (0, None))
    possible, log_odds = over_pairs(slots, slots)
    return jnp.where(possible, jax.nn.sigmoid(log_odds), 0.0)


def _draw(
    key: Key,
    available: Callable[[PyTree, Array], Array],
    place: Callable[[PyTree, Array], PyTree],
    start: PyTree,
    edges: Array,
    mask: Array,
    k: int,
) -> Ranking:
    """Fill k slots, each uniformly from what is available; one coin a slot at any padding."""
    n_docs = mask.shape[0]
    coins = jax.random.uniform(key, (k,))
    shown = jnp.arange(k) < jnp.sum(mask)

    def fill(
        carry: tuple[PyTree, Array], at: tuple[Array, Array]
    ) -> tuple[tuple[PyTree, Array], tuple[Array, Array]]:
        state, placed = carry
        coin, is_shown = at
        free = available(state, placed) & is_shown
        n_free = jnp.sum(free, dtype=jnp.int32)
        pick = jnp.minimum((coin * n_free).astype(jnp.int32), n_free - 1)
        document = jnp.argmax(jnp.cumsum(free) == pick + 1).astype(jnp.int32)
        document = jnp.where(is_shown, document, n_docs - 1)
        placed = placed | ((jnp.arange(n_docs) == document) & is_shown)
        moved = jax.tree.map(
            lambda new, old: jnp.where(is_shown, new, old), place(state, document), state
        )
        return (moved, placed), (document, jnp.where(is_shown, n_free, 1))

    nobody = jnp.zeros(n_docs, bool)
    _, (order, choices) = jax.lax.scan(fill, (start, nobody), (coins, shown))
    both = shown[:, None] & shown[None, :]
    among = edges[order[:, None], order[None, :]] & both
    return Ranking(order, shown, choices, _log_p(choices), among)


def _log_p(choices: Array) -> Array:
    return -jnp.sum(jnp.log(choices.astype(jnp.result_type(float))))


def _fit(order: Array, k: int) -> Array:
    """The first k of an order, repeating its last where there are fewer."""
    return order[jnp.minimum(jnp.arange(k), order.shape[0] - 1)]


def _components(linked: Array) -> Array:
    """[n_docs] the smallest index that each document is linked to, directly or along a path."""
    n_docs = linked.shape[0]
    itself = linked | jnp.eye(n_docs, dtype=bool)

    def spread(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        labels, _ = carry
        lowest = jnp.min(jnp.where(itself, labels[None, :], n_docs), axis=1)
        return lowest, jnp.any(lowest != labels)

    labels = jnp.arange(n_docs)
    return jax.lax.while_loop(lambda carry: carry[1], spread, (labels, jnp.array(True)))[0]
