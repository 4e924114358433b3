"""A network beside lines that are weighed by what they foretell; feedback.lines says why.

The lines are fitted to the same history as the network, by one step a round and each to its half of
the documents. The step is as long as the loss allows, so there is no rate to choose; stopping
after so few steps pulls the least pulled lines a little more.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from olrank.errors import ConfigError
from olrank.feedback import documents, lines, pairs
from olrank.feedback import history as ring
from olrank.feedback.impressions import Batch, Memory, gather
from olrank.nets.net import Net
from olrank.rankers import descent
from olrank.rankers.explorer import Fit, State
from olrank.rankers.olranknet import fit_by_descent
from olrank.types import Array, Impression, Key, PyTree, Rows


def fit(design: Any, net: Net, objective: descent.Objective) -> Fit:
    """Fit the network beside the line that serves, which it does not move."""
    if not (design.linear_part and design.within_lists) or design.update != "continue":
        raise ConfigError(
            "weighed_lines: they go with linear_part = true, within_lists = true and "
            'update = "continue".'
        )

    def score(theta: PyTree, features: Array) -> Array:
        return net.score((jax.lax.stop_gradient(theta[0]), theta[1]), features)

    descend = fit_by_descent(design, net._replace(score=score), objective)
    root = math.sqrt(net.scale)  # nets.residual multiplies the line by it

    def beside(key: Key, state: State, rows: Rows) -> tuple[PyTree, PyTree]:
        line = lines.served(state.history.lines) / root
        no_pull = jnp.zeros_like(state.numbers.linear_pull)
        state = state._replace(
            theta=(line, state.theta[1]), numbers=state.numbers._replace(linear_pull=no_pull)
        )
        return descend(key, state, rows)

    return beside


def learn(design: Any, key: Key, memory: Memory, impression: Impression, rows: Rows) -> Memory:
    """The lines after an impression that is in the memory: judged by it, then fitted with it."""
    shown, seen = rows.features[impression.rows], pairs.in_view(impression)
    halves, clicks = documents.halves(shown), impression.clicks
    n = memory.n_impressions
    known = lines.judge(memory.lines, shown, halves, clicks, seen, memory.habits, n)
    steep = known.steepness
    rate = jnp.where(steep > 0, 1.0 / jnp.where(steep > 0, steep, 1.0), 0.0)
    rates = descent.Rates(rate, jnp.asarray(lines.PULLS, steep.dtype)[:, None])
    plan = descent.Plan(1, design.history_batch, None, "sgd")
    home = jnp.zeros_like(known.betas)
    betas = descent.descend(key, plan, rates, lines.score, LINES, memory, rows, known.betas, home)
    return memory._replace(lines=known._replace(betas=betas))


def _loss(score: Any, batch: Batch, keep: Array, rows: Rows) -> tuple[Array, Array]:
    """The loss of all lines together; each sees the documents of its own half."""
    n, k = batch.rows.shape
    scores = score(rows.features[batch.rows.reshape(-1)]).reshape(2, len(lines.PULLS), n, k)

    def one(scores: Array, halves: Array, clicks: Array, seen: Array) -> Array:
        found = [
            lines.log_likelihoods(
                scores[copy], seen & (halves == bool(copy)), clicks, seen, batch.habits
            )
            for copy in (0, 1)
        ]
        return jnp.sum(jnp.stack(found))

    found = jax.vmap(one, (2, 0, 0, 0))(scores, batch.halves, batch.clicks, batch.seen)
    return -jnp.sum(jnp.where(keep, found, 0.0)), jnp.sum(keep)


LINES = descent.Objective(
    held=ring.impressions_held,
    gather=gather,
    loss=_loss,
    n_pairs=lambda memory: ring.impressions_held(memory).n,
)
