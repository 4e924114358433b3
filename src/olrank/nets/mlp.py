"""Fully connected ReLU networks: the paper's, and a plain one with biases.

Paper                                   Here            Where
f = sqrt(m) W_L phi(... phi(W_1 x))     paper().score   Sec. 3.2
theta_0, with f(x; theta_0) = 0         paper().init    Alg. 1, line 2
g(x; theta) / sqrt(m)                   tangents        Sec. 3.2, Lemma 1

Departs from the paper: the first layer is W_1 = (V; V) on x itself instead of a block-diagonal
matrix on the doubled input [x; x] / sqrt(2). With V's entries from N(0, 2/m) it is the same
function, kernel and descent with about half of the parameters, p = m d + m at two layers. Only a
diagonal A_t can tell the two apart. The zero blocks of deeper layers are trained like any weight.

The plain network is that of the released code: biases, the usual uniform init, no sqrt(m), and
g g^T in A_t without 1/m.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import jax
import jax.numpy as jnp

from olrank.errors import ConfigError, unknown_name
from olrank.nets.net import Net, product
from olrank.types import Array, Factors, Key

Layers = tuple[tuple[Array, ...], ...]
"""For each layer its weight matrix [out, in] and, in the plain network, its bias [out]."""

_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {"relu": jax.nn.relu, "sigmoid": jax.nn.sigmoid}


@cache
def paper(width: int, depth: int) -> Net:
    """The network of Section 3.2 with `depth` L >= 2 layers of `width` m, m even."""
    _check(width, depth)
    if width % 2:
        raise ConfigError(
            f"width: the paper's network needs an even width, not {width}, because its init is two "
            "mirrored halves. Choose the next even number, or network = 'plain'."
        )

    def init(key: Key, n_features: int) -> Layers:
        half = width // 2
        first, *inner, last = jax.random.split(key, depth)
        V = _normal(first, (half, n_features), 2.0 / width)
        layers = [(jnp.concatenate([V, V]),)]
        for inner_key in inner:
            W = _normal(inner_key, (half, half), 4.0 / width)
            zero = jnp.zeros_like(W)
            layers.append((jnp.block([[W, zero], [zero, W]]),))
        w = _normal(last, (1, half), 2.0 / width)
        layers.append((jnp.concatenate([w, -w], axis=1),))
        return tuple(layers)

    def score(params: Layers, features: Array) -> Array:
        # The halves apart: at theta_0 they are mirror images to the last bit, so that f is exactly
        # 0 and ties are ties, not an order by rounding errors.
        hidden = _inputs(params, features, jax.nn.relu)[-1]
        w, half = params[-1][0][0], width // 2
        scores: Array = hidden[:, :half] @ w[:half] + hidden[:, half:] @ w[half:]
        scores = math.sqrt(width) * scores
        return scores

    def factors(params: Layers, features: Array) -> Factors:
        # g = sqrt(m) * gradient of the inner product, and we want g / sqrt(m): the roots cancel.
        return _factors(params, features, jax.nn.relu)

    return Net(init, score, _multiplied(factors), factors, scale=float(width))


@cache
def plain(width: int, depth: int, activation: str = "relu") -> Net:
    """A plain network with biases, initialised uniformly within 1/sqrt(inputs)."""
    _check(width, depth)
    if activation not in _ACTIVATIONS:
        raise unknown_name("activation", activation, _ACTIVATIONS)
    phi = _ACTIVATIONS[activation]

    def init(key: Key, n_features: int) -> Layers:
        sizes = [n_features, *[width] * (depth - 1), 1]
        keys = jax.random.split(key, depth)
        return tuple(_uniform_layer(*a) for a in zip(keys, sizes[:-1], sizes[1:], strict=True))

    def score(params: Layers, features: Array) -> Array:
        return _affine(params[-1], _inputs(params, features, phi)[-1])[:, 0]

    def factors(params: Layers, features: Array) -> Factors:
        return _factors(params, features, phi)

    return Net(init, score, _multiplied(factors), factors, scale=1.0)


def _inputs(params: Layers, features: Array, phi: Callable[[Array], Array]) -> list[Array]:
    """Inputs of each layer, [n, in]."""
    inputs = [features]
    for layer in params[:-1]:
        inputs.append(phi(_affine(layer, inputs[-1])))
    return inputs


def _factors(params: Layers, features: Array, phi: Callable[[Array], Array]) -> Factors:
    """Gradients of the output by backpropagation: layer l's is delta_l x input_l."""
    inputs = _inputs(params, features, phi)
    one = jnp.ones((features.shape[0], 1), features.dtype)
    delta = one
    found: list[tuple[Array, Array]] = []
    for level in range(len(params) - 1, -1, -1):
        if len(params[level]) == 2:
            found.append((delta, one))
        found.append((delta, inputs[level]))
        if level > 0:
            delta = (delta @ params[level][0]) * _slope(inputs[level], phi)
    return tuple(found[::-1])


def _multiplied(
    factors: Callable[[Layers, Array], Factors],
) -> Callable[[Layers, Array], Array]:
    return lambda params, features: product(factors(params, features))


def _slope(activated: Array, phi: Callable[[Array], Array]) -> Array:
    """The slope of phi, from phi's own value."""
    if phi is jax.nn.relu:
        return (activated > 0).astype(activated.dtype)
    return activated * (1.0 - activated)


def _affine(layer: tuple[Array, ...], inputs: Array) -> Array:
    product: Array = inputs @ layer[0].T
    if len(layer) == 2:
        product = product + layer[1]
    return product


def _normal(key: Key, shape: tuple[int, int], variance: float) -> Array:
    return jax.random.normal(key, shape, jnp.result_type(float)) * math.sqrt(variance)


def _uniform_layer(key: Key, n_in: int, n_out: int) -> tuple[Array, Array]:
    weight_key, bias_key = jax.random.split(key)
    bound = n_in**-0.5
    dtype = jnp.result_type(float)
    weights = jax.random.uniform(weight_key, (n_out, n_in), dtype, -bound, bound)
    return weights, jax.random.uniform(bias_key, (n_out,), dtype, -bound, bound)


def _check(width: int, depth: int) -> None:
    if depth < 2:
        raise ConfigError(f"depth: a network needs at least 2 layers, not {depth}.")
    if width < 2:
        raise ConfigError(f"width: a network needs at least 2 units a layer, not {width}.")
