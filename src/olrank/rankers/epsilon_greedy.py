"""Epsilon-greedy (Hofmann et al. 2013) on RankNet: each slot is random with probability epsilon.

Paper                                       Here        Where
random unranked document, prob. epsilon     _draw       Sec. 5.1, "Baselines"
next best document under RankNet            _draw       Sec. 5.1, "Baselines"
RankNet on the pairs so far                 olranknet   same pairs and descent

The paper does not give epsilon; 0.1 is the usual choice. A document's chance at a slot is exact,
epsilon / (documents left) plus 1 - epsilon shared by the best ones left.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from olrank.explore import confidence as conf
from olrank.explore.order import settled
from olrank.feedback import pairs as pairing
from olrank.rankers import explorer
from olrank.rankers.entry import Entry
from olrank.rankers.explorer import RELEASED
from olrank.rankers.olranknet import RANKNET, fit_by_descent
from olrank.rankers.scorers import choose_net
from olrank.types import Array, Impression, Key, Ranker, Ranking, Rows


class Numbers(NamedTuple):
    """Numeric settings; see explorer.Numbers for those that are not here."""

    epsilon: Any = 0.1
    pull: Any = 0.1
    prior: Any = 0.1
    learning_rate: Any = 1e-3
    examination_power: Any = 1.0


class Design(NamedTuple):
    """Settings that change shapes or code; see explorer.Design."""

    k: int = 10
    history: int = 10_000
    network: str = "paper"
    width: int = 100
    depth: int = 2
    pairs: str = "independent"
    examination: str = "last-click-plus-one"
    update: str = "continue"
    anchor: str = "theta0"
    optimiser: str = "sgd"
    steps: int = 5
    history_batch: int | None = 256
    epochs: int | None = None


def epsilon_greedy(design: Design) -> Ranker:
    """RankNet served greedily, but for a random document at a share epsilon of the slots."""
    pairing.check_rules(design.pairs, design.examination)
    net = choose_net(design)
    fit = fit_by_descent(design, net, RANKNET)
    no_confidence = conf.kind("diagonal")

    def init(key: Key, n_features: int, numbers: Numbers) -> explorer.State:
        history = explorer.no_pairs(design)
        state = explorer.initial_state(
            key, n_features, numbers, design, net, no_confidence, history
        )
        return state._replace(confidence=())

    def score(state: explorer.State, features: Array) -> Array:
        return net.score(state.theta, features)

    def rank(state: explorer.State, key: Key, features: Array, mask: Array, k: int) -> Ranking:
        return _draw(key, net.score(state.theta, features), mask, k, state.numbers.epsilon)

    def learn(
        state: explorer.State, key: Key, impression: Impression, rows: Rows
    ) -> explorer.State:
        pair_key, fit_key = jax.random.split(key)
        _, history = explorer.observe(state, pair_key, impression, design)
        state = state._replace(history=history)
        theta, theta_0 = fit(fit_key, state, rows)
        return state._replace(theta=theta, theta_0=theta_0)

    return Ranker(init, score, rank, learn)


def _draw(key: Key, scores: Array, mask: Array, k: int, epsilon: Array) -> Ranking:
    """Fill the slots one by one; Gumbel noise by document, so that padding changes nothing."""
    n_docs, scores = scores.shape[0], settled(scores)
    shown = jnp.arange(k) < jnp.sum(mask)

    def fill(left: Array, slot: Array) -> tuple[Array, tuple[Array, Array]]:
        n_left = jnp.maximum(jnp.sum(left), 1)
        best = left & (scores == jnp.max(jnp.where(left, scores, -jnp.inf)))
        p = epsilon * left / n_left + (1.0 - epsilon) * best / jnp.maximum(jnp.sum(best), 1)
        log_p = jnp.where(p > 0, jnp.log(jnp.where(p > 0, p, 1.0)), -jnp.inf)
        noise = jax.random.gumbel(jax.random.fold_in(key, slot), (n_docs,), log_p.dtype)
        document = jnp.argmax(log_p + noise).astype(jnp.int32)
        return left & (jnp.arange(n_docs) != document), (document, log_p[document])

    _, (order, log_ps) = jax.lax.scan(fill, mask, jnp.arange(k))
    choices = jnp.where(shown, jnp.sum(mask) - jnp.arange(k), 1).astype(jnp.int32)
    log_p_shown = jnp.sum(jnp.where(shown, log_ps, 0.0))
    return Ranking(order, shown, choices, log_p_shown, jnp.zeros((k, k), bool))


ENTRY = Entry(
    summary="RankNet served greedily, but for a random document at a share of the slots.",
    factory=epsilon_greedy,
    design=Design,
    numbers=Numbers,
    presets={
        "paper": {},
        "released": {
            key: value for key, value in RELEASED.items() if key in Design._fields + Numbers._fields
        },
    },
)
