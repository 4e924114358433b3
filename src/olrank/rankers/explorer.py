"""What the paper's rankers share: explore uncertain pairs, learn from pairs, track confidence.

Paper                              Here                        Where
construct_certain_rank_order_set   rankers.certainty           Alg. 1, line 7
topological_sort                   rank, explore.order         Alg. 1, line 8
construct_independent_pairs        observe, feedback.pairs     Alg. 1, line 10
A_{t+1}                            learn, explore.confidence   Alg. 1, line 12

olRankNet, olLambdaRank and PairRank differ only in the net that scores and in how it is fitted to
the history; both are handed in. g in A_t and in the widths is taken at the parameters in force when
the impression is learned from, before the fit: those that served the ranking.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from olrank.errors import ConfigError, unknown_name
from olrank.explore import confidence as conf
from olrank.explore import order as orders
from olrank.feedback import documents
from olrank.feedback import history as ring
from olrank.feedback import pairs as pairing
from olrank.nets.net import Net
from olrank.rankers import certainty
from olrank.types import Array, Impression, Key, PyTree, Ranker, Ranking, Rows


class Numbers(NamedTuple):
    """Numeric settings. The grid of Sec. 5.1: lambda and alpha in 1e-1..1e-4, rate in 1e-1..1e-3.

    Attributes:
        alpha: width of the confidence bound, constant (Sec. 5); see `alpha_rule`.
        pull: lambda's first job, the pull to theta_0 in the loss.
        prior: lambda's second job, A_1 = prior * I.
        learning_rate: eta, of one gradient step.
        examination_power: of the position-based examination curve 1 / rank^power.
        nu: sub-Gaussian constant of the pair noise, for alpha_rule = "lemma": 1/2 for one click.
        delta: 1 - delta is the lemma's confidence level.
        norm_bound: S, how far the best network may be from theta_0.
        alpha_scale: the lemma's first constant.
        eps_scale: the lemma's third constant; 0 leaves eps(m) out, as with 1 it exceeds 100 and
            nothing is ever certain.
        horizon: T in eps(m).
        linear_pull: the pull of the linear part, where there is one.
        averaging: share of the old average that a round keeps, where parameters are averaged.
        effect_prior: 1 / variance of documents' own effects, where they are kept; a first guess
            where it is estimated.
        level_prior: 1 / variance of lists' levels, where they are fitted, and of queries' in a
            mixed model (feedback.mixed).
        trust: in judgements on experts, where there are any; with 0 all weigh the same.
        novelty: where there are experts, the power of a document's share (feedback.documents) that
            it teaches them with: 0 for every read alike, 1 for all reads of one like one look.
        doubt: nats that speak against what was learned before it is forgotten, where it can be.
        head_start: impressions that the pulls of networks among experts reckon with from the start.
            With 0 the first few lists leave next to nothing of hidden layers that are pulled to
            zero, and what grows from it is much alike.
    """

    alpha: Any = 0.1
    pull: Any = 0.1
    prior: Any = 0.1
    learning_rate: Any = 1e-3
    examination_power: Any = 1.0
    nu: Any = 0.5
    delta: Any = 0.1
    norm_bound: Any = 1.0
    alpha_scale: Any = 1.0
    eps_scale: Any = 0.0
    horizon: Any = 5000.0
    linear_pull: Any = 0.1
    averaging: Any = 0.99
    effect_prior: Any = 1.0
    level_prior: Any = 1.0
    trust: Any = 1.0
    novelty: Any = 1.0
    doubt: Any = 20.0
    head_start: Any = 0.0


class Design(NamedTuple):
    """Settings that change shapes or code.

    Attributes:
        k: slots shown.
        history: impressions remembered; older ones are forgotten.
        network: "paper", or "plain" (biases, no sqrt(m); the released code).
        width: m.
        depth: L.
        linear_part: a line beside the network; see nets.residual.
        confidence: "diagonal" (the paper's experiments) or "full".
        order: "topological", or "blocks" (the released code).
        pairs: "independent" (the paper), "matched" (the released code) or "all".
        only_uncertain: learn only from pairs whose order was uncertain when shown.
        pair_weights: "none", or "swap" for rho of explore.order in the loss and in A.
        examination: "last-click-plus-one" or "position-based".
        alpha_rule: "constant", "lemma" for alpha_t, or "spread": alpha counts standard deviations
            of the scores within a list. Noisy clicks make small scores; widths that do not shrink
            with them leave everything to chance.
        width_scale: widths bound the "probability" of an order (the paper) or its "logit", on which
            certain orders are transitive as long as widths are.
        curvature: pairs enter A with the slope sigma'(f_ij) of their probability, as in the
            curvature of the loss, instead of 1 (the paper).
        update: descent starts each round at "continue" (the current theta), "theta0" (the proof) or
            "restart" (a new network; the released code).
        anchor: the pull is to "theta0" or to "zero" (the released code).
        optimiser: "sgd" or "adam".
        steps: J; the paper does not give it. Five steps of 256 pairs are enough to follow the
            history (each pair of 5,000 rounds is used hundreds of times) and keep a round cheap.
        history_batch: items a step, or None for all of the history.
        epochs: when given, the steps are this many passes over the history.
        average: serve a running average of the parameters instead of the last ones.
    """

    k: int = 10
    history: int = 10_000
    network: str = "paper"
    width: int = 100
    depth: int = 2
    linear_part: bool = False
    confidence: str = "diagonal"
    order: str = "topological"
    pairs: str = "independent"
    only_uncertain: bool = False
    pair_weights: str = "none"
    examination: str = "last-click-plus-one"
    alpha_rule: str = "constant"
    width_scale: str = "probability"
    curvature: bool = False
    update: str = "continue"
    anchor: str = "theta0"
    optimiser: str = "sgd"
    steps: int = 5
    history_batch: int | None = 256
    epochs: int | None = None
    average: bool = False


RELEASED: dict[str, Any] = {
    "network": "plain",
    "order": "blocks",
    "pairs": "matched",
    "update": "restart",
    "anchor": "zero",
    "optimiser": "adam",
    "epochs": 20,
    "history_batch": 1024,
    "learning_rate": 0.1,
    "alpha": 0.1,
}
"""What the released code does where it differs from the paper."""


class State(NamedTuple):
    """Everything a ranker of this family knows.

    Attributes:
        theta: parameters that serve.
        theta_0: parameters that it is pulled to.
        last: parameters after the last step, which descent goes on from, where `theta` is their
            running average; () where it is not.
        confidence: A_t; () for a relative that keeps none.
        history: impressions and pairs learned from.
        numbers: numeric settings, as arrays.
        documents: their own effects; () where none are kept.
        spread: running variance of the scores within a list; () where nobody needs it.
    """

    theta: PyTree
    theta_0: PyTree
    last: PyTree
    confidence: PyTree
    history: Any
    numbers: Any
    documents: Any = ()
    spread: Any = ()


class Lesson(NamedTuple):
    """What an impression teaches.

    Attributes:
        history: with the impression in it.
        contrasts: tangents [k, p] of the shown documents -> [n, p], what A_t grows by.
        weights: [n], of the contrasts in A_t; 0 for one that adds nothing.
        documents: their own effects after it; () where none are kept.
    """

    history: Any
    contrasts: Callable[[Array], Array]
    weights: Array
    documents: Any = ()


Fit = Callable[[Key, Any, Rows], tuple[PyTree, PyTree]]
"""(key, state with the newest impression in its history, rows) -> (theta, theta_0)."""

Teach = Callable[[Any, Key, Impression, Rows], Lesson]
"""(state, key, impression, rows) -> what the impression teaches."""


def explorer(
    design: Any,
    net: Net,
    fit: Fit,
    teach: Teach | None = None,
    remember: Callable[[int], Any] | None = None,
) -> Ranker:
    """A ranker that keeps certain orders, leaves the rest to chance, and fits by `fit`.

    Args:
        design: settings that change shapes or code.
        net: scores documents.
        fit: fits it to the history.
        teach: what an impression teaches; pairs when None.
        remember: n_features -> an empty history for what `teach` stores; one of pairs when None.
    """
    _check(design)
    way = conf.kind(design.confidence)
    draw = orders.draw_topological if design.order == "topological" else orders.draw_blocks
    swaps = getattr(design, "pair_weights", "none") == "swap"
    averages, marks = getattr(design, "average", False), getattr(design, "experts", False)
    teach = teach or partial(_teach_pairs, design, net)
    remember = remember or (lambda _: no_pairs(design))

    def init(key: Key, n_features: int, numbers: Numbers) -> State:
        return initial_state(key, n_features, numbers, design, net, way, remember(n_features))

    def score(state: State, features: Array) -> Array:
        return certainty.score_of(net, state, features)

    def rank(state: State, key: Key, features: Array, mask: Array, k: int) -> Ranking:
        scores = certainty.score_of(net, state, features)
        certain = certainty.certain_orders(design, state, features, scores, mask, k)
        ranking = draw(key, certain, scores, mask, k, swaps=swaps)
        return ranking._replace(memo=documents.mark(features, mask)) if marks else ranking

    def learn(state: State, key: Key, impression: Impression, rows: Rows) -> State:
        teach_key, fit_key = jax.random.split(key)
        lesson = teach(state, teach_key, impression, rows)
        g = net.tangents(state.theta, rows.features[impression.rows])
        confidence = way.update(state.confidence, lesson.contrasts(g), lesson.weights)
        state = state._replace(
            confidence=confidence,
            history=lesson.history,
            documents=lesson.documents,
            spread=certainty.spread(design, net, state, impression, rows),
        )
        if not averages:
            theta, theta_0 = fit(fit_key, state, rows)
            return state._replace(theta=theta, theta_0=theta_0)
        last, theta_0 = fit(fit_key, state._replace(theta=state.last), rows)
        return state._replace(theta=_averaged(state, last), theta_0=theta_0, last=last)

    return Ranker(init, score, rank, learn)


def _teach_pairs(
    design: Any, net: Net, state: State, key: Key, impression: Impression, rows: Rows
) -> Lesson:
    pairs, history = observe(state, key, impression, design)
    weights = pairs.weights
    if design.curvature:
        scores = net.score(state.theta, rows.features[impression.rows])
        margins = scores[pairs.winners] - scores[pairs.losers]
        weights = weights * jax.nn.sigmoid(margins) * jax.nn.sigmoid(-margins)
    return Lesson(history, lambda g: g[pairs.winners] - g[pairs.losers], weights)


def initial_state(
    key: Key,
    n_features: int,
    numbers: Any,
    design: Any,
    net: Net,
    way: conf.ConfidenceKind,
    history: Any,
) -> State:
    """Nothing learned yet: theta = theta_0, A = prior * I, a history that is still empty."""
    dtype = jnp.result_type(float)
    numbers = jax.tree.map(lambda value: jnp.asarray(value, dtype), numbers)
    theta, size = net.init(key, n_features), getattr(design, "documents", None)
    rule = getattr(design, "alpha_rule", "constant")
    document = jnp.zeros((1, n_features), dtype)
    n_params = jax.eval_shape(net.tangents, theta, document).shape[1]
    return State(
        theta=theta,
        theta_0=_copied(theta),
        last=_copied(theta) if getattr(design, "average", False) else (),
        confidence=way.init(n_params, numbers.prior),
        history=history,
        numbers=numbers,
        documents=() if size is None else documents.empty(size, numbers.effect_prior),
        spread=jnp.zeros((), dtype) if rule == "spread" else (),
    )


def no_pairs(design: Any) -> ring.History:
    """A history of pairs that holds nothing yet."""
    return ring.empty(design.history, design.k, pairing.n_max(design.pairs, design.k))


def _copied(theta: PyTree) -> PyTree:
    """The same in its own memory: donated buffers must not alias."""
    return jax.tree.map(lambda leaf: jnp.array(leaf, copy=True), theta)


def _averaged(state: State, last: PyTree) -> PyTree:
    """The running average: of all parameters so far at first, of the latest ones later."""
    n = state.history.n_impressions.astype(state.numbers.averaging.dtype)
    keep = jnp.minimum(state.numbers.averaging, n / (n + 1.0))
    return jax.tree.map(lambda old, new: keep * old + (1.0 - keep) * new, state.theta, last)


def observe(
    state: State, key: Key, impression: Impression, design: Any
) -> tuple[pairing.Pairs, ring.History]:
    """The pairs that an impression teaches, and the history with it."""
    weighted = getattr(design, "pair_weights", "none") == "swap"
    if weighted and isinstance(impression.ranking.memo, tuple):
        raise ConfigError(
            'pair_weights: "swap" needs the swap weights of the draw, and this list was drawn by '
            'another ranker. Use pair_weights = "none" to learn from lists of others.'
        )
    examined = pairing.p_examined(
        impression.clicks,
        pairing.in_view(impression),
        design.examination,
        state.numbers.examination_power,
    )
    pairs = pairing.select(
        key,
        impression,
        examined,
        design.pairs,
        only_uncertain=getattr(design, "only_uncertain", False),
        swap_weights=impression.ranking.memo if weighted else None,
    )
    return pairs, ring.append(state.history, impression.rows, impression.clicks, examined, pairs)


def _check(design: Any) -> None:
    if hasattr(design, "pairs"):
        pairing.check_rules(design.pairs, design.examination)
    for name, known in (
        ("order", ("topological", "blocks")),
        ("pair_weights", ("none", "swap")),
        ("alpha_rule", ("constant", "lemma", "spread")),
        ("width_scale", ("probability", "logit")),
    ):
        value = getattr(design, name, known[0])
        if value not in known:
            raise unknown_name(name.replace("_", " "), value, known)
    if getattr(design, "documents", None) is not None and design.confidence == "full":
        raise ConfigError(
            'documents: they go with confidence = "diagonal" only, because each is one more line '
            "of A_t. Leave documents out, or keep the diagonal."
        )
    if design.k < 2:
        raise ConfigError(f"k: pairs need at least 2 slots, not {design.k}.")
