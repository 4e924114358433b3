"""olRankNet: a neural RankNet learned online, exploring only the pairs it is unsure of.

Paper                                 Here                        Where
f(x; theta), theta_0                  nets.mlp.paper              Sec. 3.2; Alg. 1, line 2
g(x; theta) / sqrt(m)                 nets.mlp tangents           Sec. 3.2
CB_ij                                 explore.confidence.widths   Lemma 1, Def. 1
omega_t, tau_t                        explore.order               Def. 1; Alg. 1, line 8
Omega_t^ind                           feedback.pairs.select       Sec. 3.2
theta_t                               rankers.descent.descend     Alg. 1, line 11
A_{t+1}                               explore.confidence.update   Alg. 1, line 12

Departs from the paper: mini-batches from the history instead of all of it (history_batch=None is
the paper's descent); both terms of the loss divided by the number of pairs, and the pull as a
proximal step (rankers.descent says why); descent goes on from the current theta instead of
theta_0 (update = "theta0" is the proof's). The sign of eps(m) in Definition 1 follows the proof.
The paper gives neither J nor the chosen grid point; the defaults say what we use.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from olrank.errors import unknown_name
from olrank.feedback import history as ring
from olrank.nets.net import Net
from olrank.rankers import descent
from olrank.rankers.entry import Entry
from olrank.rankers.explorer import (
    RELEASED,
    Design,
    Fit,
    Numbers,
    explorer,
)
from olrank.rankers.scorers import choose_net
from olrank.types import Array, Key, PyTree, Ranker, Rows


def olranknet(design: Design) -> Ranker:
    """The paper's Algorithm 1."""
    net = choose_net(design)
    return explorer(design, net, fit_by_descent(design, net, RANKNET))


def fit_by_descent(design: Any, net: Net, objective: descent.Objective) -> Fit:
    """Fit by the design's gradient steps on an objective over the history."""
    plan = descent.Plan(
        design.steps, design.history_batch, design.epochs, design.optimiser,
        getattr(design, "recency", 0),
    )  # fmt: skip
    descent.check_plan(plan)
    if design.update not in ("continue", "theta0", "restart"):
        raise unknown_name("update", design.update, ("continue", "theta0", "restart"))
    if design.anchor not in ("theta0", "zero"):
        raise unknown_name("anchor", design.anchor, ("theta0", "zero"))

    def fit(key: Key, state: Any, rows: Rows) -> tuple[PyTree, PyTree]:
        init_key, step_key = jax.random.split(key)
        home = state.theta_0
        if design.update == "restart":
            home = net.init(init_key, rows.features.shape[1])
        start = state.theta if design.update == "continue" else home
        anchor = home if design.anchor == "theta0" else jax.tree.map(jnp.zeros_like, home)
        pull = net.scale * state.numbers.pull
        if getattr(design, "linear_part", False):
            pull = (net.scale * state.numbers.linear_pull, pull)  # as the parameters are
        rates = descent.Rates(state.numbers.learning_rate, pull)
        theta = descent.descend(
            step_key, plan, rates, net.score, objective, state.history, rows, start, anchor
        )
        return theta, home

    return fit


def _gather_pairs(history: ring.History, counters: Array) -> tuple[Array, Array, Array]:
    """Rows of the winners [n] and of the losers [n], and weights [n]."""
    at = counters % history.weights.shape[0]
    impression = history.pair_impression[at]
    winners = history.rows[impression, history.winners[at]]
    losers = history.rows[impression, history.losers[at]]
    return winners, losers, history.weights[at]


def _pair_loss(
    scorer: Any, batch: tuple[Array, Array, Array], keep: Array, rows: Rows
) -> tuple[Array, Array]:
    """Cross-entropy of Eq. (loss); y_ij = 1 since the winner comes first."""
    winners, losers, weights = batch
    scores = scorer(rows.features[jnp.concatenate([winners, losers])])
    n = winners.shape[0]
    losses = jax.nn.softplus(scores[n:] - scores[:n])
    return jnp.sum(jnp.where(keep, weights * losses, 0.0)), jnp.sum(keep)


RANKNET = descent.Objective(
    held=ring.pairs_held,
    gather=_gather_pairs,
    loss=_pair_loss,
    n_pairs=lambda history: ring.pairs_held(history).n,
)

ENTRY = Entry(
    summary="The paper's Algorithm 1: neural RankNet, explores uncertain pairs only.",
    factory=olranknet,
    design=Design,
    numbers=Numbers,
    presets={"paper": {}, "released": RELEASED},
    knows_certainty=True,
)
