"""Interleaving two orders: exact probabilities, draws, and whom a click is credited to."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from explore.frequencies import assert_drawn_as, keys, lists_of
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import interleave as oracle

from olrank.errors import ConfigError
from olrank.explore import interleave

SIZE = 5
FEW, MANY = 16, 8_000
METHODS = ("probabilistic", "team-draft")
quick = partial(settings, max_examples=20, deadline=None)
two_orders = st.integers(1, SIZE).flatmap(
    lambda n: st.tuples(st.permutations(range(1, n + 1)), st.permutations(range(1, n + 1)))
)


@partial(jax.jit, static_argnums=(0, 5))
def draws(name, keys, current, candidate, mask, k):
    method = interleave.interleave(name)
    return jax.vmap(lambda key: method(key, current, candidate, mask, k))(keys)


def drawn(name: str, current, candidate, k: int, seed: int = 0, n: int = FEW, size: int = SIZE):
    """n interleavings in float64; padding follows the documents, and so do its ranks.

    Always MANY are drawn, since each other number would be compiled anew.
    """
    n_docs = len(current)
    behind = list(range(n_docs + 1, size + 1))
    ranks = [jnp.array([*order, *behind], jnp.int32) for order in (current, candidate)]
    with jax.enable_x64(True):
        many = draws(name, keys(seed, MANY), *ranks, np.arange(size) < n_docs, k)
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:n], many)


def team_lists(current, candidate, k: int) -> dict[tuple[int, ...], float]:
    """The oracle's team drafts, whatever the teams."""
    found: dict[tuple[int, ...], float] = {}
    for (shown, _), p in oracle.team_drafts(current, candidate, k).items():
        found[shown] = found.get(shown, 0.0) + p
    return found


LISTS = {"probabilistic": oracle.lists, "team-draft": team_lists}


def test_a_slot_of_each_method_by_hand():
    current, candidate = [1, 2], [2, 1]
    found = drawn("probabilistic", current, candidate, 3)
    p_first = 1 / (1 + 1 / 8)  # of the document that a ranker has on top
    assert np.exp(found.log_p_shown) == pytest.approx(1 / 2)
    credit_of_first = (1 - p_first) - p_first
    for document, credit in zip(found.order[:, 0], found.memo[:, 0], strict=True):
        assert credit == pytest.approx(credit_of_first if document == 0 else -credit_of_first)
    found = drawn("team-draft", current, candidate, 3)
    assert np.exp(found.log_p_shown) == pytest.approx(1 / 2)
    np.testing.assert_array_equal(found.memo[:, 0], np.where(found.order[:, 0] == 0, -1, 1))


@pytest.mark.parametrize("k", [3, 5])
@quick()
@given(orders=two_orders, seed=st.integers(0, 2**31))
def test_probabilistic_lists_are_logged_with_the_oracles_probability_and_credit(k, orders, seed):
    current, candidate = orders
    found = drawn("probabilistic", current, candidate, k, seed)
    for row, shown in enumerate(lists_of(found.order, found.shown)):
        p = oracle.p_list(current, candidate, shown)
        assert found.log_p_shown[row] == pytest.approx(np.log(p), rel=1e-9, abs=1e-12)
        share = np.array(oracle.credits(current, candidate, shown))
        n = len(shown)
        assert n == min(k, len(current))
        np.testing.assert_allclose(found.memo[row][:n], share - (1 - share), atol=1e-12)
        assert not found.memo[row][n:].any()


@pytest.mark.parametrize("k", [3, 5])
@quick()
@given(orders=two_orders, seed=st.integers(0, 2**31))
def test_team_drafts_are_logged_with_the_oracles_probability_and_teams(k, orders, seed):
    current, candidate = orders
    drafts = oracle.team_drafts(current, candidate, k)
    expected = team_lists(current, candidate, k)
    found = drawn("team-draft", current, candidate, k, seed)
    for row, shown in enumerate(lists_of(found.order, found.shown)):
        n = len(shown)
        teams = tuple(((found.memo[row][:n] + 1) / 2).astype(int).tolist())
        assert (shown, teams) in drafts
        log_p = found.log_p_shown[row]
        assert log_p == pytest.approx(np.log(expected[shown]), rel=1e-9, abs=1e-12)
        assert not found.memo[row][n:].any()


ORDERS = {
    "reversed": ([1, 2, 3, 4], [4, 3, 2, 1]),
    "one swap": ([1, 2, 3, 4], [1, 3, 2, 4]),
    "a swap below the cut": ([1, 2, 3, 4, 5], [1, 2, 3, 5, 4]),
    "equal": ([2, 1, 3], [2, 1, 3]),
    "one document": ([1], [1]),
}


@pytest.mark.parametrize("k", [3, 5])
@pytest.mark.parametrize("orders", ORDERS)
@pytest.mark.parametrize("name", METHODS)
def test_draws_and_propensities_equal_the_exact_enumeration(name, orders, k):
    current, candidate = ORDERS[orders]
    found = drawn(name, current, candidate, k, n=MANY, seed=1)
    lists = lists_of(found.order, found.shown)
    expected = LISTS[name](current, candidate, k)
    assert_drawn_as(expected, lists)
    for shown, row in {shown: row for row, shown in enumerate(lists)}.items():
        log_p = found.log_p_shown[row]
        assert log_p == pytest.approx(np.log(expected[shown]), rel=1e-9, abs=1e-12)
    if name == "team-draft":
        teams = [tuple(t) for t in ((found.memo + 1) / 2).astype(int)[:, : len(lists[0])].tolist()]
        drafts = oracle.team_drafts(current, candidate, k)
        assert_drawn_as(drafts, zip(lists, teams, strict=True))


def test_two_equal_orders_credit_nobody_by_probability():
    found = drawn("probabilistic", [2, 1, 4, 3], [2, 1, 4, 3], 3)
    np.testing.assert_array_equal(found.memo, 0)


@pytest.mark.parametrize("name", METHODS)
def test_padding_changes_nothing_and_fills_the_unshown_slots(name):
    current, candidate = [1, 2, 3, 4], [3, 1, 4, 2]
    alone = drawn(name, current, candidate, 5, size=4)
    among = drawn(name, current, candidate, 5)
    np.testing.assert_array_equal(alone.shown, among.shown)
    np.testing.assert_array_equal(alone.order[alone.shown], among.order[among.shown])
    assert np.all(among.order[~among.shown] >= 4)
    np.testing.assert_array_equal(alone.choices, among.choices)
    np.testing.assert_allclose(alone.log_p_shown, among.log_p_shown, rtol=1e-12)
    np.testing.assert_allclose(alone.memo, among.memo, rtol=1e-12)


@pytest.mark.parametrize("name", METHODS)
def test_no_candidates_give_an_empty_certain_list(name):
    found = drawn(name, [], [], 3)
    assert not found.shown.any()
    assert not found.log_p_shown.any()
    assert not found.memo.any()


def test_ranks_count_from_one_at_the_best_and_put_padding_last():
    mask = np.array([True, False, True, True, False])
    found = interleave.ranks(jax.random.key(0), jnp.array([0.5, 9.0, -1.0, 2.0, 9.0]), mask)
    assert found[jnp.array([3, 0, 2])].tolist() == [1, 2, 3]
    assert sorted(found[jnp.array([1, 4])].tolist()) == [4, 5]


def test_tied_ranks_are_drawn_uniformly():
    scores, mask = jnp.array([1.0, 0.0, 1.0, 1.0]), np.ones(4, bool)
    many = jax.jit(jax.vmap(lambda key: interleave.ranks(key, scores, mask)))
    found = many(keys(2, MANY)).tolist()
    expected = {
        (a, 4, b, c): 1 / 6
        for a in (1, 2, 3)
        for b in (1, 2, 3)
        for c in (1, 2, 3)
        if len({a, b, c}) == 3
    }
    assert_drawn_as(expected, [tuple(ranks) for ranks in found])


def test_an_unknown_method_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match='"team-draf".*probabilistic, team-draft.*"team-draft"'):
        interleave.interleave("team-draf")
