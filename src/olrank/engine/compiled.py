"""The compiled part: a round of many replicas, and a chunk of rounds scanned over.

Queries differ wildly in size, so a query is padded to the size of its bucket only, and each bucket
is compiled at its own size. The choice of a bucket must stand outside `vmap`, or every replica
would pay for all of them; it can, because a shard's replicas share the query. Shards do not share
it: seeds with one sequence of buckets would miss part of the variance between queries, and their
intervals would lie. So each shard draws its own query, and shards are served one after the other
inside the step, or, where a device has room for more replicas than a shard has, several at once at
the size of the largest query among them: padding is shared, queries are not. They learn together.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from olrank.engine.evaluate import mean_ndcg
from olrank.engine.protocol import Protocol, Queries
from olrank.metrics import ndcg as ndcgs
from olrank.metrics import online
from olrank.types import Array, Impression, Key, PyTree, Ranker, Ranking
from olrank.users.user import User, click


class Served(NamedTuple):
    """A list as it was shown: the ranking, its rows [k] in the table, its regret, its ideal DCG."""

    ranking: Ranking
    rows: Array
    regret: Array
    ideal: Array


@partial(jax.jit, static_argnums=(0, 1, 2))
def start_replicas(
    ranker: Ranker, protocol: Protocol, n_features: int, keys: Array, numbers: PyTree
) -> PyTree:
    """[S, R] initial states; theta_0 follows from the shard alone."""

    def one(key: Key, settings: PyTree) -> PyTree:
        return ranker.init(jax.random.fold_in(key, 0), n_features, settings)

    replicas = jax.vmap(one, (None, 0), axis_size=protocol.n_replicas)
    return jax.vmap(replicas, (0, None))(keys, numbers)


@partial(jax.jit, static_argnums=(0, 1), donate_argnums=(2,))
def run_chunk(
    ranker: Ranker,
    protocol: Protocol,
    states: PyTree,
    keys: Array,
    queries: Queries,
    tests: tuple[Queries, ...],
    users: User,
    span: Array,
    due: Array,
) -> tuple[PyTree, tuple[Array, ...]]:
    """Rounds `span` of all shards and replicas; evaluates after those that are `due`."""

    def one_round(states: PyTree, at: tuple[Array, Array]) -> tuple[PyTree, tuple[Array, ...]]:
        t, is_due = at
        # [S, 5] keys: query, rank, click, learn, ties of the evaluation.
        split = jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, t), 5))(keys)
        drawn = jax.vmap(lambda key: jax.random.randint(key, (), 0, queries.n))(split[:, 0])
        served = _serve(ranker, protocol, states, split[:, 1], queries, drawn)
        both = jax.vmap(jax.vmap(partial(_react, ranker, queries), (0, 0, 0, None, None)),
                        (0, 0, None, 0, 0))  # fmt: skip
        states, measured = both(states, served, users, split[:, 2:4], drawn)
        offline = jax.lax.cond(
            is_due,
            lambda: mean_ndcg(ranker, protocol, states, split[:, 4], tests),
            lambda: jnp.full((len(tests), *served.ideal.shape), jnp.nan, jnp.result_type(float)),
        )
        return states, (offline, *measured)

    return jax.lax.scan(one_round, states, (span, due))


def _serve(
    ranker: Ranker, protocol: Protocol, states: PyTree, keys: Array, queries: Queries, drawn: Array
) -> Served:
    """[S, R] lists: some shards at a time, at the size of their largest query's bucket."""
    n_shards, together = drawn.shape[0], protocol.together
    serve = [partial(_serve_padded, ranker, protocol, queries, size) for size in protocol.sizes]
    edges = jnp.asarray(protocol.sizes[:-1], jnp.int32)
    shards = (states, keys, drawn)

    def at_once(shards: tuple[PyTree, Array, Array]) -> Served:
        bucket = jnp.sum(jnp.max(queries.n_docs[shards[2]]) > edges)
        return _as_served(jax.lax.switch(bucket, [jax.vmap(one) for one in serve], *shards))

    def alone(shard: tuple[PyTree, Array, Array]) -> Served:
        bucket = jnp.sum(queries.n_docs[shard[2]] > edges)
        return _as_served(jax.lax.switch(bucket, serve, *shard))

    if n_shards == 1:
        served = alone(jax.tree.map(lambda leaf: leaf[0], shards))
        return _as_served(jax.tree.map(lambda leaf: leaf[None], served))
    if together == 1:
        return _as_served(jax.lax.map(alone, shards))
    if together == n_shards:
        return at_once(shards)
    parted = jax.tree.map(
        lambda leaf: leaf.reshape(n_shards // together, together, *leaf.shape[1:]), shards
    )
    served = jax.lax.map(at_once, parted)
    return _as_served(jax.tree.map(lambda leaf: leaf.reshape(n_shards, *leaf.shape[2:]), served))


def _as_served(served: Served) -> Served:
    """What JAX's combinators give back, with its type."""
    return served


def _serve_padded(
    ranker: Ranker,
    protocol: Protocol,
    queries: Queries,
    size: int,
    states: PyTree,
    key: Key,
    query: Array,
) -> Served:
    """[R] lists of one query, padded to `size`."""
    slots = jnp.arange(size, dtype=jnp.int32)
    mask = slots < queries.n_docs[query]
    ids = queries.first[query] + jnp.where(mask, slots, 0)
    features = jnp.where(mask[:, None], queries.rows.features[ids], 0.0)
    assert queries.rows.grades is not None
    grades = queries.rows.grades

    def one(state: PyTree) -> Served:
        ranking = ranker.rank(state, key, features, mask, protocol.k)
        rows = ids[ranking.order]
        regret = online.pairwise_regret(
            grades[rows], ranking.shown, grades[ids], mask, protocol.n_grades
        )
        return Served(ranking, rows, regret.astype(features.dtype), queries.ideal[query])

    return _as_served(jax.vmap(one, axis_size=protocol.n_replicas)(states))


def _react(
    ranker: Ranker,
    queries: Queries,
    state: PyTree,
    served: Served,
    user: User,
    keys: Array,
    query: Array,
) -> tuple[PyTree, tuple[Array, ...]]:
    """One replica's user clicks, and the replica learns: (state, what was measured)."""
    assert queries.rows.grades is not None
    grades = queries.rows.grades[served.rows]
    shown = served.ranking.shown
    reaction = click(user, keys[0], grades, queries.relevance[served.rows], shown)
    inside = queries.slots < queries.n_docs[query]
    candidates = jnp.where(inside, queries.first[query] + queries.slots, -1)
    impression = Impression(served.rows, reaction.clicks, served.ranking, candidates)
    measured = (
        ndcgs.ndcg(grades, shown, served.ideal),
        served.regret,
        online.examined_regret(grades, reaction.examined).astype(served.regret.dtype),
        online.certain_ratio(served.ranking.certain, shown),
    )
    return ranker.learn(state, keys[1], impression, queries.rows), measured
