"""DBGD (Yue & Joachims 2009): duel with a random neighbour, move towards it when it wins.

Paper                                Here                    Where
u_t, uniform on the unit sphere      _direction              DBGD, Alg. 1
w'_t = w_t + delta u_t               rank                    DBGD, Alg. 1
duel of w_t and w'_t by clicks       explore.interleave      Hofmann et al. 2011
w_{t+1} = w_t + gamma u_t            learn                   DBGD, Alg. 1

The direction is drawn from the ranking's key. The memo keeps that key and each slot's credit, so a
stored ranking takes a few bytes. The candidate wins when, over all ways in which the two could have
contributed the clicked documents, it is credited with more clicks than the current ranker more
often than with fewer. Where clicks have different weights, it wins when it is credited with more
weight than the current ranker on average: a sum of weights has no small table of outcomes. The
probability is exact, given the direction and how ties were broken.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from olrank.errors import unknown_name
from olrank.explore.interleave import interleave, ranks
from olrank.rankers.entry import Entry
from olrank.rankers.scorers import choose_net
from olrank.types import Array, Impression, Key, PyTree, Ranker, Ranking, Rows

_SAMPLES = 10_000  # ways to assign the clicks that the released code looks at


class Numbers(NamedTuple):
    """Numeric settings: delta and gamma of DBGD's own paper's successors, the decay of Sec. 5.1.

    Attributes:
        learning_rate: gamma, the step towards a winner.
        decay: of the rate, at each step.
        reach: delta, how far off the candidate is.
    """

    learning_rate: Any = 0.01
    decay: Any = 0.999977
    reach: Any = 1.0


class LinearDesign(NamedTuple):
    """Settings of the linear ranker.

    Attributes:
        k: slots shown.
        network: "linear".
        interleaving: "probabilistic" or "team-draft".
        credit: who won is "exact", or "sampled" as in the released code.
    """

    k: int = 10
    network: str = "linear"
    interleaving: str = "probabilistic"
    credit: str = "exact"


class NeuralDesign(NamedTuple):
    """Settings of the neural ranker; two layers of width 100 for all neural rankers (Sec. 5.1)."""

    k: int = 10
    network: str = "plain"
    width: int = 100
    depth: int = 2
    activation: str = "relu"
    interleaving: str = "probabilistic"
    credit: str = "exact"


class State(NamedTuple):
    """Parameters, the number of steps taken, and the settings as arrays."""

    theta: PyTree
    n_steps: Array
    numbers: Numbers


class Memo(NamedTuple):
    """What a duel must remember: the direction's key data, and [k] credits from -1 to 1."""

    direction_key: Array
    credit: Array


def dbgd(design: Any) -> Ranker:
    """DBGD on whichever net the design names."""
    net = choose_net(design)
    duel = interleave(design.interleaving)
    if design.credit not in ("exact", "sampled"):
        raise unknown_name("credit", design.credit, ("exact", "sampled"))

    def init(key: Key, n_features: int, numbers: Numbers) -> State:
        dtype = jnp.result_type(float)
        numbers = jax.tree.map(lambda value: jnp.asarray(value, dtype), numbers)
        return State(net.init(key, n_features), jnp.zeros((), jnp.int32), numbers)

    def score(state: State, features: Array) -> Array:
        return net.score(state.theta, features)

    def rank(state: State, key: Key, features: Array, mask: Array, k: int) -> Ranking:
        direction_key, tie_key, other_tie_key, draw_key = jax.random.split(key, 4)
        moved = _move(state.theta, state.numbers.reach, _direction(direction_key, state.theta))
        current = ranks(tie_key, net.score(state.theta, features), mask)
        candidate = ranks(other_tie_key, net.score(moved, features), mask)
        ranking = duel(draw_key, current, candidate, mask, k)
        return ranking._replace(memo=Memo(jax.random.key_data(direction_key), ranking.memo))

    def learn(state: State, key: Key, impression: Impression, rows: Rows) -> State:
        memo: Memo = impression.ranking.memo
        sampling_key = key if design.credit == "sampled" else None
        # One document alone is no duel, whatever a sample says.
        duels = jnp.sum(impression.ranking.shown) > 1
        wins = duels & _candidate_wins(memo.credit, impression.clicks, sampling_key)
        rate = state.numbers.learning_rate * state.numbers.decay**state.n_steps
        direction = _direction(jax.random.wrap_key_data(memo.direction_key), state.theta)
        theta = _move(state.theta, jnp.where(wins, rate, 0.0), direction)
        return State(theta, state.n_steps + wins, state.numbers)

    return Ranker(init, score, rank, learn)


def _direction(key: Key, theta: PyTree) -> PyTree:
    """A unit vector in the space of all parameters, uniform on the sphere."""
    leaves, shape = jax.tree.flatten(theta)
    keys = jax.random.split(key, len(leaves))
    noise = [
        jax.random.normal(leaf_key, leaf.shape, leaf.dtype)
        for leaf_key, leaf in zip(keys, leaves, strict=True)
    ]
    norm = jnp.sqrt(jnp.sum(jnp.stack([jnp.sum(part**2) for part in noise])))
    return jax.tree.unflatten(shape, [part / norm for part in noise])


def _move(theta: PyTree, length: Array, direction: PyTree) -> PyTree:
    return jax.tree.map(lambda t, u: t + length * u, theta, direction)


def _candidate_wins(credit: Array, clicks: Array, sampling_key: Key | None = None) -> Array:
    """Whether the duel goes to the candidate; by count where all clicks weigh the same."""
    clicked = clicks > 0
    heaviest = jnp.max(clicks)
    alike = jnp.all(~clicked | (clicks == heaviest))
    p_win, p_lose = _outcomes(credit, clicks)
    lead = p_win - p_lose
    if sampling_key is not None:
        lead = _sampled_lead(sampling_key, p_win, p_lose)
    weighed = jnp.sum(jnp.where(clicked, credit * clicks, 0.0))
    return jnp.where(alike, lead, weighed) > 0


def _outcomes(credit: Array, clicks: Array) -> tuple[Array, Array]:
    """Chances that the candidate is credited with more clicks than the current ranker, and fewer.

    Each click goes to the candidate with probability (1 + credit) / 2, independently. A duel counts
    clicks; their weights do not matter.

    Args:
        credit: [k] from -1 to 1.
        clicks: [k].
    """
    k = credit.shape[0]
    # p_difference[k + d] is the probability that the difference is d so far.
    p_difference = jnp.zeros(2 * k + 1, credit.dtype).at[k].set(1.0)

    def count(p: Array, slot: tuple[Array, Array]) -> tuple[Array, None]:
        p_candidate, clicked = (1.0 + slot[0]) / 2.0, slot[1] > 0
        moved = p_candidate * jnp.roll(p, 1) + (1.0 - p_candidate) * jnp.roll(p, -1)
        return jnp.where(clicked, moved, p), None

    p_difference, _ = jax.lax.scan(count, p_difference, (credit, clicks))
    return jnp.sum(p_difference[k + 1 :]), jnp.sum(p_difference[:k])


def _sampled_lead(key: Key, p_win: Array, p_lose: Array) -> Array:
    """Share of wins less share of losses among _SAMPLES sampled ways, by the central limit.

    Without a click nobody can win or lose, the variance is 0, and so is the lead.
    """
    lead = p_win - p_lose
    variance = jnp.maximum(p_win + p_lose - lead**2, 0.0) / _SAMPLES
    return lead + jnp.sqrt(variance) * jax.random.normal(key, (), lead.dtype)


_RELEASED = {"decay": 0.9999977, "credit": "sampled"}

LINEAR = Entry(
    summary="Duels with a random neighbour by interleaving; linear.",
    factory=dbgd,
    design=LinearDesign,
    numbers=Numbers,
    presets={"paper": {}, "released": _RELEASED},
    learns_from_others=False,
)

NEURAL = Entry(
    summary="Duels with a random neighbour by interleaving; neural.",
    factory=dbgd,
    design=NeuralDesign,
    numbers=Numbers,
    presets={"paper": {}, "released": {**_RELEASED, "width": 64, "activation": "sigmoid"}},
    learns_from_others=False,
)
