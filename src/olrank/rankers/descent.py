"""Gradient descent on what the history holds, pulled to where the network started.

Paper                                      Here                 Where
L_t(theta), its gradient                   Objective            Eq. (loss)
J steps with step size eta                 descend              Alg. 1, line 11
(m lambda / 2) ||theta - theta_0||^2       _sgd_step, c         Eq. (loss)

Both terms of the loss are divided by the number n of pairs in the history: the mean over a batch of
pairs stands for the mean over all of them, and the pull becomes (m pull / n) (theta - theta_0). It
is taken as an implicit (proximal) step, theta <- (theta' + c theta_0) / (1 + c) with
c = eta m pull / n, because the explicit step diverges while c > 2.

"adam" is the released code's optimiser: moments start anew each round, and the pull is a plain
gradient (pull / n) (theta - anchor).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from olrank.errors import ConfigError, unknown_name
from olrank.feedback import history as ring
from olrank.types import Array, Key, PyTree, Rows

_CHUNK = 1024  # items of a full-history pass that are held in memory at once
_BETA_1, _BETA_2, _ADAM_EPS = 0.9, 0.999, 1e-8  # Kingma & Ba 2015


class Objective(NamedTuple):
    """A loss over stored items: pairs, impressions or queries.

    Attributes:
        held: memory -> Window of the items that are stored.
        gather: (memory, counters [n]) -> batch.
        loss: (scorer, batch, keep [n] bool, rows) -> (sum of pair losses, number of pairs).
        n_pairs: memory -> the n that the pull is divided by.
    """

    held: Callable[[Any], ring.Window]
    gather: Callable[[Any, Array], Any]
    loss: Callable[[Callable[[Array], Array], Any, Array, Rows], tuple[Array, Array]]
    n_pairs: Callable[[Any], Array]


class Plan(NamedTuple):
    """How many steps, on how much of the history.

    Attributes:
        steps: J, gradient steps a round.
        batch: items a step, or None for the whole history in every step.
        epochs: when given, steps are epochs * ceil(items / batch) instead of J; one step an epoch
            where every step takes the whole history.
        optimiser: "sgd" or "adam".
        recency: of what is drawn into batches, see `ring.sample`; batches only.
    """

    steps: int
    batch: int | None
    epochs: int | None
    optimiser: str
    recency: int = 0


class Rates(NamedTuple):
    """Numbers of a descent: the learning rate, and m * pull, one for all or one for each part."""

    learning_rate: Array
    pull: PyTree


def check_plan(plan: Plan) -> None:
    """Raise a ConfigError when there is no such plan."""
    if plan.optimiser not in ("sgd", "adam"):
        raise unknown_name("optimiser", plan.optimiser, ("sgd", "adam"))
    if plan.recency < 0 or (plan.recency and plan.batch is None):
        raise ConfigError(
            f"recency: {plan.recency} must be 0 or more, and goes with a history_batch: it says "
            "what is drawn into batches."
        )


def descend(
    key: Key,
    plan: Plan,
    rates: Rates,
    score: Callable[[PyTree, Array], Array],
    objective: Objective,
    memory: Any,
    rows: Rows,
    start: PyTree,
    anchor: PyTree,
) -> PyTree:
    """Parameters after the plan's steps from `start`; `start` itself while the memory is empty."""
    held = objective.held(memory)
    n = jnp.maximum(objective.n_pairs(memory), 1).astype(jnp.result_type(float))
    # An empty memory turns every step into one of length zero.
    pulls = jax.tree.map(lambda p, part: jax.tree.map(lambda _: p / n, part), rates.pull, start)
    rates = Rates(jnp.where(held.n > 0, rates.learning_rate, 0.0), pulls)

    def gradient(step_key: Key, theta: PyTree) -> PyTree:
        if plan.batch is None:
            return _whole_gradient(score, objective, memory, rows, held, theta)
        batch = objective.gather(memory, ring.sample(step_key, held, plan.batch, plan.recency))
        return _mean_gradient(score, objective, batch, jnp.ones(plan.batch, bool), rows, theta)

    def step(i: Array, carry: PyTree) -> PyTree:
        grads = gradient(jax.random.fold_in(key, i), carry[0])
        return (_sgd_step if plan.optimiser == "sgd" else _adam_step)(
            i, carry, grads, rates, anchor
        )

    n_steps: Any = plan.steps
    if plan.epochs is not None:
        size = plan.batch
        n_steps = plan.epochs * (1 if size is None else (held.n + size - 1) // size)
    moments: tuple[PyTree, ...] = ()
    if plan.optimiser == "adam":
        moments = (jax.tree.map(jnp.zeros_like, start), jax.tree.map(jnp.zeros_like, start))
    theta: PyTree = jax.lax.fori_loop(0, n_steps, step, (start, *moments))[0]
    return theta


def _mean_gradient(
    score: Callable[[PyTree, Array], Array],
    objective: Objective,
    batch: Any,
    keep: Array,
    rows: Rows,
    theta: PyTree,
) -> PyTree:
    def total(theta: PyTree) -> tuple[Array, Array]:
        return objective.loss(lambda features: score(theta, features), batch, keep, rows)

    grads, n = jax.grad(total, has_aux=True)(theta)
    return jax.tree.map(lambda g: g / jnp.maximum(n, 1), grads)


def _whole_gradient(
    score: Callable[[PyTree, Array], Array],
    objective: Objective,
    memory: Any,
    rows: Rows,
    held: ring.Window,
    theta: PyTree,
) -> PyTree:
    """Mean gradient over everything held, a chunk at a time."""

    def total(theta: PyTree, counters: Array) -> tuple[Array, Array]:
        keep = counters < held.first + held.n
        batch = objective.gather(memory, jnp.minimum(counters, held.first + held.n - 1))
        return objective.loss(lambda features: score(theta, features), batch, keep, rows)

    def add(chunk: Array, carry: tuple[PyTree, Array]) -> tuple[PyTree, Array]:
        counters = held.first + chunk * _CHUNK + jnp.arange(_CHUNK)
        grads, n = jax.grad(total, has_aux=True)(theta, counters)
        return jax.tree.map(jnp.add, carry[0], grads), carry[1] + n

    zeros = jax.tree.map(jnp.zeros_like, theta)
    n_chunks = (held.n + _CHUNK - 1) // _CHUNK
    nothing = jnp.zeros((), jnp.result_type(float))
    grads, n = jax.lax.fori_loop(0, n_chunks, add, (zeros, nothing))
    return jax.tree.map(lambda g: g / jnp.maximum(n, 1), grads)


def _sgd_step(i: Array, carry: PyTree, grads: PyTree, rates: Rates, anchor: PyTree) -> PyTree:

    def move(theta: Array, grad: Array, home: Array, pull: Array) -> Array:
        c = rates.learning_rate * pull
        return (theta - rates.learning_rate * grad + c * home) / (1.0 + c)

    return (jax.tree.map(move, carry[0], grads, anchor, rates.pull),)


def _adam_step(i: Array, carry: PyTree, grads: PyTree, rates: Rates, anchor: PyTree) -> PyTree:
    theta, first, second = carry
    grads = jax.tree.map(
        lambda g, t, home, pull: g + pull * (t - home), grads, theta, anchor, rates.pull
    )
    first = jax.tree.map(lambda m, g: _BETA_1 * m + (1 - _BETA_1) * g, first, grads)
    second = jax.tree.map(lambda v, g: _BETA_2 * v + (1 - _BETA_2) * g**2, second, grads)
    t = (i + 1).astype(jnp.result_type(float))
    fix_1, fix_2 = 1 - _BETA_1**t, 1 - _BETA_2**t

    def move(theta: Array, m: Array, v: Array) -> Array:
        return theta - rates.learning_rate * (m / fix_1) / (jnp.sqrt(v / fix_2) + _ADAM_EPS)

    return jax.tree.map(move, theta, first, second), first, second
