"""PairRank (Jia et al. 2021): pairwise logistic regression with olRankNet's exploration.

Paper                                         Here            Where
theta_t = argmin sum log(1 + e^-x_ij theta)   _newton         PairRank, Eq. of the loss
          + lambda / 2 ||theta||^2
A_t = lambda I + sum x_ij x_ij^T              explorer        confidence = "full", d x d
omega_t, tau_t, Omega_t^ind                   explorer        as in olRankNet

The net is linear, so its tangent feature is x itself and A_t is exact. The loss is convex and is
solved to convergence each round by Newton's method, warm started at the last solution, halving
steps that overshoot. The released code runs L-BFGS on the mean loss + lambda ||theta||^2.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from olrank.feedback import history as ring
from olrank.rankers.entry import Entry
from olrank.rankers.explorer import Numbers, State, explorer
from olrank.rankers.olranknet import RANKNET
from olrank.rankers.scorers import choose_net
from olrank.types import Array, Key, PyTree, Ranker, Rows

_CHUNK = 1024  # pairs of a pass over the history that are held in memory at once
_GPU_CHUNK = 4096  # the same on an accelerator, which small pieces do not fill
_MAX_PASSES = 40  # over the history in one round; a warm start needs two or three


class Design(NamedTuple):
    """Settings that change shapes or code; see explorer.Design for what they mean.

    Attributes:
        loss_scale: "sum" (the paper) or "mean" (the released code: mean loss + pull ||theta||^2).
    """

    k: int = 10
    history: int = 10_000
    network: str = "linear"
    confidence: str = "full"
    order: str = "topological"
    pairs: str = "independent"
    only_uncertain: bool = False
    pair_weights: str = "none"
    examination: str = "last-click-plus-one"
    alpha_rule: str = "constant"
    width_scale: str = "probability"
    curvature: bool = False
    loss_scale: str = "sum"
    steps: int = 1


def pairrank(design: Design) -> Ranker:
    """PairRank: linear scores, full A, a convex fit every round."""

    def fit(key: Key, state: State, rows: Rows) -> tuple[PyTree, PyTree]:
        n = jnp.maximum(ring.pairs_held(state.history).n, 1)
        pull = state.numbers.pull
        if design.loss_scale == "mean":
            pull = 2.0 * n * pull
        return _newton(state.history, rows.features, state.theta, pull), state.theta_0

    return explorer(design, choose_net(design), fit)


class _Search(NamedTuple):
    """Where Newton's method stands.

    Attributes:
        theta: the best parameters so far.
        loss: there.
        direction: the Newton step from there.
        length: of the step to try next, 1 or less.
        decrement: twice what the step promises to gain.
        n_passes: over the history, so far.
    """

    theta: Array
    loss: Array
    direction: Array
    length: Array
    decrement: Array
    n_passes: Array


def _newton(history: ring.History, features: Array, start: Array, pull: Array) -> Array:
    """The minimiser of the sum of pair losses + pull / 2 ||theta||^2.

    One pass over the history gives loss, gradient and curvature at once: a step that made the loss
    worse is halved, any other is followed by the next. Newton's method squares its decrement with
    every step, so the last step needs no pass to confirm it.
    """
    spacing = float(np.spacing(np.ones((), start.dtype)))
    small_enough = 0.1 * (10 * spacing) ** 0.5

    def improve(at: _Search) -> _Search:
        theta = at.theta + at.length * at.direction
        loss, gradient, hessian = _derivatives(history, features, theta, pull)
        # Near the minimum the sum's own rounding exceeds what is still to be gained.
        better = loss <= at.loss + 100 * spacing * jnp.maximum(jnp.abs(loss), 1.0)
        direction = _newton_direction(gradient, hessian)
        found = _Search(
            theta, loss, direction, jnp.ones_like(at.length), -gradient @ direction, at.n_passes
        )
        worse = at._replace(length=at.length / 2)
        chosen = jax.tree.map(lambda new, old: jnp.where(better, new, old), found, worse)
        return _Search(*chosen)._replace(n_passes=at.n_passes + 1)

    def unfinished(at: _Search) -> Array:
        goes_on: Array = (at.decrement > small_enough) & (at.n_passes < _MAX_PASSES)
        return goes_on

    held = ring.pairs_held(history).n > 0
    infinite = jnp.full((), jnp.inf, start.dtype)
    nothing, one = jnp.zeros_like(start), jnp.ones((), start.dtype)
    first = jnp.where(held, infinite, 0.0)
    begin = _Search(start, infinite, nothing, one, first, jnp.zeros((), jnp.int32))
    end: _Search = jax.lax.while_loop(unfinished, improve, begin)
    theta: Array = end.theta + jnp.where(end.decrement > small_enough, 0.0, 1.0) * end.direction
    return theta


def _derivatives(
    history: ring.History, features: Array, theta: Array, pull: Array
) -> tuple[Array, Array, Array]:
    """Loss, gradient and Hessian, in one pass over the pairs."""

    def add(carry: PyTree, x: Array, weights: Array) -> PyTree:
        margins = jnp.matmul(x, theta, precision="highest")
        p_wrong = jax.nn.sigmoid(-margins)
        loss = carry[0] + weights @ jax.nn.softplus(-margins)
        gradient = carry[1] - jnp.matmul(weights * p_wrong, x, precision="highest")
        curvature = weights * p_wrong * (1.0 - p_wrong)
        return loss, gradient, carry[2] + (x * curvature[:, None]).T @ x

    eye = jnp.eye(theta.shape[0], dtype=theta.dtype)
    start = (pull / 2 * jnp.sum(theta**2), pull * theta, pull * eye)
    loss, gradient, hessian = _over_pairs(history, features, add, start)
    return loss, gradient, hessian


def _newton_direction(gradient: Array, hessian: Array) -> Array:
    """-H^-1 g, with a ridge as small as H's own rounding: it moves no minimiser."""
    n = gradient.shape[0]
    ridge = n * float(np.spacing(np.ones((), hessian.dtype))) * jnp.trace(hessian)
    ridged = hessian + ridge * jnp.eye(n, dtype=hessian.dtype)
    direction: Array = jax.scipy.linalg.solve(ridged, -gradient, assume_a="pos")
    return direction


def _over_pairs(history: ring.History, features: Array, add: Any, start: PyTree) -> PyTree:
    """Fold `add(carry, x_ij [n, d], weights [n])` over all pairs held, a chunk at a time."""
    held = ring.pairs_held(history)
    size = _CHUNK if jax.default_backend() == "cpu" else _GPU_CHUNK

    def one_chunk(chunk: Array, carry: PyTree) -> PyTree:
        counters = held.first + chunk * size + jnp.arange(size)
        winners, losers, weights = RANKNET.gather(history, counters)
        inside = counters < held.first + held.n
        x = features[winners] - features[losers]
        return add(carry, x, jnp.where(inside, weights, 0.0))

    return jax.lax.fori_loop(0, (held.n + size - 1) // size, one_chunk, start)


ENTRY = Entry(
    summary="Pairwise logistic regression with the same exploration; linear, exact A.",
    factory=pairrank,
    design=Design,
    numbers=Numbers,
    presets={
        "paper": {"lambda": 0.1},
        "released": {"order": "blocks", "pairs": "matched", "loss_scale": "mean", "lambda": 1e-3},
    },
    knows_certainty=True,
)
