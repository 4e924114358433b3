"""One whole round of Algorithm 1, lines 5 to 12, as slow and plain as it is written.

The baseline of the speed benchmark, and a second olRankNet to hold the first one against.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from . import confidence, descent, feedback, network, order
from .network import Array, Theta
from .order import Certain, Ranked


@dataclass(frozen=True)
class Settings:
    """The inputs of Algorithm 1 and the readings it needs.

    Attributes:
        alpha: constant in place of alpha_t, as in the paper's experiments.
        eps: eps(m), at least 0.
        pull: lambda of the loss.
        eta: step size.
        J: descent steps a round.
        k: documents shown.
        batch: pairs drawn (with replacement) for each step; None for all of the history.
        update: "continue" descends from the current theta, "theta0" from theta_0 (the proof).
    """

    alpha: float = 0.1
    eps: float = 0.0
    pull: float = 0.1
    eta: float = 0.001
    J: int = 5
    k: int = 10
    batch: int | None = None
    update: str = "continue"


@dataclass(frozen=True)
class State:
    """What a round leaves to the next: theta_t, A_{t+1} ([p, p] or diagonal [p]), the pairs."""

    theta: Theta
    theta_0: Theta
    A: Array
    history: list[descent.Pair] = field(default_factory=list)


@dataclass(frozen=True)
class Outcome:
    """What happened in a round: omega_t, tau_t, C_t and Omega_t^ind (as pairs of slots)."""

    certain: Certain
    shown: Ranked
    clicks: tuple[int, ...]
    pairs: list[feedback.SlotPair]


def start(theta_0: Theta, prior: float, diagonal: bool = True) -> State:
    """Lines 2 and 3: theta_0 as given, A_1 = lambda I (or its diagonal, Sec. 5.2)."""
    p = network.flatten(theta_0).size
    A = confidence.initial_diagonal(p, prior) if diagonal else confidence.initial(p, prior)
    return State(theta=theta_0, theta_0=theta_0, A=A)


def certain_orders(state: State, X: Array, settings: Settings) -> Certain:
    """Line 7: omega_t from X_t [n, d], theta_{t-1} and A_t."""
    m = state.theta[-1].shape[1]
    G = network.tangents(X, state.theta)
    CB = confidence.widths(G, state.A, m, settings.alpha, settings.eps)
    return confidence.certain(network.scores(X, state.theta), CB)


def run(
    state: State,
    X: Array,
    user: Callable[[Ranked], Sequence[int]],
    settings: Settings,
    rng: np.random.Generator,
) -> tuple[State, Outcome]:
    """Lines 5 to 12 for a query with candidates X [n, d]; `user` clicks on the list shown."""
    certain = certain_orders(state, X, settings)  # line 7
    shown = order.draw(rng, certain, settings.k)  # line 8
    clicks = tuple(user(shown))  # line 9
    pairs = feedback.independent_pairs(clicks)  # line 10
    return learn(state, X, shown, clicks, settings, rng), Outcome(certain, shown, clicks, pairs)


def learn(
    state: State,
    X: Array,
    shown: Ranked,
    clicks: Sequence[int],
    settings: Settings,
    rng: np.random.Generator,
) -> State:
    """Lines 10 to 12 for a list that was shown; A grows by the tangents that served it."""
    pairs = feedback.independent_pairs(clicks)
    documents = [(shown[a], shown[b]) for a, b in pairs]
    G = network.tangents(X, state.theta)
    m = state.theta[-1].shape[1]
    A = confidence.update(state.A, G, documents, m)  # line 12
    seen = [
        (X[i], X[j], feedback.y(clicks, a, b))
        for (i, j), (a, b) in zip(documents, pairs, strict=True)
    ]
    state = replace(state, A=A, history=[*state.history, *seen])
    return replace(state, theta=descend(state, settings, rng))  # line 11


def descend(state: State, settings: Settings, rng: np.random.Generator) -> Theta:
    """Line 11: J proximal steps (READINGS) on the history; without a pair nothing moves."""
    first = state.theta_0 if settings.update == "theta0" else state.theta
    n = len(state.history)
    if n == 0:
        return first
    batches = [_batch(state.history, settings.batch, rng) for _ in range(settings.J)]
    return descent.descend(first, state.theta_0, batches, settings.eta, settings.pull, n)


def _batch(
    history: list[descent.Pair], size: int | None, rng: np.random.Generator
) -> list[descent.Pair]:
    if size is None:
        return history
    return [history[int(n)] for n in rng.integers(len(history), size=size)]
