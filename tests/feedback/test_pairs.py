"""Which pairs a click pattern teaches: by hand, by claim, and against the oracle."""

from __future__ import annotations

from functools import partial
from itertools import product

import jax
import numpy as np
import pytest
from explore.frequencies import assert_drawn_as, keys
from feedback.impressions import as_dict, impression, in_slots
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from oracle import feedback as oracle

from olrank.errors import ConfigError
from olrank.feedback import pairs

RULES = ("independent", "matched", "all")
KS = (5, 6)
quick = partial(settings, max_examples=40, deadline=None)
lists = st.sampled_from(KS).flatmap(
    lambda k: st.tuples(st.just(k), st.lists(st.integers(0, 1), min_size=0, max_size=k))
)


@partial(jax.jit, static_argnames=("rule", "examination", "only_uncertain"))
def taught(
    key,
    clicks,
    shown,
    certain,
    rho=None,
    power=1.0,
    *,
    rule,
    examination="last-click-plus-one",
    only_uncertain=False,
):
    examined = pairs.p_examined(clicks, shown, examination, power)
    seen = impression(clicks, shown, certain)
    return pairs.select(key, seen, examined, rule, only_uncertain=only_uncertain, swap_weights=rho)


def teach(clicks, k: int, certain=None, seed: int = 0, **how) -> dict[tuple[int, int], float]:
    """The pairs of a list of len(clicks) documents in k slots, nothing certain unless said."""
    shown = np.arange(k) < len(clicks)
    certain = np.zeros((k, k), bool) if certain is None else certain
    return as_dict(taught(jax.random.key(seed), in_slots(clicks, k), shown, certain, **how))


def winner_first(slot_pairs, clicks) -> dict[tuple[int, int], float]:
    """The oracle's pairs (upper slot, lower slot) as (winner, loser), each of weight 1."""
    return {((a, b) if clicks[a] else (b, a)): 1.0 for a, b in slot_pairs}


last_examined = jax.jit(pairs.last_examined)
p_examined = jax.jit(lambda c, s: pairs.p_examined(c, s, "last-click-plus-one", 1.0))


@quick()
@given(case=lists)
def test_the_last_examined_rank_is_the_oracles(case):
    k, clicks = case
    shown = np.arange(k) < len(clicks)
    found = int(last_examined(in_slots(clicks, k), shown))
    assert found == oracle.last_examined(clicks)
    examined = p_examined(in_slots(clicks, k), shown)
    assert examined.tolist() == [float(rank <= found) for rank in range(1, k + 1)]


def test_the_last_examined_rank_by_hand():
    for clicks, n_shown, expected in [
        ([0, 0, 0, 0, 0], 5, 0),
        ([1, 0, 0, 0, 0], 5, 2),
        ([1, 0, 1, 0, 0], 5, 4),
        ([0, 0, 0, 0, 1], 5, 5),
        ([0, 0, 1, 0, 0], 3, 3),
        ([0, 0, 0, 1, 0], 3, 0),  # a click past the list's end is nobody's
    ]:
        assert int(last_examined(np.array(clicks, float), np.arange(5) < n_shown)) == expected


@pytest.mark.parametrize(
    ("rule", "of_the_oracle"),
    [("independent", oracle.independent_pairs), ("all", oracle.all_pairs)],
)
@quick()
@given(case=lists)
def test_independent_and_all_pairs_are_the_oracles(rule, of_the_oracle, case):
    k, clicks = case
    assert teach(clicks, k, rule=rule) == winner_first(of_the_oracle(clicks), clicks)


@quick()
@given(case=lists, seed=st.integers(0, 2**31))
def test_matched_pairs_are_one_of_the_oracles_outcomes(case, seed):
    k, clicks = case
    found = teach(clicks, k, seed=seed, rule="matched")
    assert tuple(sorted(found)) in oracle.matched_pairs(clicks)
    assert set(found.values()) <= {1.0}


@jax.jit
def matched_many(keys, clicks, shown, certain):
    return jax.vmap(lambda key: taught(key, clicks, shown, certain, rule="matched"))(keys)


@pytest.mark.parametrize("clicks", [[0, 1, 0, 1, 0], [1, 0, 0, 0, 1, 0], [1, 1, 0, 1]])
def test_matched_pairs_are_drawn_as_the_oracle_enumerates(clicks):
    k = 6
    shown, certain = np.arange(k) < len(clicks), np.zeros((k, k), bool)
    many = matched_many(keys(5, 5_000), in_slots(clicks, k), shown, certain)
    winners, losers, there = (np.asarray(leaf).tolist() for leaf in (*many[:2], many.weights > 0))
    outcomes = [
        tuple(sorted((a, b) for a, b, is_there in zip(*row, strict=True) if is_there))
        for row in zip(winners, losers, there, strict=True)
    ]
    assert_drawn_as(oracle.matched_pairs(clicks), outcomes)


@quick()
@given(case=lists, certain=arrays(bool, (6, 6)), rule=st.sampled_from(["independent", "all"]))
def test_only_uncertain_leaves_out_every_pair_joined_by_a_certain_order(case, certain, rule):
    k, clicks = case
    upper = np.triu(certain[:k, :k], 1)
    found = teach(clicks, k, upper, rule=rule, only_uncertain=True)
    every = {"independent": oracle.independent_pairs, "all": oracle.all_pairs}[rule](clicks)
    kept = oracle.uncertain_pairs(every, tuple(range(k)), upper)
    assert found == winner_first(kept, clicks)


def test_only_uncertain_drops_certain_pairs_after_matching():
    certain = np.zeros((5, 5), bool)
    certain[0, 1] = True
    assert teach([1, 0], 5, certain, rule="matched") == {(0, 1): 1.0}
    assert teach([1, 0], 5, certain, rule="matched", only_uncertain=True) == {}
    assert teach([0, 1], 5, certain, rule="matched", only_uncertain=True) == {}


def test_a_pair_weighs_the_difference_of_its_clicks():
    clicks = [0.0, 2.5, 0.5, 0.0, 0.0]
    with_unclicked = {(1, 0): 2.5, (1, 3): 2.5, (2, 0): 0.5, (2, 3): 0.5}
    assert teach(clicks, 5, rule="all") == {**with_unclicked, (1, 2): 2.5 - 0.5}
    assert teach(clicks, 5, rule="independent") == {(1, 0): 2.5, (2, 3): 0.5}
    assert teach([0.5, 2.0, 3.0, 1.0], 5, rule="independent") == {(1, 0): 1.5, (2, 3): 2.0}
    assert teach([2.0, 2.0, 0.0, 0.0], 5, rule="independent") == {}
    found = teach([2.0, 1.0, 0.0], 5, rule="matched", seed=3)
    assert set(found) <= {(0, 2), (1, 2)}  # clicked with unclicked only


def test_a_clicked_loser_was_surely_examined():
    found = teach([1, 3, 0], 5, power=2.0, rule="all", examination="position-based")
    assert found == pytest.approx({(1, 0): 3 - 1, (0, 2): 1 * 3**-2.0, (1, 2): 3 * 3**-2.0})
    found = teach([3, 1], 5, power=2.0, rule="all", examination="position-based")
    assert found == {(0, 1): 3 - 1}  # not (3 - 1) / 2^2


def test_of_more_pairs_than_fit_the_heaviest_are_kept():
    clicks = [5.0, 4.0, 3.0, 2.0, 1.0]
    assert pairs.n_max("all", 5) == 2 * 3
    every = {(a, b): clicks[a] - clicks[b] for a in range(5) for b in range(a + 1, 5)}
    found = teach(clicks, 5, rule="all")
    assert found == {pair: weight for pair, weight in every.items() if weight >= 2.0}
    assert len(found) == 6


def test_slots_out_of_view_are_not_examined():
    k, clicks = 5, in_slots([1.0, 0.0, 0.0], 5)
    plain = impression(clicks, np.arange(k) < 4, np.zeros((k, k), bool))
    assert np.asarray(pairs.in_view(plain)).tolist() == [True] * 4 + [False]
    short = plain._replace(seen=np.arange(k) < 1)
    assert int(pairs.last_examined(clicks, pairs.in_view(plain))) == 2
    assert int(pairs.last_examined(clicks, pairs.in_view(short))) == 1


def test_position_based_examination_weighs_a_loser_by_one_over_rank_to_the_power():
    found = teach([0, 2, 0, 0], 5, power=1.5, rule="all", examination="position-based")
    expected = {(1, 0): 2 * 1**-1.5, (1, 2): 2 * 3**-1.5, (1, 3): 2 * 4**-1.5}
    assert found == pytest.approx(expected, rel=1e-6)
    found = teach([0, 0, 1, 0], 5, power=0.5, rule="independent", examination="position-based")
    assert found == pytest.approx({(2, 3): 4**-0.5}, rel=1e-6)
    assert teach([0, 0, 0], 5, rule="all", examination="position-based") == {}


def test_position_based_matching_pairs_every_click_with_some_unclicked_document():
    found = teach([1, 1, 0, 0, 0], 5, rule="matched", examination="position-based")
    assert sorted(winner for winner, _ in found) == [0, 1]
    assert len({loser for _, loser in found}) == 2
    for (_, loser), weight in found.items():
        assert weight == pytest.approx(1 / (loser + 1))


def test_swap_weights_multiply_whichever_slot_won():
    rho = np.zeros((5, 5))
    rho[0, 1], rho[0, 3], rho[2, 3] = 0.25, 0.5, 0.125
    found = teach([0, 2, 2, 0], 5, rho=rho, rule="all")
    assert found == {(1, 0): 2 * 0.25, (2, 3): 2 * 0.125}  # (1, 3) and (2, 0) are not swappable
    assert teach([1, 0, 0, 1], 5, rho=rho, rule="all") == {(0, 1): 0.25, (3, 2): 0.125}
    symmetric = rho + rho.T
    assert teach([0, 2, 2, 0], 5, rho=symmetric, rule="all") == found


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("examination", ["last-click-plus-one", "position-based"])
def test_no_click_or_every_click_teaches_nothing(rule, examination):
    for clicks in ([], [0], [1], [0] * 5, [1] * 5, [1] * 3):
        assert teach(clicks, 5, rule=rule, examination=examination) == {}


@pytest.mark.parametrize("rule", RULES)
def test_the_most_pairs_are_n_max_and_some_list_teaches_as_many(rule):
    for k in KS:
        patterns = [list(clicks) for clicks in product((0, 1), repeat=k)]
        counts = [
            len(teach(clicks, k, rule=rule, examination="position-based")) for clicks in patterns
        ]
        assert max(counts) == pairs.n_max(rule, k)
        found = taught(
            jax.random.key(0), np.zeros(k), np.ones(k, bool), np.zeros((k, k), bool), rule=rule
        )
        assert [leaf.shape for leaf in found] == [(pairs.n_max(rule, k),)] * 3
    assert [pairs.n_max("all", k) for k in (1, 2, 3, 10)] == [0, 1, 2, 25]
    assert [pairs.n_max("independent", k) for k in (1, 2, 3, 10)] == [0, 1, 1, 5]


def test_unknown_rules_are_refused_with_the_known_ones():
    pairs.check_rules("matched", "position-based")
    with pytest.raises(ConfigError, match='"al".*all, independent, matched'):
        pairs.check_rules("al", "position-based")
    with pytest.raises(ConfigError, match='"position".*last-click-plus-one, position-based'):
        pairs.check_rules("all", "position")
