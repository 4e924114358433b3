"""DBGD: duels by brute force, and steps that are exactly the drawn direction."""

from __future__ import annotations

from itertools import product
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import interleave as oracle
from rankers.served import ranking_of

from olrank.rankers import table
from olrank.rankers.dbgd import Memo, _candidate_wins, _direction, _outcomes, _sampled_lead
from olrank.types import Impression, Rows

D, N, K = 3, 5, 4
RATE, DECAY = 0.25, 0.5
NAMES = {"dbgd-linear": {}, "dbgd-neural": {"width": 4}}
pytestmark = pytest.mark.usefixtures("x64")


@jax.jit
def expected_sign(credit, clicks):
    p_win, p_lose = _outcomes(credit, clicks)
    return p_win - p_lose


def by_brute_force(credit, clicks) -> float:
    """The sum over all ways in which the clicked documents could have been contributed."""
    clicked = [c for c, click in zip(credit, clicks, strict=True) if click > 0]
    return sum(
        np.sign(sum(side)) * prod((1 + s * c) / 2 for s, c in zip(side, clicked, strict=True))
        for side in product((-1, 1), repeat=len(clicked))
    )


@settings(max_examples=50, deadline=None)
@given(
    credit=st.lists(st.floats(-1, 1), min_size=6, max_size=6),
    clicks=st.lists(st.sampled_from([0.0, 1.0, 0.3]), min_size=6, max_size=6),
)
def test_the_expected_sign_is_that_of_all_ways_to_contribute(credit, clicks):
    with jax.enable_x64(True):
        found = expected_sign(jnp.array(credit), jnp.array(clicks))
    assert float(found) == pytest.approx(by_brute_force(credit, clicks), abs=1e-12)


def test_a_heavier_click_outweighs_several_lighter_ones():
    credit = jnp.array([0.5, -0.4, -0.3, 0.0])
    assert not _candidate_wins(credit, jnp.array([1.0, 1.0, 1.0, 0.0]))  # by count
    assert not _candidate_wins(credit, jnp.array([3.0, 3.0, 3.0, 0.0]))  # by count, all alike
    assert _candidate_wins(credit, jnp.array([3.0, 1.0, 1.0, 0.0]))  # 3 * 0.5 > 0.4 + 0.3
    assert not _candidate_wins(credit, jnp.array([1.0, 1.0, 2.0, 0.0]))  # 0.5 < 0.4 + 2 * 0.3
    assert not _candidate_wins(credit, jnp.zeros(4))


def started(name, **more):
    made = table.make(name, {"k": K, "learning_rate": RATE, "decay": DECAY, **NAMES[name], **more})
    state = made.ranker.init(jax.random.key(0), D, made.numbers)
    return made.ranker, state, jax.jit(made.ranker.rank, static_argnums=4)


def learned(ranker, state, credit, clicks, direction_key):
    ranking = ranking_of(range(K), K, Memo(jax.random.key_data(direction_key), jnp.array(credit)))
    impression = Impression(ranking.order, jnp.asarray(clicks, float), ranking)
    return ranker.learn(state, jax.random.key(1), impression, Rows(jnp.zeros((N, D))))


@pytest.mark.parametrize("name", NAMES)
def test_a_winner_moves_by_the_rate_times_its_direction_and_a_loser_does_not(name):
    ranker, state, _ = started(name)
    key = jax.random.key(8)
    u = _direction(key, state.theta)
    won, lost = [0.5, 0.1, 0.0, 0.0], [-0.5, -0.1, 0.0, 0.0]
    after = state
    for n_steps in (0, 1):
        before, after = after, learned(ranker, after, won, (1, 1, 0, 0), key)
        step = RATE * DECAY**n_steps
        for b, a, part in zip(*map(jax.tree.leaves, (before.theta, after.theta, u)), strict=True):
            np.testing.assert_allclose(a - b, step * part, rtol=1e-12, atol=1e-15)
    for credit, clicks in ((lost, (1, 1, 0, 0)), (won, (0, 0, 0, 0)), (won, (0, 0, 1, 1))):
        stays = learned(ranker, state, credit, clicks, key)
        jax.tree.map(np.testing.assert_array_equal, stays, state)


@pytest.mark.parametrize("name", NAMES)
def test_directions_are_unit_vectors_that_point_everywhere(name):
    _, state, _ = started(name)
    keys = jax.random.split(jax.random.key(2), 4000)
    many = jax.jit(jax.vmap(_direction, (0, None)))(keys, state.theta)
    u = np.concatenate([np.asarray(leaf).reshape(4000, -1) for leaf in jax.tree.leaves(many)], 1)
    np.testing.assert_allclose(np.linalg.norm(u, axis=1), 1.0, rtol=1e-12)
    # E[u u^T] = I / p. The largest of p^2 entries, six standard errors: false alarms below 1e-6.
    p = u.shape[1]
    spread = u.T @ u / 4000 - np.eye(p) / p
    assert abs(spread).max() < 6 * (3 / p**2 / 4000) ** 0.5
    assert abs(u.mean(0)).max() < 6 * (1 / p / 4000) ** 0.5


@pytest.mark.parametrize("interleaving", ["probabilistic", "team-draft"])
@pytest.mark.parametrize("name", NAMES)
def test_the_memo_reproduces_the_duel_and_its_exact_probability(name, interleaving):
    reach = 2.0
    ranker, state, rank = started(name, interleaving=interleaving, reach=reach)
    rng = np.random.default_rng(3)
    X = jnp.asarray(rng.normal(size=(N, D)))
    if name == "dbgd-linear":  # zero at the start: all ties
        state = state._replace(theta=jnp.asarray(rng.normal(size=D)))
    for seed in range(15):
        ranking = rank(state, jax.random.key(seed), X, jnp.ones(N, bool), K)
        u = _direction(jax.random.wrap_key_data(ranking.memo.direction_key), state.theta)
        moved = jax.tree.map(lambda t, v: t + reach * v, state.theta, u)
        current, candidate = (
            ranks_of(ranker.score(state._replace(theta=theta), X)) for theta in (state.theta, moved)
        )
        shown = tuple(ranking.order.tolist())
        if interleaving == "probabilistic":
            p = oracle.p_list(current, candidate, shown)
            credit = [2 * c - 1 for c in oracle.credits(current, candidate, shown)]
            np.testing.assert_allclose(ranking.memo.credit, credit, rtol=1e-9, atol=1e-12)
        else:
            drafts = oracle.team_drafts(current, candidate, K)
            teams = tuple(((ranking.memo.credit + 1) / 2).astype(int).tolist())
            assert (shown, teams) in drafts
            p = sum(q for (other, _), q in drafts.items() if other == shown)
        assert float(ranking.log_p_shown) == pytest.approx(np.log(p), rel=1e-9, abs=1e-12)


def ranks_of(scores) -> list[int]:
    order = np.argsort(-np.asarray(scores)).tolist()
    return [order.index(document) + 1 for document in range(len(order))]


def test_a_sampled_duel_that_is_tied_goes_to_the_candidate_half_of_the_time():
    """4,000 coins: off by more than 4 standard errors (.032) once in 15,000 runs; seed fixed."""
    credit, clicks = jnp.zeros(10), jnp.zeros(10).at[jnp.array([0, 3])].set(1.0)
    keys = jax.random.split(jax.random.key(0), 4000)
    wins = jax.vmap(lambda key: _candidate_wins(credit, clicks, key))(keys)
    assert abs(float(jnp.mean(wins)) - 0.5) < 4 * 0.5 / 4000**0.5
    assert not bool(_candidate_wins(credit, clicks))


def test_the_sampled_lead_scatters_as_ten_thousand_sampled_duels_do():
    """Win .2, lose .1: mean .1, variance (.3 - .01) / 10,000; 4,000 draws, 5 standard errors."""
    keys = jax.random.split(jax.random.key(1), 4000)
    leads = jax.vmap(lambda key: _sampled_lead(key, jnp.float32(0.2), jnp.float32(0.1)))(keys)
    sd = (0.29 / 10_000) ** 0.5
    assert abs(float(jnp.mean(leads)) - 0.1) < 5 * sd / 4000**0.5
    assert abs(float(jnp.std(leads)) / sd - 1.0) < 5 / (2 * 4000) ** 0.5


def test_nobody_wins_a_sampled_duel_without_a_click():
    keys = jax.random.split(jax.random.key(2), 100)
    credit = jnp.linspace(-1.0, 1.0, 10)
    wins = jax.vmap(lambda key: _candidate_wins(credit, jnp.zeros(10), key))(keys)
    assert not bool(jnp.any(wins))
