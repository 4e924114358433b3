"""Run any mix of replicas: grouped by what compiles together, in batches that fit the device.

Replicas of one design differ in numbers and users only and run in one compiled step; designs run
one after the other. A batch is padded to the size of the first, so that every batch is the same
program and a result does not depend on how the replicas were split. When the device runs out of
memory fewer shards are served at once, then the batch is halved, and the run goes on.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import numpy.typing as npt

from olrank.engine import lockstep
from olrank.errors import ConfigError
from olrank.metrics.ndcg import EmptyRule
from olrank.types import Dataset, Key, PyTree, Ranker
from olrank.users.user import User

_SHARE = 0.6  # of the device's memory that a batch may take; the rest is for what XLA needs
_CPU_BYTES = 4 << 30  # what a batch may take where the device does not tell its memory
_TANGENT_COPIES = 4  # tangents, their centred and scaled copies, and the compiler's own


class Replica(NamedTuple):
    """One line of a sweep: an algorithm with its numeric settings, and who clicks."""

    ranker: Ranker
    numbers: PyTree
    user: User


def run(
    replicas: Sequence[Replica],
    keys: Sequence[Key],
    train: Dataset,
    held_out: Sequence[Dataset],
    *,
    rounds: int,
    k: int = 10,
    empty: EmptyRule = "skip",
    evaluate_after: Sequence[int] | None = None,
    batch: int | None = None,
    sizes: Sequence[int] | None = None,
    per_query: bool = False,
    change: lockstep.Change | None = None,
    progress: lockstep.Progress | None = None,
    batched: Callable[[int], None] | None = None,
    so_far: Callable[[list[int], lockstep.Measured], None] | None = None,
) -> lockstep.Measured:
    """Simulate every replica on every shard, in the order of `replicas`.

    Args:
        replicas: any mix of rankers, settings and users.
        keys: of the shards; see `lockstep.shard_key`.
        train: queries are drawn from it.
        held_out: evaluated on the way.
        rounds: T.
        k: slots shown, and the cut-off of NDCG.
        empty: how held-out queries without a relevant document count.
        evaluate_after: rounds from 1; log-spaced and even ones when None.
        batch: replicas at once; as many as fit when None.
        sizes: that queries are padded to; chosen for the data when None.
        per_query: also measure each held-out query; see `lockstep.run`.
        change: to other grades, after some round; never when None.
        progress: told (rounds done, rounds in all), summed over the batches.
        batched: told the padded width of every batch that ran: with `batch` it settles the bits.
        so_far: given, after every chunk, which replicas are running and what they measured so far.
    """
    if not replicas:
        raise ConfigError("a sweep needs at least one replica.")
    groups = _groups(replicas)
    n_done, pieces, places = 0, [], []
    for members in groups:
        size = batch or _fitting(replicas[members[0]], len(keys), train)
        # A width of 1 compiles to another program than the rest, and rounds differently: it is
        # for a replica that is alone.
        size = max(size, min(2, len(members)))
        waiting, at_once = list(members), lockstep.AT_ONCE
        while waiting:
            now = waiting[: max(1, size)]
            # One program for all batches of a group.
            padded = now + [now[-1]] * (min(size, len(members)) - len(now))
            together = lockstep.shards_together(len(keys), len(padded), at_once)
            try:
                measured = lockstep.run(
                    replicas[now[0]].ranker,
                    [replicas[i].numbers for i in padded],
                    [replicas[i].user for i in padded],
                    keys,
                    train,
                    held_out,
                    rounds=rounds,
                    k=k,
                    empty=empty,
                    evaluate_after=evaluate_after,
                    sizes=sizes,
                    together=together,
                    per_query=per_query,
                    change=change,
                    progress=_scaled(progress, n_done, len(now), rounds, len(replicas)),
                    so_far=_of_batch(so_far, now),
                )
            except jax.errors.JaxRuntimeError as error:
                if "RESOURCE_EXHAUSTED" not in str(error) or (size <= 2 and together == 1):
                    raise
                if together > 1:
                    at_once = together * len(padded) // 2
                else:
                    size = max(2, min(size, len(now)) // 2)
                gc.collect()
                continue
            if batched is not None:
                batched(len(padded))
            pieces.append(_first(measured, len(now)))
            places.extend(now)
            n_done += len(now)
            waiting = waiting[len(now) :]
    return _joined(pieces, places)


def _fitting(replica: Replica, n_shards: int, train: Dataset) -> int:
    """How many replicas fit: their states on all shards, and the tangents of one shard's query."""
    shapes = jax.eval_shape(
        lambda key: replica.ranker.init(key, train.n_features, replica.numbers), jax.random.key(0)
    )
    # A tangent is as large as the parameters.
    tangents = int(train.sizes.max()) * _bytes(getattr(shapes, "theta", ())) * _TANGENT_COPIES
    # A state is there twice while a step writes the next one.
    each = 2 * n_shards * _bytes(shapes) + tangents
    limit = _CPU_BYTES
    stats = jax.devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        limit = int(stats["bytes_limit"] * _SHARE)
    if each > limit:
        raise ConfigError(
            f"one replica needs about {each / 1e9:.1f} GB, the device has {limit / 1e9:.1f} GB to "
            "give. Run fewer seeds at once, shorten `history`, or use confidence = 'diagonal'."
        )
    return max(1, limit // each)


def _bytes(tree: PyTree) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def _groups(replicas: Sequence[Replica]) -> list[list[int]]:
    """Indices of the replicas, by ranker, in order of first appearance."""
    found: dict[int, list[int]] = {}
    for i, replica in enumerate(replicas):
        found.setdefault(id(replica.ranker.rank), []).append(i)
    return list(found.values())


def _scaled(
    progress: lockstep.Progress | None, before: int, n_now: int, rounds: int, n_replicas: int
) -> lockstep.Progress | None:
    if progress is None:
        return None

    def tell(done: int, of: int) -> None:
        progress((before * rounds + done * n_now) // n_replicas, rounds)

    return tell


def _of_batch(
    so_far: Callable[[list[int], lockstep.Measured], None] | None, now: list[int]
) -> Callable[[lockstep.Measured], None] | None:
    if so_far is None:
        return None
    return lambda measured: so_far(now, _first(measured, len(now)))


def _first(measured: lockstep.Measured, n: int) -> lockstep.Measured:
    return _each(lambda values: values[..., :n, :], [measured])


def _joined(pieces: list[lockstep.Measured], places: list[int]) -> lockstep.Measured:
    """All batches as one, replicas in their original order."""
    back = np.argsort(places)
    return _each(lambda *values: np.concatenate(values, axis=-2)[..., back, :], pieces)


def _each(
    change: Callable[..., npt.NDArray[Any]], pieces: Sequence[lockstep.Measured]
) -> lockstep.Measured:
    """Change every array that has replicas on its last axis but one."""
    changed: list[Any] = [
        jax.tree.map(change, *(getattr(piece, field) for piece in pieces))
        for field in lockstep.Measured._fields[1:]
    ]
    return lockstep.Measured(pieces[0].evaluated, *changed)
