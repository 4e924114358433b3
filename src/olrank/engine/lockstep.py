"""Simulate online learning: one compiled step a round, scanned over rounds, for many replicas.

A round draws a query, ranks it, lets the simulated user click, measures, and learns. A *shard* is
one seed on one fold; its replicas (settings, users, stop rules) meet the same queries. Queries,
click coins and theta_0 are keyed by (data, fold, seed, round), never by ranker or setting, so that
every ranker meets the same queries and the same moods and comparisons are paired.

This is the host's part: it puts the data on the device, cuts the rounds into chunks, and gathers
what each chunk measured. Arrays in, arrays out: rows for people are made elsewhere, so that this
runs wherever NumPy and JAX do.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from olrank.engine.buckets import bucket_sizes
from olrank.engine.compiled import run_chunk, start_replicas
from olrank.engine.evaluate import ndcg_of_each_query
from olrank.engine.protocol import Protocol, Queries, place
from olrank.errors import ConfigError
from olrank.metrics import ndcg as ndcgs
from olrank.types import Dataset, Key, PyTree, Ranker
from olrank.users.user import User

_CHUNK = 500  # rounds between two reports to the host; few enough to feel alive

AT_ONCE = 192  # replicas of several shards that a GPU serves at once

Floats = npt.NDArray[np.float64]


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


Progress = Callable[[int, int], None]
"""Called with (rounds done, rounds in all) after every chunk."""


def evaluation_rounds(rounds: int, n_even: int = 20) -> list[int]:
    """Rounds to evaluate after: 1, 2, 5, 10, ... and `n_even` even ones, the last among them."""
    log_spaced = {m * 10**e for e in range(9) for m in (1, 2, 5)}
    even = {round(rounds * i / n_even) for i in range(1, n_even + 1)}
    return sorted(r for r in log_spaced | even if 1 <= r <= rounds)


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
    together: int | None = None,
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
        together: shards that are served at once, a divisor of their number; as many as the device
            has room for when None.
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
        together=together or shards_together(len(keys), n_replicas),
    )
    queries, tests = _placed(train, held_out, k)
    stacked, crowd = stack(numbers), stack(users)
    shard_keys = jnp.stack(list(keys))
    states = start_replicas(ranker, protocol, train.n_features, shard_keys, stacked)
    parts: list[tuple[npt.NDArray[np.floating], ...]] = []
    by_query: tuple[npt.NDArray[np.float32], ...] = ()
    for span in _spans(rounds, chunk, _cuts(evaluated, per_query, change)):
        states, measured = run_chunk(
            ranker, protocol, states, shard_keys, queries, tests, crowd,
            jnp.asarray(span, jnp.int32), jnp.asarray(np.isin(span, evaluated)),
        )  # fmt: skip
        parts.append(tuple(np.asarray(m) for m in measured))
        done = int(span[-1])
        if per_query and done == evaluated[-1]:
            each = ndcg_of_each_query(ranker, protocol, states, shard_keys, tests, jnp.int32(done))
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


def shards_together(n_shards: int, n_replicas: int, at_once: int = AT_ONCE) -> int:
    """How many shards to serve at once, when the device serves `at_once` replicas.

    A GPU takes about as long for one replica as for many, so that a shard of few would leave it
    idle. A processor has nothing to spare for the padding.
    """
    if jax.devices()[0].platform == "cpu":
        return 1
    most = max(1, at_once // n_replicas)
    return max(n for n in range(1, n_shards + 1) if n_shards % n == 0 and n <= most)


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
