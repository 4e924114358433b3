"""Simulate online learning: one compiled step a round, scanned over rounds, for many replicas.

A round draws a query, ranks it, lets the simulated user click, measures, and learns. A *shard* is
one seed on one fold; its replicas (settings, users, stop rules) meet the same queries. Queries,
click coins and theta_0 are keyed by (data, fold, seed, round), never by ranker or setting, so that
every ranker meets the same queries and the same moods and comparisons are paired.

Queries differ wildly in size, so a query is padded to the size of its bucket only, and each bucket
is compiled at its own size. The choice of a bucket must stand outside `vmap`, or every replica
would pay for all of them; it can, because a shard's replicas share the query. Shards do not share
it: seeds with one sequence of buckets would miss part of the variance between queries, and their
intervals would lie. So shards are served one after the other inside the step, and learn together.

Arrays in, arrays out: rows for people are made elsewhere, so that this runs wherever NumPy and JAX
do.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from olrank.engine.buckets import bucket_sizes
from olrank.errors import ConfigError
from olrank.metrics import ndcg as ndcgs
from olrank.metrics import online
from olrank.types import Array, Dataset, Impression, Key, PyTree, Ranker, Ranking, Rows
from olrank.users.user import User, click

_CHUNK = 500  # rounds between two reports to the host; few enough to feel alive
_EVALUATE_ROWS = 16_384  # test rows scored at once, so that hidden layers stay small

Floats = npt.NDArray[np.float64]


class Queries(NamedTuple):
    """A data set on the device, its arrays perhaps longer than it is; see `place`.

    Attributes:
        rows: features and grades of all documents.
        relevance: [n_rows] h, zeros where unknown.
        first: [n_queries] int32, first row of each query.
        n_docs: [n_queries] int32.
        ideal: [n_queries] ideal DCG@k.
        slots: [max_docs] int32, 0, 1, ...; at least as many as the largest query has documents.
        n: int32, how many queries there are; what lies behind them has no documents.
    """

    rows: Rows
    relevance: Array
    first: Array
    n_docs: Array
    ideal: Array
    slots: Array
    n: Array


class Measured(NamedTuple):
    """What came out of a run: S shards, R replicas, T rounds, E evaluations, H held-out sets.

    Attributes:
        evaluated: [E] rounds after which the held-out sets were evaluated.
        offline: [H, S, R, E] mean NDCG@k on each held-out set.
        online: [S, R, T] NDCG@k of the served lists.
        regret: [S, R, T] mis-ordered pairs of the served lists.
        examined_regret: [S, R, T] of these, pairs that were both examined.
        certain_ratio: [S, R, T] NaN where a list had fewer than two documents.
        by_query: [H] of float32 [S, R, n_queries], NDCG@k of each held-out query after the last
            evaluated round, NaN where `offline` leaves a query out; () unless asked for.
    """

    evaluated: npt.NDArray[np.int64]
    offline: Floats
    online: Floats
    regret: Floats
    examined_regret: Floats
    certain_ratio: Floats
    by_query: tuple[npt.NDArray[np.float32], ...] = ()


class Change(NamedTuple):
    """Other grades on the same documents, from some round on.

    Attributes:
        after: the last round with the old grades, from 1.
        train: queries with other grades, drawn from after that round.
        held_out: [H] evaluated after that round.
    """

    after: int
    train: Dataset
    held_out: Sequence[Dataset]


class Protocol(NamedTuple):
    """What is fixed in a compiled step.

    Attributes:
        k: slots shown, and the cut-off of NDCG.
        n_grades: of the scale.
        empty: how test queries without a relevant document count.
        sizes: padded sizes of the buckets, ascending, the largest query's among them.
        n_replicas: of a shard.
    """

    k: int
    n_grades: int
    empty: ndcgs.EmptyRule
    sizes: tuple[int, ...]
    n_replicas: int


class Served(NamedTuple):
    """A list as it was shown: the ranking, its rows [k] in the table, its regret, its ideal DCG."""

    ranking: Ranking
    rows: Array
    regret: Array
    ideal: Array


Progress = Callable[[int, int], None]
"""Called with (rounds done, rounds in all) after every chunk."""


def evaluation_rounds(rounds: int, n_even: int = 20) -> list[int]:
    """Rounds to evaluate after: 1, 2, 5, 10, ... and `n_even` even ones, the last among them."""
    log_spaced = {m * 10**e for e in range(9) for m in (1, 2, 5)}
    even = {round(rounds * i / n_even) for i in range(1, n_even + 1)}
    return sorted(r for r in log_spaced | even if 1 <= r <= rounds)


def place(data: Dataset, k: int, *, rounded: bool = False) -> Queries:
    """Put a data set on the device, with its ideal DCG.

    Args:
        data: the set.
        k: the cut-off of the ideal DCG.
        rounded: round the arrays' lengths up, so that sets of about the same size, like the folds
            of one, are served by one compiled program.
    """
    dtype = jnp.result_type(float)
    length = _rounded if rounded else int
    slots = jnp.arange(length(int(data.sizes.max())), dtype=jnp.int32)
    n_rows, n_queries = length(data.n_rows), length(data.n_queries)
    first = jnp.asarray(_filled(data.offsets[:-1], n_queries), jnp.int32)
    n_docs = jnp.asarray(_filled(data.sizes, n_queries), jnp.int32)
    grades = jnp.asarray(_filled(data.grades, n_rows), jnp.int32)
    relevance = np.zeros(data.n_rows) if data.relevance is None else data.relevance
    mask = slots < n_docs[:, None]
    ids = jnp.where(mask, first[:, None] + slots, 0)
    return Queries(
        rows=Rows(jnp.asarray(_filled(data.features, n_rows), dtype), grades),
        relevance=jnp.asarray(_filled(relevance, n_rows), dtype),
        first=first,
        n_docs=n_docs,
        ideal=ndcgs.ideal_dcg(grades[ids], mask, k),
        slots=slots,
        n=jnp.asarray(data.n_queries, jnp.int32),
    )


def _rounded(n: int) -> int:
    """The next number of at most three binary digits and zeros: 1 to 8, 10, 12, 14, 16, 20, ..."""
    step = 1 << max(0, n.bit_length() - 3)
    return -(-n // step) * step


def _filled(values: npt.NDArray[Any], n: int) -> npt.NDArray[Any]:
    """The same with zeros behind, n in all."""
    if len(values) == n:
        return values
    return np.concatenate([values, np.zeros((n - len(values), *values.shape[1:]), values.dtype)])


def shard_key(data_name: str, fold: str, seed: int) -> Key:
    """The key of a shard: everything random in it follows from data, fold and seed."""
    return jax.random.fold_in(jax.random.key(seed), fold_number(data_name, fold))


def fold_number(data_name: str, fold: str) -> int:
    """A number for a fold of a data set."""
    return zlib.crc32(f"{data_name}|{fold}".encode())


def stack(trees: Sequence[PyTree]) -> PyTree:
    """Settings or users of several replicas, as one pytree with a leading axis."""
    dtype = jnp.result_type(float)
    return jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(x, dtype) for x in leaves]), *trees)


def run(
    ranker: Ranker,
    numbers: Sequence[PyTree],
    users: Sequence[User],
    keys: Sequence[Key],
    train: Dataset,
    held_out: Sequence[Dataset],
    *,
    rounds: int,
    k: int = 10,
    empty: ndcgs.EmptyRule = "skip",
    evaluate_after: Sequence[int] | None = None,
    sizes: Sequence[int] | None = None,
    chunk: int = _CHUNK,
    per_query: bool = False,
    change: Change | None = None,
    progress: Progress | None = None,
    so_far: Callable[[Measured], None] | None = None,
) -> Measured:
    """Simulate every replica on every shard.

    Args:
        ranker: the algorithm.
        numbers: [R] its numeric settings, one for each replica.
        users: [R] who clicks, one for each replica.
        keys: [S] of the shards; see `shard_key`.
        train: queries are drawn from it, uniformly with replacement.
        held_out: evaluated after the rounds in `evaluate_after`.
        rounds: T.
        k: slots shown, and the cut-off of NDCG.
        empty: how test queries without a relevant document count.
        evaluate_after: rounds from 1; `evaluation_rounds(rounds)` when None.
        sizes: of the buckets; chosen for the data when None, the largest query's size for a plain
            scan without buckets.
        chunk: rounds between two reports, at most.
        per_query: also measure each held-out query after the last evaluated round.
        change: to other grades, after some round; never when None.
        progress: told after every chunk.
        so_far: given what was measured up to the end of each chunk but the last.

    Returns:
        Measurements by shard and replica.
    """
    evaluated = _checked_rounds(evaluate_after or evaluation_rounds(rounds), rounds)
    n_replicas = len(numbers)
    protocol = Protocol(
        k=k,
        n_grades=max(data.max_grade for data in (train, *held_out)) + 1,
        empty=empty,
        sizes=tuple(sizes) if sizes is not None else bucket_sizes(train.sizes),
        n_replicas=n_replicas,
    )
    queries, tests = _placed(train, held_out, k)
    stacked, crowd = stack(numbers), stack(users)
    shard_keys = jnp.stack(list(keys))
    states = _start(ranker, protocol, train.n_features, shard_keys, stacked)
    parts: list[tuple[npt.NDArray[np.floating], ...]] = []
    by_query: tuple[npt.NDArray[np.float32], ...] = ()
    for span in _spans(rounds, chunk, _cuts(evaluated, per_query, change)):
        states, measured = _chunk(
            ranker, protocol, states, shard_keys, queries, tests, crowd,
            jnp.asarray(span, jnp.int32), jnp.asarray(np.isin(span, evaluated)),
        )  # fmt: skip
        parts.append(tuple(np.asarray(m) for m in measured))
        done = int(span[-1])
        if per_query and done == evaluated[-1]:
            each = _each_query(ranker, protocol, states, shard_keys, tests, jnp.int32(done))
            by_query = tuple(
                np.asarray(values, np.float32)[..., : data.n_queries]
                for values, data in zip(each, held_out, strict=True)
            )
        if change is not None and done == change.after:
            queries, tests = _placed(change.train, change.held_out, k)
        if progress is not None:
            progress(done, rounds)
        if so_far is not None and done < rounds:
            so_far(_gather(parts, [r for r in evaluated if r <= done], n_replicas))
    return _gather(parts, evaluated, n_replicas)._replace(by_query=by_query)


def _placed(
    train: Dataset, held_out: Sequence[Dataset], k: int
) -> tuple[Queries, tuple[Queries, ...]]:
    tests = tuple(place(data, k, rounded=True) for data in held_out)
    return place(train, k, rounded=True), tests


def _checked_rounds(evaluate_after: Sequence[int], rounds: int) -> list[int]:
    evaluated = sorted(set(evaluate_after))
    if evaluated[0] < 1 or evaluated[-1] > rounds:
        raise ConfigError(
            f"evaluate_after: rounds count from 1 to {rounds}, found {evaluated[0]} to "
            f"{evaluated[-1]}."
        )
    return evaluated


def _chunk_length(rounds: int, done: int, most: int) -> int:
    """Equal chunks where possible: every other length compiles once more."""
    longest = max(c for c in range(1, min(most, rounds) + 1) if rounds % c == 0)
    length = longest if longest >= most // 10 or longest == rounds else most
    return min(length, rounds - done)


def _cuts(evaluated: Sequence[int], per_query: bool, change: Change | None) -> list[int]:
    """Rounds that a chunk must end with, because something is done after them."""
    return ([evaluated[-1]] if per_query else []) + ([] if change is None else [change.after])


def _spans(rounds: int, most: int, cuts: Sequence[int]) -> Iterator[npt.NDArray[np.int64]]:
    """The rounds of each chunk, from 1."""
    edges = sorted({0, *cuts, rounds})
    for start, end in itertools.pairwise(edges):
        done = 0
        while done < end - start:
            length = _chunk_length(end - start, done, most)
            yield np.arange(start + done + 1, start + done + 1 + length)
            done += length


@partial(jax.jit, static_argnums=(0, 1, 2))
def _start(
    ranker: Ranker, protocol: Protocol, n_features: int, keys: Array, numbers: PyTree
) -> PyTree:
    """[S, R] initial states; theta_0 follows from the shard alone."""

    def one(key: Key, settings: PyTree) -> PyTree:
        return ranker.init(jax.random.fold_in(key, 0), n_features, settings)

    replicas = jax.vmap(one, (None, 0), axis_size=protocol.n_replicas)
    return jax.vmap(replicas, (0, None))(keys, numbers)


@partial(jax.jit, static_argnums=(0, 1), donate_argnums=(2,))
def _chunk(
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
            lambda: _evaluate_all(ranker, protocol, states, split[:, 4], tests),
            lambda: jnp.full((len(tests), *served.ideal.shape), jnp.nan, jnp.result_type(float)),
        )
        return states, (offline, *measured)

    return jax.lax.scan(one_round, states, (span, due))


def _serve(
    ranker: Ranker, protocol: Protocol, states: PyTree, keys: Array, queries: Queries, drawn: Array
) -> Served:
    """[S, R] lists: shards one after the other, each at the size of its query's bucket."""
    branches = [partial(_serve_padded, ranker, protocol, queries, size) for size in protocol.sizes]
    edges = jnp.asarray(protocol.sizes[:-1], jnp.int32)

    def one_shard(shard: tuple[PyTree, Array, Array]) -> Served:
        state, key, query = shard
        bucket = jnp.sum(queries.n_docs[query] > edges)
        return _as_served(jax.lax.switch(bucket, branches, state, key, query))

    if drawn.shape[0] == 1:
        alone = one_shard((jax.tree.map(lambda leaf: leaf[0], states), keys[0], drawn[0]))
        return _as_served(jax.tree.map(lambda leaf: leaf[None], alone))
    return _as_served(jax.lax.map(one_shard, (states, keys, drawn)))


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


def _evaluate_all(
    ranker: Ranker, protocol: Protocol, states: PyTree, keys: Array, tests: tuple[Queries, ...]
) -> Array:
    """[H, S, R] of every held-out set, shard and replica."""

    def one(test: Queries) -> Array:
        over_replicas = jax.vmap(
            partial(_evaluate, ranker, protocol, test), (0, None), axis_size=protocol.n_replicas
        )
        # Shard by shard: the sorted lists of all of them together may not fit.
        values: Array = jax.lax.map(lambda shard: over_replicas(*shard), (states, keys))
        return values

    return jnp.stack([one(test) for test in tests])


@partial(jax.jit, static_argnums=(0, 1))
def _each_query(
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
        values = _ndcg_by_query(ranker, protocol, test, state, ties)
        return ndcgs.count_empty(values, test.ideal > 0, protocol.empty)

    def all_of(test: Queries) -> Array:
        over_replicas = jax.vmap(partial(one, test), (0, None), axis_size=protocol.n_replicas)
        values: Array = jax.lax.map(lambda shard: over_replicas(*shard), (states, keys))
        return values

    return tuple(all_of(test) for test in tests)


def _evaluate(ranker: Ranker, protocol: Protocol, test: Queries, state: PyTree, key: Key) -> Array:
    """Mean NDCG@k of the current scores on the test set."""
    values = _ndcg_by_query(ranker, protocol, test, state, key)
    there = jnp.arange(values.shape[0]) < test.n
    return ndcgs.mean_over_queries(values, test.ideal > 0, protocol.empty, there)


def _ndcg_by_query(
    ranker: Ranker, protocol: Protocol, test: Queries, state: PyTree, key: Key
) -> Array:
    """[n_queries] NDCG@k of the current scores."""
    scores = _score_all(ranker, state, test.rows.features)
    mask = test.slots < test.n_docs[:, None]
    ids = jnp.where(mask, test.first[:, None] + test.slots, 0)
    assert test.rows.grades is not None
    grades = test.rows.grades[ids]
    return ndcgs.evaluate_ndcg(key, scores[ids], grades, mask, test.ideal, protocol.k)


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
    """Chunks of [T, ..., R] to [..., R, T], in float64 on the host."""
    whole: list[Any] = [
        np.moveaxis(np.concatenate(column), 0, -1)[..., :n_replicas, :].astype(np.float64)
        for column in zip(*parts, strict=True)
    ]
    at = np.asarray(evaluated, np.int64)
    return Measured(at, whole[0][..., at - 1], *whole[1:])
