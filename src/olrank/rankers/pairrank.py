"""PairRank (Jia et al. 2021): pairwise logistic regression with olRankNet's exploration.

Paper                                         Here            Where
theta_t = argmin sum log(1 + e^-x_ij theta)   _newton         PairRank, Eq. of the loss
          + lambda / 2 ||theta||^2
A_t = lambda I + sum x_ij x_ij^T              explorer        confidence = "full", d x d
omega_t, tau_t, Omega_t^ind                   explorer        as in olRankNet

The net is linear, so its tangent feature is x itself and A_t is exact. The loss is convex and is
solved to convergence each round by Newton's method, warm started at the last solution, with a
line search over halved steps. The released code runs L-BFGS on the mean loss + lambda ||theta||^2.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from olrank.feedback import history as ring
from olrank.rankers.entry import Entry
from olrank.rankers.explorer import Numbers, State, choose_net, explorer
from olrank.rankers.olranknet import RANKNET
from olrank.types import Array, Key, PyTree, Ranker, Rows

_CHUNK = 1024  # pairs of a pass over the history that are held in memory at once
_MAX_NEWTON = 25  # a warm start needs two or three
_HALVINGS = 8  # step lengths 1, 1/2, ..., 1/128 (and none) that the line search looks at


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


def _newton(history: ring.History, features: Array, start: Array, pull: Array) -> Array:
    """The minimiser of the sum of pair losses + pull / 2 ||theta||^2."""
    tolerance = 10 * float(np.spacing(np.ones((), start.dtype)))

    def improve(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        theta, _, i = carry
        gradient, hessian = _derivatives(history, features, theta, pull)
        direction = _newton_direction(gradient, hessian)
        decrement = -gradient @ direction
        length = _line_search(history, features, theta, direction, pull)
        return theta + length * direction, decrement, i + 1

    def unfinished(carry: tuple[Array, Array, Array]) -> Array:
        _, decrement, i = carry
        return (decrement > tolerance) & (i < _MAX_NEWTON)

    infinite = jnp.full((), jnp.inf, start.dtype)
    held = ring.pairs_held(history).n > 0
    first = jnp.where(held, infinite, 0.0)
    theta, _, _ = jax.lax.while_loop(unfinished, improve, (start, first, jnp.zeros((), jnp.int32)))
    return theta


def _derivatives(
    history: ring.History, features: Array, theta: Array, pull: Array
) -> tuple[Array, Array]:
    def add(carry: PyTree, x: Array, weights: Array) -> PyTree:
        p_wrong = jax.nn.sigmoid(-(x @ theta))
        gradient = carry[0] - (weights * p_wrong) @ x
        curvature = weights * p_wrong * (1.0 - p_wrong)
        return gradient, carry[1] + (x * curvature[:, None]).T @ x

    start = (pull * theta, pull * jnp.eye(theta.shape[0], dtype=theta.dtype))
    gradient, hessian = _over_pairs(history, features, add, start)
    return gradient, hessian


def _newton_direction(gradient: Array, hessian: Array) -> Array:
    """-H^-1 g. Where H is singular to this precision a ridge helps; it moves no minimiser."""
    n = gradient.shape[0]
    ridge = n * float(np.spacing(np.ones((), hessian.dtype))) * jnp.trace(hessian)
    ridged = hessian + ridge * jnp.eye(n, dtype=hessian.dtype)
    exact, safe = (jax.scipy.linalg.solve(H, gradient, assume_a="pos") for H in (hessian, ridged))
    return -jnp.where(jnp.all(jnp.isfinite(exact)), exact, safe)


def _line_search(
    history: ring.History, features: Array, theta: Array, direction: Array, pull: Array
) -> Array:
    """The best of a few halved steps: full steps are safe near the solution, not always far off."""
    lengths = jnp.append(0.5 ** jnp.arange(_HALVINGS, dtype=theta.dtype), 0.0)

    def add(carry: Array, x: Array, weights: Array) -> Array:
        margins = (x @ theta)[:, None] + lengths * (x @ direction)[:, None]
        return carry + weights @ jax.nn.softplus(-margins)

    points = theta[None, :] + lengths[:, None] * direction[None, :]
    losses = _over_pairs(history, features, add, pull / 2 * jnp.sum(points**2, axis=1))
    return lengths[jnp.argmin(losses)]


def _over_pairs(history: ring.History, features: Array, add: Any, start: PyTree) -> PyTree:
    """Fold `add(carry, x_ij [n, d], weights [n])` over all pairs held, a chunk at a time."""
    held = ring.pairs_held(history)

    def one_chunk(chunk: Array, carry: PyTree) -> PyTree:
        counters = held.first + chunk * _CHUNK + jnp.arange(_CHUNK)
        winners, losers, weights = RANKNET.gather(history, counters)
        inside = counters < held.first + held.n
        x = features[winners] - features[losers]
        return add(carry, x, jnp.where(inside, weights, 0.0))

    return jax.lax.fori_loop(0, (held.n + _CHUNK - 1) // _CHUNK, one_chunk, start)


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
