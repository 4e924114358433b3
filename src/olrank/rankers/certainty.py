"""What a state is sure of: scores, widths, and the orders that a list must keep.

Paper                              Here                        Where
CB_ij                              pair_widths                 Definition 1
construct_certain_rank_order_set   certain_orders              Alg. 1, line 7
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp

from olrank.explore import confidence as conf
from olrank.explore import order as orders
from olrank.explore import prune
from olrank.feedback import documents
from olrank.feedback import pairs as pairing
from olrank.nets.net import Net
from olrank.rankers.scorers import choose_net
from olrank.types import Array, Factors, Impression, Rows

_RECENT = 0.01  # least share of the newest impression in the spread of scores


def score_of(net: Net, state: Any, features: Array) -> Array:
    """[n] scores: of the network, and the documents' own effects where they are kept."""
    scores = net.score(state.theta, features)
    return scores if _forgets(state) else scores + own_effects(state, features)


def own_effects(state: Any, features: Array) -> Array:
    """[n] what is added to the scores of known documents; 0 for others, and where none are kept."""
    if _forgets(state):
        return jnp.zeros(features.shape[0], features.dtype)
    return documents.look_up(state.documents, features).effects


def _forgets(state: Any) -> bool:
    """Whether no effects of single documents are kept."""
    return not isinstance(getattr(state, "documents", ()), documents.Documents)


def spread(design: Any, net: Net, state: Any, impression: Impression, rows: Rows) -> Any:
    """The running variance of scores within shown lists; () where nobody needs it."""
    if design.alpha_rule != "spread":
        return ()
    scores = score_of(net, state, rows.features[impression.rows])
    seen = pairing.in_view(impression)
    n = jnp.maximum(jnp.sum(seen), 1)
    mean = jnp.sum(jnp.where(seen, scores, 0.0)) / n
    variance = jnp.sum(jnp.where(seen, (scores - mean) ** 2, 0.0)) / n
    share = jnp.maximum(1.0 / (state.history.n_impressions + 1.0), _RECENT)
    return state.spread + share * (variance - state.spread)


def certain_orders(
    design: Any, state: Any, features: Array, scores: Array, mask: Array, k: int
) -> Array:
    """[n_docs, n_docs] omega_t, as far as a list of k that keeps it can depend on it."""
    net, way = choose_net(design), conf.kind(design.confidence)
    alpha, eps = _alpha_eps(state, design)
    scale = design.width_scale
    if not way.factored:
        return orders.certain(scores, pair_widths(design, state, features, mask), scale)
    factors, A = _factors(net, state, features)
    # The blocks order depends on every pair, not only on what can be shown.
    if design.order == "topological":
        find = prune.certain_orders(k, scale)
    else:
        find = partial(prune.dense, scale)
    found: Array = find(scores, factors, A, alpha, eps, mask)
    return found


def pair_widths(design: Any, state: Any, features: Array, mask: Array) -> Array:
    """[n_docs, n_docs] CB_ij of Definition 1, of every pair of candidates."""
    net, way = choose_net(design), conf.kind(design.confidence)
    alpha, eps = _alpha_eps(state, design)
    if not way.factored:
        tangents = net.tangents(state.theta, features)
        return conf.widths(conf.pair_norms(way, state.confidence, tangents, mask), alpha, eps)
    factors, A = _factors(net, state, features)
    norms = conf.pair_norms(way, conf.Confidence(A, jnp.zeros(())), factors, mask)
    return conf.widths(norms, alpha, eps)


def _factors(net: Net, state: Any, features: Array) -> tuple[Factors, Array]:
    """Tangents as outer products, and the diagonal of A_t that goes with them."""
    factors, A = net.factors(state.theta, features), state.confidence.A
    if _forgets(state):
        return factors, A
    # A candidate's own effect is one more parameter, whose tangent is 1 for this candidate alone.
    n_docs, known = features.shape[0], documents.look_up(state.documents, features)
    own = (jnp.ones((n_docs, 1), A.dtype), jnp.eye(n_docs, dtype=A.dtype))
    return (*factors, own), jnp.concatenate([A, state.numbers.prior + known.reads])


def _alpha_eps(state: Any, design: Any) -> tuple[Array, Array]:
    n = state.numbers
    alpha = n.alpha
    if design.alpha_rule == "lemma":
        alpha = conf.alpha_of_lemma(
            state.confidence.log_det_ratio, n.prior, n.nu, n.delta, n.norm_bound, n.alpha_scale
        )
    if design.alpha_rule == "spread":
        alpha = n.alpha * jnp.sqrt(state.spread)
    width, depth, steps = getattr(design, "width", 2), getattr(design, "depth", 2), design.steps
    eps = conf.eps_of_lemma(n.horizon, width, depth, n.prior, n.learning_rate, steps, n.eps_scale)
    return alpha, eps
