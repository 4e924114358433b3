"""Interleaving two orders of the same candidates, and crediting clicks to one of them.

"probabilistic" (Hofmann et al. 2011): each slot tosses a fair coin for one of the two and draws
from its softmax over ranks, P(d) ~ 1 / rank^3 among the documents not yet placed. Clicks are
credited by the chance that the candidate contributed the clicked document, all coins marginalised.
"team-draft" (Radlinski et al. 2008): for each pair of picks a coin says who picks first, then both
pick their best document left. Clicks are credited to the team that picked.

Both know the exact probability of the list they drew, given the two orders.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from olrank.errors import unknown_name
from olrank.types import Array, Key, Ranking

_SOFTMAX_POWER = 3.0  # the tau of Hofmann et al. 2011, in 1 / rank^tau

Interleave = Callable[[Key, Array, Array, Array, int], Ranking]
"""(key, ranks of the current order, ranks of the candidate, mask, k) -> Ranking.

Ranks are [n_docs], 1 at the top. The memo is [k]: the credit of a click at each slot to the
candidate, between -1 (all the current ranker's) and 1 (all the candidate's).
"""


def interleave(name: str) -> Interleave:
    """The method called `name`: "probabilistic" or "team-draft"."""
    methods = {"probabilistic": probabilistic, "team-draft": team_draft}
    if name not in methods:
        raise unknown_name("interleaving method", name, methods)
    return methods[name]


def ranks(key: Key, scores: Array, mask: Array) -> Array:
    """[n_docs] ranks by score from 1, ties drawn at random, padding last."""
    n_docs = scores.shape[0]
    tie_break = jax.random.uniform(key, (n_docs,))
    order = jnp.lexsort((tie_break, -scores, ~mask))
    return jnp.zeros(n_docs, jnp.int32).at[order].set(jnp.arange(1, n_docs + 1, dtype=jnp.int32))


def probabilistic(key: Key, current: Array, candidate: Array, mask: Array, k: int) -> Ranking:
    """Interleave by softmax over ranks; see the module's docstring."""
    n_docs = mask.shape[0]
    dtype = jnp.result_type(float)
    logits = -_SOFTMAX_POWER * jnp.log(jnp.stack([current, candidate]).astype(dtype))
    coin_key, draw_key = jax.random.split(key)
    coins = jax.random.bernoulli(coin_key, 0.5, (k,)).astype(jnp.int32)
    shown = jnp.arange(k) < jnp.sum(mask)

    def fill(left: Array, at: tuple[Array, Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        slot, coin, is_shown = at
        log_p = jax.nn.log_softmax(jnp.where(left, logits, -jnp.inf), axis=1)
        # Gumbel noise by document, so that padding never changes the draw.
        noise = jax.random.gumbel(jax.random.fold_in(draw_key, slot), (n_docs,), dtype)
        document = jnp.argmax(jnp.where(left, log_p[coin] + noise, -jnp.inf)).astype(jnp.int32)
        left = left & ~((jnp.arange(n_docs) == document) & is_shown)
        return left, (document, log_p[:, document])

    _, (order, log_ps) = jax.lax.scan(fill, mask, (jnp.arange(k), coins, shown))
    log_p = jnp.where(shown, jax.nn.logsumexp(log_ps, axis=1) - jnp.log(2.0), 0.0)
    # (p_candidate - p_current) / (p_candidate + p_current)
    credit = jnp.where(shown, jnp.tanh((log_ps[:, 1] - log_ps[:, 0]) / 2), 0.0)
    return _ranking(order, shown, jnp.sum(log_p), credit, mask, k)


def team_draft(key: Key, current: Array, candidate: Array, mask: Array, k: int) -> Ranking:
    """Interleave by team draft; see the module's docstring."""
    n_docs = mask.shape[0]
    both = jnp.stack([current, candidate])
    shown = jnp.arange(k) < jnp.sum(mask)
    first = jax.random.bernoulli(key, 0.5, ((k + 1) // 2,)).astype(jnp.int32)

    def best(left: Array, team: Array) -> Array:
        return jnp.argmin(jnp.where(left, both[team], n_docs + 1)).astype(jnp.int32)

    def pick(left: Array, team: Array) -> tuple[Array, Array]:
        document = best(left, team)
        return document, left & (jnp.arange(n_docs) != document)

    def fill(left: Array, at: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array, Array]]:
        """Two slots: the coin's team first, then the other; and the chance of these two."""
        starter, n_here = at
        one, left_one = pick(left, starter)
        two, left_two = pick(left_one, 1 - starter)
        other_one, left_other = pick(left, 1 - starter)
        other_two, _ = pick(left_other, starter)
        same = (other_one == one) & ((other_two == two) | (n_here < 2))
        p_here = jnp.where(n_here > 0, jnp.where(same, 1.0, 0.5), 1.0)
        left_after = jnp.where(n_here >= 2, left_two, jnp.where(n_here == 1, left_one, left))
        teams = jnp.stack([starter, 1 - starter])
        return left_after, (jnp.stack([one, two]), teams, jnp.log(p_here))

    n_shown = jnp.minimum(jnp.sum(mask), k)
    n_here = jnp.clip(n_shown - 2 * jnp.arange(first.shape[0]), 0, 2)
    _, (order, teams, log_p) = jax.lax.scan(fill, mask, (first, n_here))
    credit = jnp.where(shown, 2.0 * teams.reshape(-1)[:k] - 1.0, 0.0)
    return _ranking(order.reshape(-1)[:k], shown, jnp.sum(log_p), credit, mask, k)


def _ranking(
    order: Array, shown: Array, log_p: Array, credit: Array, mask: Array, k: int
) -> Ranking:
    choices = jnp.where(shown, jnp.sum(mask) - jnp.arange(k), 1).astype(jnp.int32)
    order = jnp.where(shown, order, mask.shape[0] - 1)  # the last is padding where there is any
    dtype = jnp.result_type(float)
    nothing_certain = jnp.zeros((k, k), bool)
    return Ranking(
        order, shown, choices, log_p.astype(dtype), nothing_certain, credit.astype(dtype)
    )
