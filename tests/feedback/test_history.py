"""The ring of impressions and pairs, against a plain Python list."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from explore.frequencies import assert_drawn_as
from hypothesis import given, settings
from hypothesis import strategies as st

from olrank.feedback import history as ring
from olrank.feedback.pairs import Pairs
from olrank.rankers.ollambdarank import LAMBDARANK
from olrank.rankers.olranknet import RANKNET

CAPACITY, K, N_MAX = 3, 4, 4

append = jax.jit(ring.append)
ranknet_gather = jax.jit(RANKNET.gather)
lambdarank_gather = jax.jit(LAMBDARANK.gather)


class Stored(NamedTuple):
    """One impression of the model: what was appended, with its pairs (winner, loser, weight)."""

    rows: list[int]
    clicks: list[float]
    examined: list[float]
    pairs: list[tuple[int, int, float]]


slots = st.integers(0, K - 1)
weights = st.sampled_from([0.0, 0.0, 0.5, 1.0, 2.0])
floats = st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=K, max_size=K)
impressions = st.builds(
    Stored,
    rows=st.lists(st.integers(0, 99), min_size=K, max_size=K),
    clicks=floats,
    examined=floats,
    pairs=st.lists(st.tuples(slots, slots, weights), min_size=N_MAX, max_size=N_MAX),
)


def stored(history: ring.History, one: Stored) -> ring.History:
    winners, losers, weights = (np.array(part) for part in zip(*one.pairs, strict=True))
    taught = Pairs(winners.astype(np.int32), losers.astype(np.int32), weights.astype(np.float32))
    rows = np.array(one.rows, np.int32)
    clicks, examined = np.array(one.clicks, np.float32), np.array(one.examined, np.float32)
    return append(history, rows, clicks, examined, taught)


def taught_pairs(one: Stored) -> list[tuple[int, int, float]]:
    return [pair for pair in one.pairs if pair[2] > 0]


def in_window(window: ring.Window, size: int) -> np.ndarray:
    """Counters from the window's first on, more than it holds."""
    return np.arange(size) + int(window.first)


def assert_holds(history: ring.History, model: list[Stored], n_pairs_ever: int) -> None:
    """The history holds exactly the model's impressions and their pairs, in order."""
    held = ring.impressions_held(history)
    assert int(held.n) == len(model)
    pairs = ring.pairs_held(history)
    expected = [(one, pair) for one in model for pair in taught_pairs(one)]
    assert int(pairs.n) == len(expected)
    assert int(pairs.first) == n_pairs_ever - len(expected)
    assert int(pairs.n) == int(RANKNET.n_pairs(history)) == int(LAMBDARANK.n_pairs(history))

    winners, losers, weights = ranknet_gather(history, in_window(pairs, CAPACITY * N_MAX))
    found = list(zip(winners.tolist(), losers.tolist(), weights.tolist(), strict=True))
    rows = [(one.rows[up], one.rows[down], weight) for one, (up, down, weight) in expected]
    assert found[: len(rows)] == rows

    batch = lambdarank_gather(history, in_window(held, CAPACITY))
    for at, one in enumerate(model):
        assert batch.rows[at].tolist() == one.rows
        assert batch.clicks[at].tolist() == one.clicks
        assert batch.examined[at].tolist() == one.examined
        triples = [batch.winners[at], batch.losers[at], batch.weights[at]]
        own = list(zip(*(part.tolist() for part in triples), strict=True))
        n = len(taught_pairs(one))
        assert own[:n] == taught_pairs(one)
        assert all(weight == 0 for _, _, weight in own[n:])


@settings(max_examples=25, deadline=None)
@given(sequence=st.lists(impressions, min_size=1, max_size=10))
def test_the_ring_holds_what_a_list_of_the_last_impressions_holds(sequence):
    history, model, n_pairs_ever = ring.empty(CAPACITY, K, N_MAX), [], 0
    for one in sequence:
        history = stored(history, one)
        if taught_pairs(one):
            model = [*model, one][-CAPACITY:]
            n_pairs_ever += len(taught_pairs(one))
        assert_holds(history, model, n_pairs_ever)


FULL = Stored([1, 2, 3, 4], [1, 0, 0, 0], [1, 1, 0, 0], [(0, 1, 1.0)] * N_MAX)
ONE = Stored(
    [5, 6, 7, 8], [0, 1, 0, 0], [1, 1, 1, 0], [(1, 2, 0.0), (1, 0, 0.5)] + [(0, 0, 0.0)] * 2
)
NONE = Stored([9] * K, [0] * K, [0] * K, [(0, 1, 0.0)] * N_MAX)


def after(*sequence: Stored) -> ring.History:
    history = ring.empty(CAPACITY, K, N_MAX)
    for one in sequence:
        history = stored(history, one)
    return history


def test_an_empty_history_holds_nothing():
    history = after()
    assert [int(n) for n in ring.impressions_held(history)] == [0, 0]
    assert [int(n) for n in ring.pairs_held(history)] == [0, 0]


def test_counters_by_hand_as_the_ring_goes_round():
    assert [int(n) for n in ring.pairs_held(after(FULL, ONE))] == [0, 4 + 1]
    assert [int(n) for n in ring.pairs_held(after(FULL, ONE, FULL))] == [0, 4 + 1 + 4]
    # The first impression goes, and its four pairs with it; then the second with its one.
    assert [int(n) for n in ring.pairs_held(after(FULL, ONE, FULL, FULL))] == [4, 1 + 4 + 4]
    assert [int(n) for n in ring.pairs_held(after(FULL, ONE, FULL, FULL, ONE))] == [5, 4 + 4 + 1]
    assert [int(n) for n in ring.impressions_held(after(FULL, ONE, FULL, FULL))] == [1, 3]


def test_an_impression_without_pairs_changes_not_one_number():
    before = after(FULL, ONE)
    for one, other in zip(before, stored(before, NONE), strict=True):
        np.testing.assert_array_equal(one, other)
    assert int(after(NONE, NONE).n_impressions) == 0


@pytest.mark.parametrize("sequence", [[ONE, FULL], [FULL, ONE, FULL, FULL, ONE], [ONE]])
def test_samples_are_uniform_over_the_pairs_held(sequence):
    window = ring.pairs_held(after(*sequence))
    found = ring.sample(jax.random.key(3), window, 8_000).tolist()
    first, n = int(window.first), int(window.n)
    assert_drawn_as({counter: 1 / n for counter in range(first, first + n)}, found)


@pytest.mark.parametrize("recency", [1, 3])
def test_recent_items_are_drawn_by_the_power_of_their_place(recency):
    window = ring.Window(jnp.int32(40), jnp.int32(10))
    found = ring.sample(jax.random.key(5), window, 20_000, recency).tolist()
    # The latest of several draws is the i-th or an earlier one with this chance.
    below = (np.arange(11) / 10) ** (1 + recency)
    assert_drawn_as({40 + i: below[i + 1] - below[i] for i in range(10)}, found)


def test_samples_of_a_very_long_window_can_be_any_counter():
    """A float32 coin has 2^23 values: times a window of 2^26 it would only hit every eighth."""
    window = ring.Window(jnp.int32(0), jnp.int32(2**26))
    found = np.asarray(ring.sample(jax.random.key(4), window, 8_000))
    assert found.min() >= 0
    assert found.max() < 2**26
    assert_drawn_as({rest: 1 / 8 for rest in range(8)}, (found % 8).tolist())


def test_counters_and_slots_stay_integers_of_32_bits_in_double_precision(x64):
    history = after(FULL, ONE)
    for name in ("rows", "first_pair", "pair_impression", "winners", "n_impressions", "n_pairs"):
        assert getattr(history, name).dtype == jnp.int32
    assert history.weights.dtype == history.clicks.dtype == jnp.float64
    assert ring.sample(jax.random.key(0), ring.pairs_held(history), 3).dtype == jnp.int32
