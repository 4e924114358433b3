"""Simulate online learning: one compiled step a round, scanned over rounds, for all replicas.

A round draws a query, ranks it, lets the simulated user click, measures, and learns. Queries, click
coins and theta_0 are keyed by (data, fold, seed, round), never by ranker or setting, so that every
ranker meets the same queries and the same moods and comparisons are paired.

Arrays in, arrays out: rows for people are made elsewhere, so that this runs wherever NumPy and JAX
do.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from olrank.errors import ConfigError
from olrank.metrics import ndcg as ndcgs
from olrank.metrics import online
from olrank.types import Array, Dataset, Impression, Key, PyTree, Ranker, Rows
from olrank.users.user import User, click

_CHUNK = 500  # rounds between two reports to the host; few enough to feel alive
_EVALUATE_ROWS = 16_384  # test rows scored at once, so that hidden layers stay small

Floats = npt.NDArray[np.float64]


class Queries(NamedTuple):
    """A data set on the device.

    Attributes:
        rows: features and grades of all documents.
        relevance: [n_rows] h, zeros where unknown.
        first: [n_queries] int32, first row of each query.
        n_docs: [n_queries] int32.
        ideal: [n_queries] ideal DCG@k.
        slots: [max_docs] int32, 0, 1, ...; its length is the padded size of a query.
    """

    rows: Rows
    relevance: Array
    first: Array
    n_docs: Array
    ideal: Array
    slots: Array


class Measured(NamedTuple):
    """What came out of a run; R replicas, T rounds, E evaluations, Q test queries.

    Attributes:
        evaluated: [E] rounds after which the test set was evaluated.
        offline: [R, E] mean NDCG@k on the test set.
        online: [R, T] NDCG@k of the served lists.
        regret: [R, T] mis-ordered pairs of the served lists.
        examined_regret: [R, T] of these, pairs that were both examined.
        certain_ratio: [R, T] NaN where a list had fewer than two documents.
    """

    evaluated: npt.NDArray[np.int64]
    offline: Floats
    online: Floats
    regret: Floats
    examined_regret: Floats
    certain_ratio: Floats


Progress = Callable[[int, int], None]
"""Called with (rounds done, rounds in all) after every chunk."""


def evaluation_rounds(rounds: int, n_even: int = 20) -> list[int]:
    """Rounds to evaluate after: 1, 2, 5, 10, ... and `n_even` even ones, the last among them."""
    log_spaced = {m * 10**e for e in range(9) for m in (1, 2, 5)}
    even = {round(rounds * i / n_even) for i in range(1, n_even + 1)}
    return sorted(r for r in log_spaced | even if 1 <= r <= rounds)


def place(data: Dataset, k: int) -> Queries:
    """Put a data set on the device, with its ideal DCG."""
    dtype = jnp.result_type(float)
    max_docs = int(data.sizes.max())
    slots = jnp.arange(max_docs, dtype=jnp.int32)
    first = jnp.asarray(data.offsets[:-1], jnp.int32)
    n_docs = jnp.asarray(data.sizes, jnp.int32)
    grades = jnp.asarray(data.grades, jnp.int32)
    relevance = np.zeros(data.n_rows) if data.relevance is None else data.relevance
    mask = slots < n_docs[:, None]
    ids = jnp.where(mask, first[:, None] + slots, 0)
    return Queries(
        rows=Rows(jnp.asarray(data.features, dtype), grades),
        relevance=jnp.asarray(relevance, dtype),
        first=first,
        n_docs=n_docs,
        ideal=ndcgs.ideal_dcg(grades[ids], mask, k),
        slots=slots,
    )


def replica_key(data_name: str, fold: str, seed: int) -> Key:
    """The key of a replica: everything random in it follows from data, fold and seed."""
    where = zlib.crc32(f"{data_name}|{fold}".encode())
    return jax.random.fold_in(jax.random.key(seed), where)


def run(
    ranker: Ranker,
    numbers: PyTree,
    keys: Sequence[Key],
    train: Dataset,
    test: Dataset,
    user: User,
    *,
    rounds: int,
    k: int = 10,
    empty: ndcgs.EmptyRule = "skip",
    evaluate_after: Sequence[int] | None = None,
    progress: Progress | None = None,
) -> Measured:
    """Simulate one replica for each key.

    Args:
        ranker: the algorithm.
        numbers: its numeric settings, the same for all replicas.
        keys: of the replicas; see `replica_key`.
        train: queries are drawn from it, uniformly with replacement.
        test: evaluated after the rounds in `evaluate_after`.
        user: clicks.
        rounds: T.
        k: slots shown, and the cut-off of NDCG.
        empty: how test queries without a relevant document count.
        evaluate_after: rounds from 1; `evaluation_rounds(rounds)` when None.
        progress: told after every chunk.

    Returns:
        Measurements, one row for each key.
    """
    evaluated = sorted(set(evaluate_after or evaluation_rounds(rounds)))
    if not 1 <= evaluated[0] <= evaluated[-1] <= rounds:
        raise ConfigError(
            f"evaluate_after: rounds count from 1 to {rounds}, found {evaluated[0]} to "
            f"{evaluated[-1]}."
        )
    n_grades = max(train.max_grade, test.max_grade) + 1
    queries, held_out = place(train, k), place(test, k)
    # A width of 1 compiles to another program than the rest, and rounds differently.
    stacked = jnp.stack(list(keys) if len(keys) > 1 else [keys[0], keys[0]])
    states = jax.vmap(lambda key: _start(ranker, key, train.n_features, numbers))(stacked)
    parts: list[tuple[npt.NDArray[np.floating], ...]] = []
    done = 0
    while done < rounds:
        span = np.arange(done + 1, done + 1 + _chunk_length(rounds, done))
        due = np.isin(span, evaluated)
        states, measured = _chunk(
            ranker, k, n_grades, empty, states, stacked, queries, held_out, user,
            jnp.asarray(span, jnp.int32), jnp.asarray(due),
        )  # fmt: skip
        parts.append(tuple(np.asarray(m) for m in measured))
        done = int(span[-1])
        if progress is not None:
            progress(done, rounds)
    return _gather(parts, evaluated, len(keys))


def _start(ranker: Ranker, key: Key, n_features: int, numbers: PyTree) -> PyTree:
    return ranker.init(jax.random.fold_in(key, 0), n_features, numbers)


def _chunk_length(rounds: int, done: int) -> int:
    """Equal chunks where possible: every other length compiles once more."""
    divisors = [c for c in range(1, min(_CHUNK, rounds) + 1) if rounds % c == 0]
    length = divisors[-1] if divisors[-1] >= 50 or divisors[-1] == rounds else _CHUNK
    return min(length, rounds - done)


@partial(jax.jit, static_argnums=(0, 1, 2, 3), donate_argnums=(4,))
def _chunk(
    ranker: Ranker,
    k: int,
    n_grades: int,
    empty: ndcgs.EmptyRule,
    states: PyTree,
    keys: Array,
    queries: Queries,
    test: Queries,
    user: User,
    span: Array,
    due: Array,
) -> tuple[PyTree, tuple[Array, ...]]:
    def one_round(states: PyTree, at: tuple[Array, Array]) -> tuple[PyTree, tuple[Array, ...]]:
        t, is_due = at
        round_keys = jax.vmap(jax.random.fold_in, (0, None))(keys, t)
        states, measured = jax.vmap(
            lambda state, key: _round(ranker, k, n_grades, state, key, queries, user)
        )(states, round_keys)
        offline = jax.lax.cond(
            is_due,
            lambda: jax.vmap(lambda state, key: _evaluate(ranker, k, empty, state, key, test))(
                states, round_keys
            ),
            lambda: jnp.full(keys.shape[0], jnp.nan, jnp.result_type(float)),
        )
        return states, (offline, *measured)

    return jax.lax.scan(one_round, states, (span, due))


def _round(
    ranker: Ranker, k: int, n_grades: int, state: PyTree, key: Key, queries: Queries, user: User
) -> tuple[PyTree, tuple[Array, ...]]:
    """One round of one replica: (state, (NDCG, regret, examined regret, certain ratio))."""
    query_key, rank_key, click_key, learn_key, _ = jax.random.split(key, 5)
    query = jax.random.randint(query_key, (), 0, queries.first.shape[0])
    mask = queries.slots < queries.n_docs[query]
    ids = jnp.where(mask, queries.first[query] + queries.slots, queries.first[query])
    features = jnp.where(mask[:, None], queries.rows.features[ids], 0.0)
    ranking = ranker.rank(state, rank_key, features, mask, k)
    rows = ids[ranking.order]
    assert queries.rows.grades is not None
    grades = queries.rows.grades[rows]
    reaction = click(user, click_key, grades, queries.relevance[rows], ranking.shown)
    dtype = jnp.result_type(float)
    measured = (
        ndcgs.ndcg(grades, ranking.shown, queries.ideal[query]),
        online.pairwise_regret(
            grades, ranking.shown, queries.rows.grades[ids], mask, n_grades
        ).astype(dtype),
        online.examined_regret(grades, reaction.examined).astype(dtype),
        online.certain_ratio(ranking.certain, ranking.shown),
    )
    candidates = jnp.where(mask, ids, -1)
    impression = Impression(rows, reaction.clicks, ranking, candidates)
    return ranker.learn(state, learn_key, impression, queries.rows), measured


def _evaluate(
    ranker: Ranker, k: int, empty: ndcgs.EmptyRule, state: PyTree, key: Key, test: Queries
) -> Array:
    """Mean NDCG@k of the current scores on the test set."""
    tie_key = jax.random.split(key, 5)[4]
    scores = _score_all(ranker, state, test.rows.features)
    mask = test.slots < test.n_docs[:, None]
    ids = jnp.where(mask, test.first[:, None] + test.slots, 0)
    assert test.rows.grades is not None
    grades = test.rows.grades[ids]
    values = ndcgs.evaluate_ndcg(tie_key, scores[ids], grades, mask, test.ideal, k)
    return ndcgs.mean_over_queries(values, test.ideal > 0, empty)


def _score_all(ranker: Ranker, state: PyTree, features: Array) -> Array:
    n_rows, n_features = features.shape
    if n_rows <= _EVALUATE_ROWS:
        return ranker.score(state, features)
    n_blocks = -(-n_rows // _EVALUATE_ROWS)
    padded = jnp.pad(features, ((0, n_blocks * _EVALUATE_ROWS - n_rows), (0, 0)))
    blocks = padded.reshape(n_blocks, _EVALUATE_ROWS, n_features)
    scores: Array = jax.lax.map(lambda block: ranker.score(state, block), blocks)
    return scores.reshape(-1)[:n_rows]


def _gather(
    parts: list[tuple[npt.NDArray[np.floating], ...]], evaluated: Sequence[int], n_replicas: int
) -> Measured:
    """Chunks of [rounds, replicas] to [replicas, rounds], in float64 on the host."""
    whole = [
        np.concatenate(column).T[:n_replicas].astype(np.float64)
        for column in zip(*parts, strict=True)
    ]
    at = np.asarray(evaluated, np.int64)
    return Measured(at, whole[0][:, at - 1], *whole[1:])
