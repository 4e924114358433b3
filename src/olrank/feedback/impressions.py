"""Whole impressions as they are remembered: documents, clicks, and what explains them."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from olrank.feedback import cascade, pairs
from olrank.feedback import history as ring
from olrank.feedback.doubt import Doubt
from olrank.types import Array, Impression


class Memory(NamedTuple):
    """Impressions, a ring of fixed capacity, and what is known of those who made them.

    Attributes:
        rows: [capacity, k] int32, rows of the shown documents.
        clicks: [capacity, k].
        seen: [capacity, k] bool, slots that were filled and in view.
        held_out: [capacity] bool, lists that experts are judged by and do not learn from.
        n_impressions: int32, ever stored.
        worth: of an impression as evidence about new documents; 1 when none has come back.
        habits: of the users, as far as is known.
        experts: that are weighed; () where there are none.
        doubt: whether all this still holds; () where nobody asks.
    """

    rows: Array
    clicks: Array
    seen: Array
    held_out: Array
    n_impressions: Array
    worth: Array
    habits: cascade.Habits
    experts: Any = ()
    doubt: Any = ()


class Batch(NamedTuple):
    """Impressions [n, k], which of them are held out [n], and the habits that explain them."""

    rows: Array
    clicks: Array
    seen: Array
    held_out: Array
    habits: cascade.Habits


def empty(
    capacity: int,
    k: int,
    known: Any = (),
    doubt: Any = (),
    habits: cascade.Habits = cascade.FIRST_GUESS,
) -> Memory:
    """Nothing remembered yet; with these experts and this doubt, or without any."""
    dtype = jnp.result_type(float)
    size = (capacity, k)
    return Memory(
        rows=jnp.zeros(size, jnp.int32),
        clicks=jnp.zeros(size, dtype),
        seen=jnp.zeros(size, bool),
        held_out=jnp.zeros(capacity, bool),
        n_impressions=jnp.zeros((), jnp.int32),
        worth=jnp.ones((), dtype),
        habits=jax.tree.map(lambda value: jnp.asarray(value, dtype), habits),
        experts=known,
        doubt=doubt,
    )


def held(memory: Memory) -> ring.Window:
    """The impressions that are still remembered, but for those that are to be forgotten."""
    window = ring.impressions_held(memory)
    if isinstance(memory.doubt, Doubt):
        first = jnp.maximum(window.first, memory.doubt.first)
        window = ring.Window(first, memory.n_impressions - first)
    return window


def with_impression(
    memory: Memory, impression: Impression, held_out: Array | bool = False
) -> Memory:
    """Store an impression, held out or not; one that nobody saw is left out."""
    capacity = memory.rows.shape[0]
    seen = pairs.in_view(impression)
    keep = jnp.any(seen)
    # An index past the end drops the write.
    at = jnp.where(keep, memory.n_impressions % capacity, capacity)
    clicks = jnp.where(seen, impression.clicks, 0.0).astype(memory.clicks.dtype)
    return memory._replace(
        rows=memory.rows.at[at].set(impression.rows, mode="drop"),
        clicks=memory.clicks.at[at].set(clicks, mode="drop"),
        seen=memory.seen.at[at].set(seen, mode="drop"),
        held_out=memory.held_out.at[at].set(held_out, mode="drop"),
        n_impressions=memory.n_impressions + keep,
    )


def gather(memory: Memory, counters: Array) -> Batch:
    """Remembered impressions by their numbers."""
    at = counters % memory.rows.shape[0]
    return Batch(
        memory.rows[at], memory.clicks[at], memory.seen[at], memory.held_out[at], memory.habits
    )
