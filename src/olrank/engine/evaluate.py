"""NDCG of held-out sets on the device, for every shard and replica."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from olrank.engine.protocol import Protocol, Queries
from olrank.metrics import ndcg as ndcgs
from olrank.types import Array, Key, PyTree, Ranker

_ROWS = 16_384  # scored at once, so that hidden layers stay small


def mean_ndcg(
    ranker: Ranker, protocol: Protocol, states: PyTree, keys: Array, tests: tuple[Queries, ...]
) -> Array:
    """[H, S, R] of every held-out set, shard and replica."""

    def one(test: Queries) -> Array:
        over_replicas = jax.vmap(
            partial(_mean, ranker, protocol, test), (0, None), axis_size=protocol.n_replicas
        )
        # Shard by shard: the sorted lists of all of them together may not fit.
        values: Array = jax.lax.map(lambda shard: over_replicas(*shard), (states, keys))
        return values

    return jnp.stack([one(test) for test in tests])


@partial(jax.jit, static_argnums=(0, 1))
def ndcg_of_each_query(
    ranker: Ranker,
    protocol: Protocol,
    states: PyTree,
    keys: Array,
    tests: tuple[Queries, ...],
    t: Array,
) -> tuple[Array, ...]:
    """[H] of [S, R, n_queries], with the ties of the evaluation after round t.

    A program of its own: asking for it does not touch the one that learns.
    """

    def one(test: Queries, state: PyTree, key: Key) -> Array:
        ties = jax.random.split(jax.random.fold_in(key, t), 5)[4]
        values = _by_query(ranker, protocol, test, state, ties)
        return ndcgs.count_empty(values, test.ideal > 0, protocol.empty)

    def all_of(test: Queries) -> Array:
        over_replicas = jax.vmap(partial(one, test), (0, None), axis_size=protocol.n_replicas)
        values: Array = jax.lax.map(lambda shard: over_replicas(*shard), (states, keys))
        return values

    return tuple(all_of(test) for test in tests)


def _mean(ranker: Ranker, protocol: Protocol, test: Queries, state: PyTree, key: Key) -> Array:
    """Mean NDCG@k of the current scores on the test set."""
    values = _by_query(ranker, protocol, test, state, key)
    there = jnp.arange(values.shape[0]) < test.n
    return ndcgs.mean_over_queries(values, test.ideal > 0, protocol.empty, there)


def _by_query(ranker: Ranker, protocol: Protocol, test: Queries, state: PyTree, key: Key) -> Array:
    """[n_queries] NDCG@k of the current scores."""
    scores = _score_all(ranker, state, test.rows.features)
    mask = test.slots < test.n_docs[:, None]
    ids = jnp.where(mask, test.first[:, None] + test.slots, 0)
    assert test.rows.grades is not None
    grades = test.rows.grades[ids]
    return ndcgs.evaluate_ndcg(key, scores[ids], grades, mask, test.ideal, protocol.k)


def _score_all(ranker: Ranker, state: PyTree, features: Array) -> Array:
    n_rows, n_features = features.shape
    if n_rows <= _ROWS:
        return ranker.score(state, features)
    n_blocks = -(-n_rows // _ROWS)
    padded = jnp.pad(features, ((0, n_blocks * _ROWS - n_rows), (0, 0)))
    blocks = padded.reshape(n_blocks, _ROWS, n_features)
    scores: Array = jax.lax.map(lambda block: ranker.score(state, block), blocks)
    return scores.reshape(-1)[:n_rows]
