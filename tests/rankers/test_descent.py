"""Descent against the oracle's proximal steps, Adam by hand, and what must hold exactly."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import descent as oracle
from oracle import network
from rankers.served import as_oracle, history_of

from olrank.errors import ConfigError
from olrank.feedback import history as ring
from olrank.nets import mlp
from olrank.rankers import descent
from olrank.rankers.olranknet import RANKNET
from olrank.types import Rows

D, M = 3, 6
KEY = jax.random.key(0)
pytestmark = pytest.mark.usefixtures("x64")


def task(n_pairs, seed=0, depth=2, weighted=False):
    """A net away from its theta_0, rows, pairs of rows, weights."""
    rng = np.random.default_rng(seed)
    net = mlp.paper(M, depth)
    home = net.init(jax.random.key(seed), D)
    start = jax.tree.map(lambda W: W + 0.2 * rng.normal(size=W.shape), home)
    X = rng.normal(size=(50, D))
    pairs = rng.integers(0, 50, (n_pairs, 2))
    weights = rng.uniform(0.1, 2.0, n_pairs) if weighted else np.ones(n_pairs)
    return net, home, start, X, pairs, weights


def descend(net, home, start, X, history, plan, rate=0.1, pull=0.0):
    rates = descent.Rates(jnp.asarray(rate), jnp.asarray(pull))
    rows = Rows(jnp.asarray(X))
    run = jax.jit(
        lambda start: descent.descend(
            KEY, plan, rates, net.score, RANKNET, history, rows, start, home
        )
    )
    return run(start)


def steps_of_oracle(start, home, X, pairs, weights, steps, rate, pull):
    """Literal proximal steps on all pairs; the winner comes first, so y = 1."""
    theta, theta_0 = as_oracle(start), as_oracle(home)
    seen = [(X[i], X[j], 1.0) for i, j in pairs]
    for _ in range(steps):
        theta = oracle.proximal_step(theta, theta_0, seen, rate, pull, len(seen), weights)
    return theta


def assert_same(params, theta):
    for ours, theirs in zip(as_oracle(params), theta, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("n_pairs", "steps", "depth", "weighted"),
    [(7, 1, 2, False), (7, 4, 3, True), (1500, 1, 2, True)],  # 1500 is more than one chunk
)
def test_steps_on_the_whole_history_are_the_oracles(n_pairs, steps, depth, weighted):
    net, home, start, X, pairs, weights = task(n_pairs, depth=depth, weighted=weighted)
    plan = descent.Plan(steps, None, None, "sgd")
    after = descend(net, home, start, X, history_of(pairs, weights), plan, 0.1, M * 0.7)
    assert_same(after, steps_of_oracle(start, home, X, pairs, weights, steps, 0.1, 0.7))


def test_forgotten_impressions_are_not_descended_on():
    net, home, start, X, pairs, weights = task(9, weighted=True)
    history = history_of(pairs, weights, capacity=5)
    plan = descent.Plan(2, None, None, "sgd")
    after = descend(net, home, start, X, history, plan, 0.1, M * 0.7)
    assert_same(after, steps_of_oracle(start, home, X, pairs[4:], weights[4:], 2, 0.1, 0.7))


def test_a_batch_is_drawn_anew_for_every_step_and_the_pull_counts_the_whole_history():
    net, home, start, X, pairs, weights = task(7, weighted=True)
    history = history_of(pairs, weights)
    after = descend(net, home, start, X, history, descent.Plan(3, 4, None, "sgd"), 0.1, M * 0.7)
    theta, batches = as_oracle(start), []
    for i in range(3):
        drawn = ring.sample(jax.random.fold_in(KEY, i), ring.pairs_held(history), 4).tolist()
        batches.append(drawn)
        seen = [(X[pairs[n, 0]], X[pairs[n, 1]], 1.0) for n in drawn]
        theta = oracle.proximal_step(theta, as_oracle(home), seen, 0.1, 0.7, 7, weights[drawn])
    assert batches[0] != batches[1]
    assert_same(after, theta)


def test_adam_is_that_of_kingma_and_ba_with_the_pull_as_a_gradient():
    net, home, start, X, pairs, _ = task(7)
    rate, pull, steps = 0.05, 1.3, 3
    plan = descent.Plan(steps, None, None, "adam")
    after = descend(net, home, start, X, history_of(pairs), plan, rate, pull)
    theta, anchor = network.flatten(as_oracle(start)), network.flatten(as_oracle(home))
    seen = [(X[i], X[j], 1.0) for i, j in pairs]
    m, v = np.zeros_like(theta), np.zeros_like(theta)
    for t in range(1, steps + 1):
        shaped = network.unflatten(theta, as_oracle(start))
        g = oracle.sum_gradient(shaped, seen) / 7 + pull / 7 * (theta - anchor)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        theta = theta - rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    np.testing.assert_allclose(network.flatten(as_oracle(after)), theta, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@pytest.mark.parametrize("batch", [None, 4])
def test_an_empty_history_moves_nothing(optimiser, batch):
    net, home, start, X, _, _ = task(1)
    plan = descent.Plan(3, batch, None, optimiser)
    after = descend(net, home, start, X, history_of([], capacity=3), plan, 0.1, 5.0)
    jax.tree.map(np.testing.assert_array_equal, after, start)


def counting(n_items):
    """An objective whose every gradient is one, over n_items; so theta counts its steps."""
    return descent.Objective(
        held=lambda memory: ring.Window(jnp.int32(0), jnp.int32(n_items)),
        gather=lambda memory, counters: counters,
        loss=lambda scorer, batch, keep, rows: (
            jnp.sum(jnp.where(keep, scorer(batch), 0.0)),
            jnp.sum(keep),
        ),
        n_pairs=lambda memory: jnp.int32(n_items),
    )


def travel(plan, n_items, start=0.0, home=0.0, rate=1.0, pull=0.0, slope=1.0):
    return float(
        descent.descend(
            KEY, plan, descent.Rates(jnp.asarray(rate), jnp.asarray(pull)),
            lambda theta, batch: slope * theta * jnp.ones(batch.shape[0]),
            counting(n_items), (), Rows(jnp.zeros((1, 1))), jnp.asarray(start), jnp.asarray(home),
        )
    )  # fmt: skip


@pytest.mark.parametrize(
    ("batch", "epochs", "n_items", "n_steps"),
    [
        (4, None, 9, 5),  # J
        (4, 3, 9, 3 * 3),  # three batches of four cover nine
        (4, 3, 8, 3 * 2),
        (4, 3, 0, 0),
        (None, 3, 9, 3),  # an epoch is one step on everything
    ],
)
def test_epochs_are_passes_over_the_history(batch, epochs, n_items, n_steps):
    plan = descent.Plan(5, batch, epochs, "sgd")
    assert travel(plan, n_items) == pytest.approx(-1.0 * n_steps)


def test_a_pull_that_would_diverge_explicitly_goes_home():
    # c = eta m pull / n = 0.5 * 700 / 7 = 50; explicitly every step would multiply by 1 - 50.
    plan = descent.Plan(4, None, None, "sgd")
    after = travel(plan, 7, start=3.0, home=1.0, rate=0.5, pull=700.0, slope=0.0)
    assert after == pytest.approx(1.0 + (3.0 - 1.0) / (1 + 50) ** 4, rel=1e-12)


@pytest.mark.parametrize(("batch", "recency"), [(None, 1), (8, -1)])
def test_a_recency_without_batches_is_refused(batch, recency):
    with pytest.raises(ConfigError, match="goes with a history_batch"):
        descent.check_plan(descent.Plan(1, batch, None, "sgd", recency))


def test_an_unknown_optimiser_is_refused():
    with pytest.raises(ConfigError, match='no optimiser is called "adm".*Did you mean "adam"'):
        descent.check_plan(descent.Plan(1, None, None, "adm"))
