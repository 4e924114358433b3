"""The impressions a ranker has learned from: a ring of fixed capacity, and a ring of their pairs.

An impression is stored with its row ids, clicks and assumed examination, because LambdaRank weighs
its pairs anew under every network. Pairs are stored in the order of their impressions, so those of
the impressions still held are always one window of the pair ring. Impressions that teach no pair
are not stored. Counters count everything ever stored; ring positions are counters modulo capacity.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp

from olrank.feedback.pairs import Pairs
from olrank.types import Array


class History(NamedTuple):
    """Impressions [capacity, k] and pairs [capacity * n_max].

    Attributes:
        rows: [capacity, k] int32, rows of the shown documents.
        clicks: [capacity, k].
        examined: [capacity, k] assumed chance of examination.
        first_pair: [capacity] int32, the pair counter before the impression's first pair.
        pair_impression: [n_pairs_max] int32, the ring position of the pair's impression.
        winners: [n_pairs_max] int32 slots.
        losers: [n_pairs_max] int32 slots.
        weights: [n_pairs_max].
        n_impressions: int32, ever stored.
        n_pairs: int32, ever stored.
    """

    rows: Array
    clicks: Array
    examined: Array
    first_pair: Array
    pair_impression: Array
    winners: Array
    losers: Array
    weights: Array
    n_impressions: Array
    n_pairs: Array


class Window(NamedTuple):
    """What is still held: `n` items from the counter `first` on."""

    first: Array
    n: Array


def empty(capacity: int, k: int, n_max: int) -> History:
    """A history that holds nothing yet; the last `capacity` impressions will fit."""
    dtype = jnp.result_type(float)
    n_pairs_max = capacity * n_max
    # One array each: donated buffers must not alias.
    return History(
        rows=jnp.zeros((capacity, k), jnp.int32),
        clicks=jnp.zeros((capacity, k), dtype),
        examined=jnp.zeros((capacity, k), dtype),
        first_pair=jnp.zeros(capacity, jnp.int32),
        pair_impression=jnp.zeros(n_pairs_max, jnp.int32),
        winners=jnp.zeros(n_pairs_max, jnp.int32),
        losers=jnp.zeros(n_pairs_max, jnp.int32),
        weights=jnp.zeros(n_pairs_max, dtype),
        n_impressions=jnp.zeros((), jnp.int32),
        n_pairs=jnp.zeros((), jnp.int32),
    )


def append(history: History, rows: Array, clicks: Array, examined: Array, pairs: Pairs) -> History:
    """Store an impression and its pairs; nothing changes when it teaches none."""
    capacity, n_pairs_max = history.rows.shape[0], history.weights.shape[0]
    taught = pairs.weights > 0
    n_new = jnp.sum(taught, dtype=jnp.int32)
    keep = n_new > 0
    # An index past the end drops the write.
    at = jnp.where(keep, history.n_impressions % capacity, capacity)
    pair_at = jnp.where(
        taught, (history.n_pairs + jnp.cumsum(taught) - 1) % n_pairs_max, n_pairs_max
    )
    return History(
        rows=history.rows.at[at].set(rows, mode="drop"),
        clicks=history.clicks.at[at].set(clicks.astype(history.clicks.dtype), mode="drop"),
        examined=history.examined.at[at].set(examined, mode="drop"),
        first_pair=history.first_pair.at[at].set(history.n_pairs, mode="drop"),
        pair_impression=history.pair_impression.at[pair_at].set(at, mode="drop"),
        winners=history.winners.at[pair_at].set(pairs.winners, mode="drop"),
        losers=history.losers.at[pair_at].set(pairs.losers, mode="drop"),
        weights=history.weights.at[pair_at].set(
            pairs.weights.astype(history.weights.dtype), mode="drop"
        ),
        n_impressions=history.n_impressions + keep,
        n_pairs=history.n_pairs + n_new,
    )


class StoresImpressions(Protocol):
    """A ring of impressions, whatever else is stored with them."""

    @property
    def rows(self) -> Array:
        """[capacity, k] rows of the shown documents."""

    @property
    def n_impressions(self) -> Array:
        """How many were ever stored."""


def impressions_held(history: StoresImpressions) -> Window:
    """The impressions still in the ring."""
    n = jnp.minimum(history.n_impressions, history.rows.shape[0])
    return Window(history.n_impressions - n, n)


def pairs_held(history: History) -> Window:
    """The pairs of the impressions still in the ring."""
    oldest = impressions_held(history).first % history.rows.shape[0]
    first = jnp.where(history.n_impressions > 0, history.first_pair[oldest], 0)
    return Window(first, history.n_pairs - first)


def sample(key: jax.Array, window: Window, n: int, recency: int = 0) -> Array:
    """[n] counters drawn with replacement from a window that holds something.

    Each is the latest of 1 + `recency` uniform draws: the chance of an item grows with its place
    in the window to that power, whatever the window's length; 0 draws all alike.
    """
    # Not a scaled float32 coin: its 2^23 values are too coarse for a long window.
    shape = (1 + recency, n) if recency else (n,)
    offsets = jax.random.randint(key, shape, 0, jnp.maximum(window.n, 1), jnp.int32)
    return window.first + (jnp.max(offsets, axis=0) if recency else offsets)
