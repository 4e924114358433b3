"""PairRank (Jia et al. 2021): pairwise logistic regression with olRankNet's exploration.

Paper                                         Here            Where
theta_t = argmin sum log(1 + e^-x_ij theta)   _solve          PairRank, Eq. of the loss
          + lambda / 2 ||theta||^2
A_t = lambda I + sum x_ij x_ij^T              explorer        confidence = "full", d x d
omega_t, tau_t, Omega_t^ind                   explorer        as in olRankNet

The net is linear, so its tangent feature is x itself and A_t is exact. The loss is convex and is
solved to convergence each round, warm started at the last solution, halving steps that overshoot.
The released code runs L-BFGS on the mean loss + lambda ||theta||^2.

Newton's method would go over the history for d^2 numbers a pair, the gradient alone takes d. The
curvature changes little from round to round, so it is remembered: each new pair adds its own, and
now and then all of it is taken anew. Steps by a curvature that is a little old need some more
passes for the gradient; where they do not get there, Newton's own do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from olrank.feedback import history as ring
from olrank.rankers.entry import Entry
from olrank.rankers.explorer import Lesson, Numbers, State, explorer, no_pairs, observe
from olrank.rankers.olranknet import RANKNET
from olrank.rankers.scorers import choose_net
from olrank.types import Array, Impression, Key, PyTree, Ranker, Rows

_CHUNK = 1024  # pairs of a pass over the history that are held in memory at once
_GPU_CHUNK = 4096  # the same on an accelerator, which small pieces do not fill
_MAX_PASSES = 40  # over the history in one search; a warm start needs a handful
_RENEWALS = 16  # the curvature is taken anew when the history has grown by one in so many


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


class Memory(NamedTuple):
    """What is learned from.

    Attributes:
        pairs: the history.
        curvature: [d, d] sum over its pairs of w sigma'(x_ij theta) x_ij x_ij^T, each at some theta
            since it was last taken anew.
        n_learned: impressions so far, also those that taught no pair: replicas side by side then
            take it anew in the same rounds, and the others cost nothing.
        renew_at: the impression at which it is taken anew.
    """

    pairs: ring.History
    curvature: Array
    n_learned: Array
    renew_at: Array

    @property
    def rows(self) -> Array:
        """[capacity, k] rows of the shown documents."""
        return self.pairs.rows

    @property
    def n_impressions(self) -> Array:
        """How many were ever stored."""
        return self.pairs.n_impressions


def pairrank(design: Design) -> Ranker:
    """PairRank: linear scores, full A, a convex fit every round."""

    def remember(n_features: int) -> Memory:
        square = jnp.zeros((n_features, n_features), jnp.result_type(float))
        nothing = jnp.zeros((), jnp.int32)
        return Memory(no_pairs(design), square, nothing, jnp.ones((), jnp.int32))

    def teach(state: State, key: Key, impression: Impression, rows: Rows) -> Lesson:
        memory = state.history
        pairs, history = observe(state._replace(history=memory.pairs), key, impression, design)
        shown = rows.features[impression.rows]
        x = shown[pairs.winners] - shown[pairs.losers]
        curvatures = pairs.weights * _slopes(jnp.matmul(x, state.theta, precision="highest"))
        memory = _with_pairs(memory, history, _squares(x, curvatures), rows, state.theta)
        weights = curvatures if design.curvature else pairs.weights
        return Lesson(memory, lambda g: g[pairs.winners] - g[pairs.losers], weights)

    def fit(key: Key, state: State, rows: Rows) -> tuple[PyTree, PyTree]:
        memory, pull = state.history, state.numbers.pull
        if design.loss_scale == "mean":
            pull = 2.0 * jnp.maximum(ring.pairs_held(memory.pairs).n, 1) * pull
        theta = _solve(memory.pairs, memory.curvature, rows.features, state.theta, pull)
        return theta, state.theta_0

    return explorer(design, choose_net(design), fit, teach, remember)


def _with_pairs(
    memory: Memory, history: ring.History, added: Array, rows: Rows, theta: Array
) -> Memory:
    """The memory with a new history, whose new pairs are curved as `added` says."""
    n = memory.n_learned + 1

    def renew(at: Memory) -> Memory:
        nothing = jnp.zeros((), theta.dtype)
        _, _, curvature = _derivatives(history, rows.features, theta, nothing)
        held = jnp.minimum(n, history.rows.shape[0])
        return at._replace(curvature=curvature, renew_at=n + jnp.maximum(held // _RENEWALS, 1))

    # A loop of one pass or none, and not a choice: side by side, choices take both ways.
    return jax.lax.while_loop(
        lambda at: at.renew_at <= n,
        renew,
        memory._replace(pairs=history, curvature=memory.curvature + added, n_learned=n),
    )


class _Search(NamedTuple):
    """Where a search for the minimum stands.

    Attributes:
        theta: the best parameters so far.
        loss: there.
        direction: the step from there.
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


def _solve(
    history: ring.History, curvature: Array, features: Array, start: Array, pull: Array
) -> Array:
    """The minimiser of the sum of pair losses + pull / 2 ||theta||^2.

    Args:
        history: of the pairs.
        curvature: [d, d] roughly that of the sum.
        features: of all rows.
        start: parameters to start at.
        pull: of the second term.
    """
    spacing = float(np.spacing(np.ones((), start.dtype)))
    eye = jnp.eye(start.shape[0], dtype=start.dtype)
    factor = jax.scipy.linalg.cho_factor(_ridged(curvature + pull * eye))

    def by_old_curvature(theta: Array) -> tuple[Array, Array, Array]:
        loss, gradient = _loss_and_gradient(history, features, theta, pull)
        return loss, gradient, -jax.scipy.linalg.cho_solve(factor, gradient)

    def by_newton(theta: Array) -> tuple[Array, Array, Array]:
        loss, gradient, hessian = _derivatives(history, features, theta, pull)
        return loss, gradient, jax.scipy.linalg.solve(_ridged(hessian), -gradient, assume_a="pos")

    held = ring.pairs_held(history).n > 0
    first = _search(by_old_curvature, start, held, spacing)
    arrived = first.decrement <= spacing
    # Newton's method squares its decrement with every step, so the last needs no such precision.
    near = 0.1 * (10 * spacing) ** 0.5
    second = _search(by_newton, first.theta, held & ~arrived, near)
    end = jax.tree.map(lambda a, b: jnp.where(arrived, a, b), first, second)
    # The last step needs no pass to confirm it.
    theta: Array = end.theta + jnp.where(end.decrement > near, 0.0, 1.0) * end.direction
    return theta


def _search(
    step: Callable[[Array], tuple[Array, Array, Array]], start: Array, wanted: Array, near: float
) -> _Search:
    """Go where steps lead, halving those that make the loss worse, until little is to be gained.

    Args:
        step: theta -> loss, gradient and the step from there; one pass over the history.
        start: parameters to start at.
        wanted: bool; nothing is done where it is False.
        near: the decrement at which to stop.
    """
    spacing = float(np.spacing(np.ones((), start.dtype)))

    def improve(at: _Search) -> _Search:
        theta = at.theta + at.length * at.direction
        loss, gradient, direction = step(theta)
        # Near the minimum the sum's own rounding exceeds what is still to be gained.
        better = loss <= at.loss + 100 * spacing * jnp.maximum(jnp.abs(loss), 1.0)
        found = _Search(
            theta, loss, direction, jnp.ones_like(at.length), -gradient @ direction, at.n_passes
        )
        worse = at._replace(length=at.length / 2)
        chosen = jax.tree.map(lambda new, old: jnp.where(better, new, old), found, worse)
        return _Search(*chosen)._replace(n_passes=at.n_passes + 1)

    def unfinished(at: _Search) -> Array:
        goes_on: Array = (at.decrement > near) & (at.n_passes < _MAX_PASSES)
        return goes_on

    infinite = jnp.full((), jnp.inf, start.dtype)
    nothing, one = jnp.zeros_like(start), jnp.ones((), start.dtype)
    first = jnp.where(wanted, infinite, 0.0)
    begin = _Search(start, infinite, nothing, one, first, jnp.zeros((), jnp.int32))
    end: _Search = jax.lax.while_loop(unfinished, improve, begin)
    return end


def _loss_and_gradient(
    history: ring.History, features: Array, theta: Array, pull: Array
) -> tuple[Array, Array]:
    """Loss and gradient, in one pass over the pairs."""
    start = (pull / 2 * jnp.sum(theta**2), pull * theta)
    found: tuple[Array, Array] = _over_pairs(
        history, features, lambda sums, x, weights: _added(sums, x, weights, theta)[:2], start
    )
    return found


def _derivatives(
    history: ring.History, features: Array, theta: Array, pull: Array
) -> tuple[Array, Array, Array]:
    """Loss, gradient and Hessian, in one pass over the pairs."""

    def add(sums: PyTree, x: Array, weights: Array) -> PyTree:
        loss, gradient, margins = _added(sums[:2], x, weights, theta)
        return loss, gradient, sums[2] + _squares(x, weights * _slopes(margins))

    eye = jnp.eye(theta.shape[0], dtype=theta.dtype)
    start = (pull / 2 * jnp.sum(theta**2), pull * theta, pull * eye)
    found: tuple[Array, Array, Array] = _over_pairs(history, features, add, start)
    return found


def _added(sums: PyTree, x: Array, weights: Array, theta: Array) -> tuple[Array, Array, Array]:
    """Loss and gradient with some pairs added, and the pairs' margins."""
    margins = jnp.matmul(x, theta, precision="highest")
    loss = sums[0] + weights @ jax.nn.softplus(-margins)
    pushes = weights * jax.nn.sigmoid(-margins)
    return loss, sums[1] - jnp.matmul(pushes, x, precision="highest"), margins


def _slopes(margins: Array) -> Array:
    return jax.nn.sigmoid(margins) * jax.nn.sigmoid(-margins)


def _squares(x: Array, weights: Array) -> Array:
    """[d, d] sum of w x x^T."""
    return (x * weights[:, None]).T @ x


def _ridged(hessian: Array) -> Array:
    """The matrix with a ridge as small as its own rounding: it moves no minimiser."""
    n = hessian.shape[0]
    ridge = n * float(np.spacing(np.ones((), hessian.dtype))) * jnp.trace(hessian)
    return hessian + ridge * jnp.eye(n, dtype=hessian.dtype)


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
