"""A network beside experts that are weighed by what they foretell; feedback.experts says why.

The experts are fitted to the same history as the network. Lines take one step a round, as long as
the loss allows, so that there is no rate to choose; stopping after so few steps pulls the least
pulled ones a little more. Networks take the design's steps, the freer ones longer ones. What serves
is the experts' weighted mean and, beside it, the network that knows what is uncertain: it learns
what the experts leave over, and is held back by the pull.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from olrank.errors import ConfigError, unknown_name
from olrank.feedback import cascade, documents, experts, mixed, pairs
from olrank.feedback.impressions import Memory
from olrank.nets import standard
from olrank.nets.mixture import Others, seen_as
from olrank.nets.net import Net
from olrank.rankers import descent
from olrank.rankers.explorer import Fit, State
from olrank.rankers.olranknet import fit_by_descent
from olrank.rankers.scorers import choose_net, expert_net, single_net
from olrank.types import Array, Impression, Key, PyTree, Rows


class Teaching(NamedTuple):
    """What says how much a read of a document teaches.

    Attributes:
        table: the documents' own effects.
        worth: of an impression as evidence about new documents.
        novelty: power of a document's share.
    """

    table: documents.Documents
    worth: Array
    novelty: Array


def weights(teaching: Teaching, features: Array) -> Array:
    """[n] what the gradient in each document's score is multiplied with; about 1 in the mean."""
    known = documents.look_up(teaching.table, features)
    return (known.shares / teaching.worth) ** teaching.novelty


def check(design: Any) -> None:
    """Refuse designs that experts do not go with."""
    fits = design.linear_part and design.within_lists and design.documents is not None
    if design.experts and not (fits and design.update == "continue"):
        raise ConfigError(
            "experts: they go with linear_part = true, within_lists = true, documents and "
            'update = "continue".'
        )
    if design.panel not in experts.PANELS:
        raise unknown_name("panel", design.panel, experts.PANELS)


def fit(design: Any, net: Net, objective: descent.Objective) -> Fit:
    """Fit the experts' networks, and the one that stands beside all experts, which do not move."""
    root = math.sqrt(net.scale)  # nets.residual multiplies the line by it
    panel = experts.PANELS[design.panel]
    objective = _of_all_lists(objective) if panel.twins else objective

    def beside(key: Key, state: State, rows: Rows) -> tuple[PyTree, PyTree]:
        (first, others), (home, homes) = state.theta, state.theta_0
        learn_key = jax.random.fold_in(key, 1)
        thetas = _learn_nets(
            design, objective, learn_key, state, state.history, rows, others.thetas, homes.thetas
        )
        known = state.history.experts
        lines = known.serving if panel.twins else known.betas
        of_lines, of_nets = experts.weights(known, panel, state.numbers.trust)
        others = Others(thetas, of_nets, known.moments)

        def score(first: PyTree, features: Array) -> Array:
            return net.score(((jax.lax.stop_gradient(first[0]), first[1]), others), features)

        no_pull = jnp.zeros_like(state.numbers.linear_pull)
        alone = state._replace(
            # The weighted mean of lines is a line.
            theta=((of_lines @ lines) / root, first[1]),
            theta_0=home,
            numbers=state.numbers._replace(linear_pull=no_pull),
        )
        single = single_net(design)._replace(score=score)
        first, _ = fit_by_descent(design, single, objective)(key, alone, rows)
        return (first, others), state.theta_0

    return beside


def is_held_out(design: Any, impression: Impression, rows: Rows) -> Array:
    """Whether experts are judged by a list, and do not learn from it.

    All lists of a query are, or none: the ranking remembers the mark of its candidates. For a list
    of another ranker the documents that were shown stand for them.
    """
    return experts.is_held_out(_mark(impression, rows), experts.PANELS[design.panel])


def _mark(impression: Impression, rows: Rows) -> Array:
    mark: Any = impression.ranking.memo
    if isinstance(mark, tuple):
        mark = documents.mark(rows.features[impression.rows], impression.ranking.shown)
    return jnp.asarray(mark)


def learn(
    design: Any,
    objective: descent.Objective,
    key: Key,
    state: State,
    memory: Memory,
    impression: Impression,
    rows: Rows,
    scores: Array,
) -> Memory:
    """The memory with experts judged by its newest impression, and fitted with it.

    These are the lines and, where others serve, the networks that are judged. `scores` are those
    [k] that tell how far its documents were read.
    """
    shown, seen, known = rows.features[impression.rows], pairs.in_view(impression), memory.experts
    panel, homes = experts.PANELS[design.panel], state.theta_0[1].thetas
    thetas = jax.tree.map(jnp.add, homes, known.moved) if panel.twins else state.theta[1].thetas
    nets = _each(expert_net(design).score)(thetas, seen_as(known.moments, shown))
    each = jnp.concatenate([_each(experts.line)(known.betas, shown), nets])
    served = choose_net(design).score(state.theta, shown)
    own = documents.look_up(state.documents, shown)
    foretold = experts.foretold(panel, each, served, own.effects, own.shares, seen)
    judged = experts.judge(known, panel, foretold, impression.clicks, seen, memory.habits)
    held_out = is_held_out(design, impression, rows)
    known = known._replace(judged=jnp.where(held_out, judged.judged, known.judged))
    known = experts.faded(known, memory.n_impressions, design.recency)
    known = experts.steepened(known, shown, seen, memory.n_impressions)
    if panel.standard:
        known = known._replace(moments=standard.after(known.moments, shown, seen))
    memory = memory._replace(experts=known)
    if panel.lines:
        known = _descended(design, objective, key, memory, rows)
    else:
        known = _mixed(panel, state, memory, impression, rows, scores)
    if panel.twins:
        nets_key = jax.random.fold_in(key, 1)
        thetas = _learn_nets(design, objective, nets_key, state, memory, rows, thetas, homes)
        moved = jax.tree.map(jnp.subtract, thetas, homes)
        known = known._replace(moved=moved)
    return memory._replace(experts=known)


def _descended(
    design: Any, objective: descent.Objective, key: Key, memory: Memory, rows: Rows
) -> experts.Experts:
    """The experts with lines that went a step down the loss, and their twins."""
    known: experts.Experts = memory.experts
    betas = _learn_lines(design, objective, key, memory, rows, known.betas)
    if not experts.PANELS[design.panel].twins:
        return known._replace(betas=betas)
    of_all = _of_all_lists(objective)
    serving = _learn_lines(design, of_all, key, memory, rows, known.serving)
    return known._replace(betas=betas, serving=serving)


def _mixed(
    panel: experts.Panel,
    state: State,
    memory: Memory,
    impression: Impression,
    rows: Rows,
    scores: Array,
) -> experts.Experts:
    """The experts with the line of the mixed model, which has learned from an impression."""
    mark = _mark(impression, rows)
    known: experts.Experts = memory.experts
    read_as = (scores, impression.clicks, pairs.in_view(impression), memory.habits)
    lesson = mixed.Lesson(
        features=rows.features[impression.rows],
        clicks=impression.clicks,
        read=cascade.p_read(*read_as),
        decisions=cascade.decisions(*read_as),
        mark=mark,
        held_out=experts.is_held_out(mark, panel),
        habits=memory.habits,
        effect_prior=state.numbers.effect_prior,
        level_prior=state.numbers.level_prior,
    )
    model = mixed.learn(known.model, lesson)
    judged, serving = model.lines.betas[:, None]
    return known._replace(model=model, betas=judged, serving=serving)


def _of_all_lists(objective: descent.Objective) -> descent.Objective:
    """The same, also of lists that are held out."""

    def gather(memory: Memory, chosen: Array) -> Any:
        batch = objective.gather(memory, chosen)
        return batch._replace(held_out=jnp.zeros_like(batch.held_out))

    return objective._replace(gather=gather)


def _learn_lines(
    design: Any, objective: descent.Objective, key: Key, memory: Memory, rows: Rows, betas: Array
) -> Array:
    rate = experts.longest_step(memory.experts)
    pulls = jnp.asarray(experts.PANELS[design.panel].lines, rate.dtype)
    rates = descent.Rates(jnp.broadcast_to(rate, pulls.shape), pulls)
    plan = descent.Plan(1, design.history_batch, None, "sgd", design.recency)
    home = jnp.zeros_like(betas)
    found: Array = _fit_each(key, plan, rates, experts.line, objective, memory, rows, betas, home)
    return found


def _learn_nets(
    design: Any,
    objective: descent.Objective,
    key: Key,
    state: State,
    memory: Memory,
    rows: Rows,
    thetas: PyTree,
    homes: PyTree,
) -> PyTree:
    net = expert_net(design)
    plan = descent.Plan(design.steps, design.history_batch, None, "sgd", design.recency)
    panel, dtype = experts.PANELS[design.panel], jnp.result_type(float)
    pulls = jnp.asarray([one.pull for one in panel.networks], dtype)
    given = jnp.asarray([one.learning_rate for one in panel.networks], dtype)
    if panel.relative:
        given = given * experts.longest_step(memory.experts)
    if panel.standard:
        # The descent divides pulls by the number of impressions, n.
        n = jnp.maximum(objective.n_pairs(memory), 1)
        pulls = pulls * n / (n + state.numbers.head_start)
        # Pulled to zero, last layer and all, it would stay there: neither of two layers learns
        # while the other is 0.
        *hidden, last = homes
        homes = (*jax.tree.map(jnp.zeros_like, hidden), last)
    rates, moments = descent.Rates(given, net.scale * pulls), memory.experts.moments

    def score(theta: PyTree, features: Array) -> Array:
        return net.score(theta, seen_as(moments, features))

    return _fit_each(key, plan, rates, score, objective, memory, rows, thetas, homes)


def _each(score: Callable[[PyTree, Array], Array]) -> Callable[[PyTree, Array], Array]:
    """Scores [n, k] of n experts of one kind."""
    return jax.vmap(score, (0, None))


def _fit_each(
    key: Key,
    plan: descent.Plan,
    rates: descent.Rates,
    score: Callable[[PyTree, Array], Array],
    objective: descent.Objective,
    memory: Memory,
    rows: Rows,
    thetas: PyTree,
    homes: PyTree,
) -> PyTree:
    """Experts of one kind after their steps, all on the same batches."""

    def one(rates: descent.Rates, theta: PyTree, home: PyTree) -> PyTree:
        return descent.descend(key, plan, rates, score, objective, memory, rows, theta, home)

    return jax.vmap(one)(rates, thetas, homes)
