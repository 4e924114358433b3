"""Certain orders of a diagonal A_t without all pairwise norms: exact, but only where it matters.

A document that k others certainly precede cannot be shown among k, so what else is certain about it
does not matter. Which documents these are, and which orders cannot be certain, follows for most
from bounds. A squared norm is a sum over the outputs of a weight matrix, none of it negative: the
few outputs that weigh most are summed exactly, for all pairs, and the rest is bounded by the
triangle inequality,

    | ||g_i|| - ||g_j|| |  <=  ||g_i - g_j||  <=  ||g_i|| + ||g_j||,

with tangents centred on their mean, whose norms cost one pass over the parameters. An order that
the upper bound makes certain is certain, one that the lower bound does not is not, and exact norms
are needed only where an order is still open and its lower document can be shown. The lists drawn,
and their probabilities, are the same as with all norms (a test enumerates both).

The number of documents left decides which of a few compiled sizes runs, so this pays for one
replica at a time, as in a live service; several replicas in lockstep take the dense way. So do
short lists: once a model is trained, most orders of a hundred documents are open between the
bounds, and all that remains of them is their cost.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from olrank.explore import confidence as conf
from olrank.explore.order import certain, settled
from olrank.types import Array, Factors

_SIZES = (32, 64, 128, 256)  # documents whose exact norms are taken; more take the dense way
_FEW = 128  # up to so many documents, bounds cost about as much as they can save
_EXACT_SHARE = 10  # one of so many outputs of a weight matrix is summed exactly for all pairs
_SLACK = 1e-5  # of a squared norm: rounding may not turn a bound into an error


def dense(
    scale: str, scores: Array, factors: Factors, A: Array, alpha: Array, eps: Array, mask: Array
) -> Array:
    """[n_docs, n_docs] certain orders from all pairwise norms; `scale` as in order.certain."""
    kept = conf.Confidence(A, jnp.zeros(()))
    norms = conf.pair_norms(conf.kind("diagonal"), kept, factors, mask)
    return certain(scores, conf.widths(norms, alpha, eps), scale)


def pruned(
    k: int,
    scale: str,
    scores: Array,
    factors: Factors,
    A: Array,
    alpha: Array,
    eps: Array,
    mask: Array,
) -> Array:
    """[n_docs, n_docs] the certain orders, as far as a list of k can depend on them."""
    scores = settled(scores)
    low, high = _bounds(factors, A, mask)
    both = mask[:, None] & mask[None, :]
    surely = both & certain(scores, conf.widths(high, alpha, eps), scale)
    perhaps = both & certain(scores, conf.widths(low, alpha, eps), scale)
    can_be_shown = mask & (jnp.sum(surely, axis=0) < k)
    is_open = perhaps & ~surely & can_be_shown[None, :]
    needed = jnp.any(is_open, axis=0) | jnp.any(is_open, axis=1)
    n_docs, n_needed = mask.shape[0], jnp.sum(needed)

    def exact(size: int) -> Any:
        def way(_: None) -> Array:
            # Needed documents first; the rest of the `size` is masked out.
            some = jnp.argsort(~needed, stable=True)[:size]
            inside = needed[some]
            part = tuple((delta[some], inputs[some]) for delta, inputs in factors)
            found = dense(scale, scores[some], part, A, alpha, eps, inside)
            known = inside[:, None] & inside[None, :]
            among = jnp.where(known, found, surely[some[:, None], some[None, :]])
            return surely.at[some[:, None], some[None, :]].set(among)

        return way

    sizes = [size for size in _SIZES if size < n_docs]
    ways = [exact(size) for size in sizes]
    ways.append(lambda _: dense(scale, scores, factors, A, alpha, eps, mask))
    index = jnp.sum(n_needed > jnp.asarray(sizes, jnp.int32)) if sizes else 0
    found: Array = jax.lax.switch(index, ways, None)
    return found


def _bounds(factors: Factors, A: Array, mask: Array) -> tuple[Array, Array]:
    """[n_docs, n_docs] each: bounds of the norms of all pairs."""
    layers = conf.layers(A, factors)
    some, few, rest = [], [], []
    for (delta, inputs), layer in zip(factors, layers, strict=True):
        n_exact = -(-delta.shape[1] // _EXACT_SHARE)
        weight = jnp.sum(jnp.where(mask[:, None], delta**2, 0.0), axis=0) * jnp.sum(1 / layer, 1)
        chosen = jax.lax.top_k(weight, n_exact)[1]
        some.append((delta[:, chosen], inputs))
        few.append(layer[chosen].reshape(-1))
        rest.append((delta.at[:, chosen].set(0.0), inputs))
    kept = conf.Confidence(jnp.concatenate(few), jnp.zeros(()))
    exact = conf.kind("diagonal").squared(kept, tuple(some), mask)
    low, high = _norm_bounds(tuple(rest), A, mask)
    apart = jnp.maximum(low[:, None] - high[None, :], low[None, :] - high[:, None])
    least = (1.0 - _SLACK) * exact + jnp.maximum(apart, 0.0) ** 2
    most = (1.0 + _SLACK) * exact + (high[:, None] + high[None, :]) ** 2
    return jnp.sqrt(least), jnp.sqrt(most)


def _norm_bounds(factors: Factors, A: Array, mask: Array) -> tuple[Array, Array]:
    """[n_docs] each: bounds of the norm of the centred tangent, a little apart for rounding."""
    squared = jnp.zeros(mask.shape[0], A.dtype)
    size = jnp.zeros(mask.shape[0], A.dtype)
    for (delta, inputs), layer in zip(factors, conf.layers(A, factors), strict=True):
        mean = _mean_product(delta, inputs, mask)
        own = jnp.sum(delta**2 * _product(inputs**2, 1.0 / layer), axis=1)
        cross = jnp.sum(delta * _product(inputs, mean / layer), axis=1)
        common = jnp.sum(mean**2 / layer)
        squared = squared + own - 2.0 * cross + common
        size = size + own + common
    slack = _SLACK * size
    return jnp.sqrt(jnp.maximum(squared - slack, 0.0)), jnp.sqrt(jnp.maximum(squared + slack, 0.0))


def _mean_product(delta: Array, inputs: Array, mask: Array) -> Array:
    """[out, in] mean over the candidates of delta x input, without forming any of them."""
    inside = mask[:, None]
    n = jnp.maximum(jnp.sum(mask), 1).astype(inputs.dtype)
    # where() and not a product: padding may hold anything, and 0 * inf is NaN.
    clean = jnp.where(inside, inputs, 0.0)
    return jnp.matmul(jnp.where(inside, delta, 0.0).T, clean, precision="highest") / n


def _product(inputs: Array, layer: Array) -> Array:
    return jnp.matmul(inputs, layer.T, precision="highest")


@cache
def certain_orders(k: int, scale: str) -> Any:
    """`dense` or `pruned`, whichever is the faster here; takes the arrays that `dense` takes."""
    every = partial(dense, scale)
    if jax.default_backend() != "cpu":
        return every

    def alone(*given: Any) -> Array:
        n_docs = given[-1].shape[0]
        return every(*given) if n_docs <= _FEW else pruned(k, scale, *given)

    @custom_vmap
    def choose(*given: Any) -> Array:
        return alone(*given)

    @choose.def_vmap
    def _batched(axis_size: int, in_batched: Any, *given: Any) -> tuple[Array, bool]:
        axes = jax.tree.map(lambda batched: 0 if batched else None, tuple(in_batched))
        if axis_size > 1:
            found: Array = jax.vmap(every, in_axes=axes)(*given)
            return found, True
        one = jax.tree.map(
            lambda leaf, batched: leaf[0] if batched else leaf, tuple(given), tuple(in_batched)
        )
        return alone(*one)[None], True

    return choose
