"""The ranking network of Sec. 3.2, its symmetric initialisation and its gradient by hand.

Parameters theta are a list of matrices [W_1 (m x d), W_2 (m x m), ..., W_L (1 x m)]. Wherever a
vector of parameters or a gradient is needed it is [vec(W_1), ..., vec(W_L)], each vec in C
order: row after row, so W[r, c] of an (R x C) matrix stands at r * C + c.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Theta = list[Array]
Layers = list[tuple[Array, Array]]


def sigmoid(s: Array | float) -> Array:
    """sigma(s) = 1 / (1 + exp(-s)), Sec. 3.2; written with tanh, which cannot overflow."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * np.asarray(s, dtype=np.float64))))


def relu(s: Array) -> Array:
    """phi(s) = max(s, 0), Sec. 3.2."""
    return np.maximum(s, 0.0)


def relu_slope(s: Array) -> Array:
    """phi'(s): 1 above zero, 0 elsewhere (at zero itself too)."""
    return (s > 0.0).astype(np.float64)


def f(x: Array, theta: Theta) -> float:
    """f(x; theta) = sqrt(m) W_L phi(W_{L-1} phi(... phi(W_1 x))) for x [d], Sec. 3.2."""
    hidden = np.asarray(x, dtype=np.float64)
    for W in theta[:-1]:
        hidden = relu(W @ hidden)
    m = theta[-1].shape[1]
    return float(np.sqrt(m) * (theta[-1] @ hidden)[0])


def scores(X: Array, theta: Theta) -> Array:
    """[n] f(x_i; theta) for the rows of X [n, d]."""
    return np.array([f(x, theta) for x in X])


def gradient(x: Array, theta: Theta) -> Array:
    """[p] g(x; theta) = grad_theta f(x; theta), Sec. 3.2, by the chain rule.

    With a_0 = x, z_l = W_l a_{l-1} and a_l = phi(z_l):
    df/dW_L = sqrt(m) a_{L-1}^T, and df/dW_l = delta_l a_{l-1}^T where
    delta_l = phi'(z_l) * W_{l+1}^T delta_{l+1} and delta_L = sqrt(m).
    """
    activations = [np.asarray(x, dtype=np.float64)]
    inputs = []
    for W in theta[:-1]:
        inputs.append(W @ activations[-1])
        activations.append(relu(inputs[-1]))
    m = theta[-1].shape[1]
    delta = np.array([np.sqrt(m)])
    blocks = [np.outer(delta, activations[-1])]
    for level in reversed(range(len(theta) - 1)):
        delta = relu_slope(inputs[level]) * (theta[level + 1].T @ delta)
        blocks.insert(0, np.outer(delta, activations[level]))
    return flatten(blocks)


def tangents(X: Array, theta: Theta) -> Array:
    """[n, p] g(x_i; theta) for the rows of X [n, d]; not yet divided by sqrt(m)."""
    return np.array([gradient(x, theta) for x in X])


def finite_difference(x: Array, theta: Theta, step: float = 1e-6) -> Array:
    """[p] the gradient of f by central differences, one parameter after the other."""
    return _differences(lambda v: f(x, unflatten(v, theta)), flatten(theta), step)


def flatten(theta: Sequence[Array]) -> Array:
    """[p] vec(W_1), ..., vec(W_L), each in C order."""
    return np.concatenate([np.asarray(W, dtype=np.float64).reshape(-1) for W in theta])


def unflatten(vector: Array, like: Sequence[Array]) -> Theta:
    """The matrices, shaped as those of `like`, whose flatten is this vector."""
    sizes = [W.size for W in like]
    parts = np.split(np.asarray(vector, dtype=np.float64), np.cumsum(sizes)[:-1])
    return [part.reshape(W.shape) for part, W in zip(parts, like, strict=True)]


def init(rng: np.random.Generator, d: int, m: int, L: int = 2) -> Theta:
    """theta_0 in the form of READINGS "first layer": W_1 = (V; V), V (m/2 x d) ~ N(0, 2/m).

    Deeper layers are (W, 0; 0, W) with entries N(0, 4/m) and W_L = (w, -w) with entries
    N(0, 2/m), Algorithm 1 line 2. From one generator state this draws the same network as
    `init_duplicated`: V = W / sqrt(2).
    """
    half = _half(m)
    V = rng.normal(size=(half, d)) * np.sqrt(2.0 / m)
    return [np.vstack([V, V]), *_upper_layers(rng, m, L)]


def init_duplicated(rng: np.random.Generator, d: int, m: int, L: int = 2) -> Theta:
    """theta_0 exactly as Algorithm 1 line 2 has it, for inputs `duplicate(x)` of length 2d.

    For 1 <= l <= L-1, W_l = (W, 0; 0, W) with entries N(0, 4/m); W_L = (w^T, -w^T), N(0, 2/m).
    """
    W = rng.normal(size=(_half(m), d)) * np.sqrt(4.0 / m)
    return [_twice_on_diagonal(W), *_upper_layers(rng, m, L)]


def duplicate(x: Array) -> Array:
    """x' = [x; x] / sqrt(2), below Assumption 1 of the appendix."""
    return np.asarray(np.concatenate([x, x]) / np.sqrt(2.0))


def stack(theta: Theta) -> Theta:
    """The parameters on x that give f the value which these give on `duplicate(x)`.

    W_1 [x; x]/sqrt(2) = ((left half + right half) / sqrt(2)) x; all other layers stay.
    """
    left, right = np.split(theta[0], 2, axis=1)
    return [(left + right) / np.sqrt(2.0), *theta[1:]]


def _half(m: int) -> int:
    if m % 2:
        raise ValueError(f"the symmetric initialisation needs an even width, not {m}")
    return m // 2


def _twice_on_diagonal(W: Array) -> Array:
    zero = np.zeros_like(W)
    return np.block([[W, zero], [zero, W]])


def _upper_layers(rng: np.random.Generator, m: int, L: int) -> Theta:
    half = _half(m)
    middle = [
        _twice_on_diagonal(rng.normal(size=(half, half)) * np.sqrt(4.0 / m)) for _ in range(L - 2)
    ]
    w = rng.normal(size=(1, half)) * np.sqrt(2.0 / m)
    return [*middle, np.hstack([w, -w])]


def plain(x: Array, layers: Layers, activation: Callable[[Array], Array] = relu) -> float:
    """W_L a + b_L with a = act(W_l a + b_l) below: the released code's network, no sqrt(m).

    Args:
        x: [d].
        layers: [(W_1 (m x d), b_1 (m)), ..., (W_L (1 x m), b_L (1))].
        activation: relu, or sigmoid (the released neural PDGD).
    """
    hidden = np.asarray(x, dtype=np.float64)
    for W, b in layers[:-1]:
        hidden = activation(W @ hidden + b)
    W, b = layers[-1]
    return float((W @ hidden + b)[0])


def plain_finite_difference(
    x: Array, layers: Layers, activation: Callable[[Array], Array] = relu, step: float = 1e-6
) -> Array:
    """[p] gradient of `plain` by central differences, in the order W_1, b_1, ..., W_L, b_L."""
    parts = [part for layer in layers for part in layer]

    def value(v: Array) -> float:
        shaped = unflatten(v, parts)
        return plain(x, list(zip(shaped[0::2], shaped[1::2], strict=True)), activation)

    return _differences(value, flatten(parts), step)


def _differences(value: Callable[[Array], float], at: Array, step: float) -> Array:
    slopes = np.zeros_like(at)
    for n in range(at.size):
        up, down = at.copy(), at.copy()
        up[n] += step
        down[n] -= step
        slopes[n] = (value(up) - value(down)) / (2.0 * step)
    return slopes
