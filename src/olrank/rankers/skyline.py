"""The skyline: LambdaRank on the judged grades of all queries presented so far, served greedily.

Paper                            Here            Where
olLambdaRank GT                  skyline         Sec. 5.1, "Baselines"
delta NDCG@10 on grades          _query_loss     LambdaRank with gains 2^g - 1

No ranker that sees only clicks can expect to be above it; it is no ranker to serve with. A step
takes queries from the history (`history_batch` counts them) with all their candidates. Only pairs
with one document in the current top k can change NDCG@k, so only those are formed. Descent goes on
from the current parameters; update = "theta0" refits from the start each round, as the paper words
it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from olrank.explore.order import draw_greedy
from olrank.feedback import history as ring
from olrank.rankers import descent
from olrank.rankers.entry import Entry
from olrank.rankers.olranknet import fit_by_descent
from olrank.rankers.scorers import choose_net
from olrank.types import Array, Impression, Key, PyTree, Ranker, Ranking, Rows


class Numbers(NamedTuple):
    """Numeric settings.

    The pull is weak, since grades carry no noise. The rate is high, since most pairs weigh little;
    chosen on the validation part of the built-in synthetic data.
    """

    pull: Any = 1e-4
    learning_rate: Any = 1.0


class Design(NamedTuple):
    """Settings that change shapes or code; see explorer.Design."""

    k: int = 10
    history: int = 10_000
    network: str = "paper"
    width: int = 100
    depth: int = 2
    update: str = "continue"
    anchor: str = "theta0"
    optimiser: str = "sgd"
    steps: int = 5
    history_batch: int | None = 16
    epochs: int | None = None


class Presented(NamedTuple):
    """Queries presented so far, a ring.

    Attributes:
        first: [capacity] int32, first row of the query.
        n_docs: [capacity] int32.
        n: int32, ever presented.
    """

    first: Array
    n_docs: Array
    n: Array


class State(NamedTuple):
    """Parameters, where they started, queries presented, and the settings as arrays."""

    theta: PyTree
    theta_0: PyTree
    history: Presented
    numbers: Numbers


def skyline(design: Design) -> Ranker:
    """LambdaRank on grades, greedy serving."""
    net = choose_net(design)

    def init(key: Key, n_features: int, numbers: Numbers) -> State:
        dtype = jnp.result_type(float)
        numbers = jax.tree.map(lambda value: jnp.asarray(value, dtype), numbers)
        theta = net.init(key, n_features)
        home = jax.tree.map(lambda leaf: jnp.array(leaf, copy=True), theta)
        first = jnp.zeros(design.history, jnp.int32)
        n_docs = jnp.zeros(design.history, jnp.int32)
        return State(theta, home, Presented(first, n_docs, jnp.zeros((), jnp.int32)), numbers)

    def score(state: State, features: Array) -> Array:
        return net.score(state.theta, features)

    def rank(state: State, key: Key, features: Array, mask: Array, k: int) -> Ranking:
        return draw_greedy(key, net.score(state.theta, features), mask, k)

    def learn(state: State, key: Key, impression: Impression, rows: Rows) -> State:
        if impression.candidates is None or rows.grades is None:
            raise ValueError("the skyline learns from grades, which only the simulator has")
        state = state._replace(history=_present(state.history, impression.candidates))
        max_docs = impression.candidates.shape[0]
        fit = fit_by_descent(design, net, _objective(design.k, max_docs))
        theta, theta_0 = fit(key, state, rows)
        return state._replace(theta=theta, theta_0=theta_0)

    return Ranker(init, score, rank, learn)


def _present(history: Presented, candidates: Array) -> Presented:
    at = history.n % history.first.shape[0]
    return Presented(
        history.first.at[at].set(candidates[0]),
        history.n_docs.at[at].set(jnp.sum(candidates >= 0, dtype=jnp.int32)),
        history.n + 1,
    )


def _held(history: Presented) -> ring.Window:
    n = jnp.minimum(history.n, history.first.shape[0])
    return ring.Window(history.n - n, n)


def _objective(k: int, max_docs: int) -> descent.Objective:
    def gather(history: Presented, counters: Array) -> tuple[Array, Array]:
        at = counters % history.first.shape[0]
        slots = jnp.arange(max_docs)
        mask = slots < history.n_docs[at][:, None]
        return jnp.where(mask, history.first[at][:, None] + slots, 0), mask

    def loss(
        scorer: Any, batch: tuple[Array, Array], keep: Array, rows: Rows
    ) -> tuple[Array, Array]:
        row_ids, mask = batch
        assert rows.grades is not None
        scores = scorer(rows.features[row_ids.reshape(-1)]).reshape(row_ids.shape)
        losses, counts = jax.vmap(lambda s, g, m: _query_loss(s, g, m, k))(
            scores, rows.grades[row_ids], mask
        )
        return jnp.sum(jnp.where(keep, losses, 0.0)), jnp.sum(jnp.where(keep, counts, 0))

    return descent.Objective(_held, gather, loss, lambda history: _held(history).n)


def _query_loss(scores: Array, grades: Array, mask: Array, k: int) -> tuple[Array, Array]:
    """LambdaRank loss of one query: pairs of a document in the top k and one ranked below it."""
    n_docs = scores.shape[0]
    fixed = jax.lax.stop_gradient(jnp.where(mask, scores, -jnp.inf))
    order = jnp.argsort(-fixed, stable=True)
    top = order[: min(k, n_docs)]
    gains = jnp.where(mask, 2.0**grades - 1.0, 0.0)
    ranks = jnp.arange(n_docs) + 1
    discount = jnp.where(ranks <= k, 1.0 / jnp.log2(1.0 + ranks), 0.0)
    ideal = jnp.sum(jnp.sort(gains)[::-1] * discount)
    # Rows are slots of the top, columns are documents in rank order.
    change = (gains[top][:, None] - gains[order][None, :]) * (
        discount[: top.shape[0], None] - discount[None, :]
    )
    margin = scores[top][:, None] - scores[order][None, :]
    better = grades[top][:, None] - grades[order][None, :]
    below = ranks[None, :] > ranks[: top.shape[0], None]
    counted = below & mask[top][:, None] & mask[order][None, :] & (better != 0) & (ideal > 0)
    weight = jnp.where(counted, jnp.abs(change) / jnp.where(ideal > 0, ideal, 1.0), 0.0)
    return jnp.sum(weight * jax.nn.softplus(-jnp.sign(better) * margin)), jnp.sum(counted)


ENTRY = Entry(
    summary="LambdaRank on the judged grades of presented queries: what clicks cannot reach.",
    factory=skyline,
    design=Design,
    numbers=Numbers,
    presets={"paper": {}, "released": {}},
    sees_grades=True,
)
