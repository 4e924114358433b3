"""PDGD (Oosterhuis & de Rijke 2018): Plackett-Luce lists, unbiased pairwise gradients.

Paper                                    Here                         Where
P(d | D) ~ exp(f(d))                     explore.plackett_luce.draw   PDGD, Eq. 1
rho(d_k, d_l, R, D)                      plackett_luce.swap_weights   PDGD, Eq. 9
clicked > examined unclicked             feedback.pairs, "all"        PDGD, Sec. 4
e^fk e^fl / (e^fk + e^fl)^2 (fk' - fl')  _document_weights, learn     PDGD, Eq. 8

Examined is everything above the last click and one below it. Of two clicked documents the one with
the heavier click wins, and a pair weighs the difference of its clicks' weights. Scores and
probabilities in the gradient are those of the draw, kept in the ranking's memo. `update_every` sums
the gradients of that many impressions before a step. The rate decays with every step that moves
anything.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from olrank.explore import plackett_luce
from olrank.feedback import pairs as pairing
from olrank.rankers.entry import Entry
from olrank.rankers.scorers import choose_net
from olrank.types import Array, Impression, Key, PyTree, Ranker, Ranking, Rows


class Numbers(NamedTuple):
    """Numeric settings: the rate of PDGD's own paper, the decay of ours (Sec. 5.1)."""

    learning_rate: Any = 0.1
    decay: Any = 0.999977


class LinearDesign(NamedTuple):
    """Settings of the linear ranker that change shapes or code."""

    k: int = 10
    network: str = "linear"
    update_every: int = 1


class NeuralDesign(NamedTuple):
    """Settings of the neural ranker; two layers of width 100 for all neural rankers (Sec. 5.1)."""

    k: int = 10
    network: str = "plain"
    width: int = 100
    depth: int = 2
    activation: str = "relu"
    update_every: int = 1


class State(NamedTuple):
    """Parameters, gradients not yet applied, and counters.

    Attributes:
        theta: parameters that serve.
        summed: gradients since the last step.
        n_waiting: int32, impressions since the last step.
        n_steps: int32, steps taken.
        numbers: numeric settings, as arrays.
    """

    theta: PyTree
    summed: PyTree
    n_waiting: Array
    n_steps: Array
    numbers: Numbers


def pdgd(design: Any) -> Ranker:
    """PDGD on whichever net the design names."""
    net = choose_net(design)

    def init(key: Key, n_features: int, numbers: Numbers) -> State:
        theta = net.init(key, n_features)
        zero = jax.tree.map(jnp.zeros_like, theta)
        dtype = jnp.result_type(float)
        numbers = jax.tree.map(lambda value: jnp.asarray(value, dtype), numbers)
        return State(theta, zero, jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32), numbers)

    def score(state: State, features: Array) -> Array:
        return net.score(state.theta, features)

    def rank(state: State, key: Key, features: Array, mask: Array, k: int) -> Ranking:
        return plackett_luce.draw(key, net.score(state.theta, features), mask, k)

    def learn(state: State, key: Key, impression: Impression, rows: Rows) -> State:
        weights = _document_weights(impression)
        features = rows.features[impression.rows]
        _, pull_back = jax.vjp(lambda theta: net.score(theta, features), state.theta)
        (gradient,) = pull_back(weights.astype(features.dtype))
        summed = jax.tree.map(jnp.add, state.summed, gradient)
        return _step_when_due(state._replace(summed=summed), design.update_every)

    return Ranker(init, score, rank, learn)


def _document_weights(impression: Impression) -> Array:
    """[k] how much each shown document's score is pushed: the sum over its pairs."""
    shown = impression.ranking.shown
    clicks = jnp.where(shown, impression.clicks, 0.0)
    memo: plackett_luce.Memo = impression.ranking.memo
    last = pairing.last_examined(clicks, pairing.in_view(impression))
    examined = jnp.arange(clicks.shape[0]) < last
    heavier = clicks[:, None] - clicks[None, :]
    pair = jnp.where((heavier > 0) & examined[None, :], heavier, 0.0)
    margin = memo.scores[:, None] - memo.scores[None, :]
    slope = jax.nn.sigmoid(margin) * jax.nn.sigmoid(-margin)
    push = pair * plackett_luce.swap_weights(memo, shown) * slope
    return jnp.sum(push, axis=1) - jnp.sum(push, axis=0)


def _step_when_due(state: State, update_every: int) -> State:
    n_waiting = state.n_waiting + 1
    due = n_waiting >= update_every
    moves = jnp.any(jnp.stack([jnp.any(g != 0) for g in jax.tree.leaves(state.summed)]))
    rate = state.numbers.learning_rate * state.numbers.decay**state.n_steps
    theta = jax.tree.map(lambda t, g: jnp.where(due, t + rate * g, t), state.theta, state.summed)
    summed = jax.tree.map(lambda g: jnp.where(due, 0.0, g), state.summed)
    n_waiting = jnp.where(due, 0, n_waiting)
    return State(theta, summed, n_waiting, state.n_steps + (due & moves), state.numbers)


_RELEASED = {"learning_rate": 0.1, "decay": 0.9999977}

LINEAR = Entry(
    summary="Plackett-Luce exploration with unbiased pairwise gradients; linear.",
    factory=pdgd,
    design=LinearDesign,
    numbers=Numbers,
    presets={"paper": {}, "released": _RELEASED},
    learns_from_others=False,
)

NEURAL = Entry(
    summary="Plackett-Luce exploration with unbiased pairwise gradients; neural.",
    factory=pdgd,
    design=NeuralDesign,
    numbers=Numbers,
    presets={"paper": {}, "released": {**_RELEASED, "width": 64, "activation": "sigmoid"}},
    learns_from_others=False,
)
