"""Lines as solutions of normal equations that change by a few rows at a time.

A line is (curvature + pull I)^-1 slope. Each change is followed by some steps of conjugate
gradients from where the line stood, as the solution moves little: no row is gone through again.

The pull is found out (empirical Bayes): each round makes a step of expectation-maximisation,

    1 / pull <- E ||beta||^2 / n_features = (||beta||^2 + tr (curvature + pull I)^-1) / n_features,

the trace by Hutchinson's estimate, whose probes are solved for beside the line.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from olrank.types import Array

_STEPS = 4  # of conjugate gradients a round
_PROBES = 4  # of the trace
_FIRST_PULL = 30.0
_GUESS_WORTH = 2.0  # features that the first guess of the pull weighs as much as


class Lines(NamedTuple):
    """Some lines: their equations, and what solves them.

    Attributes:
        curvature: [n, n_features, n_features], without the pull.
        slope: [n, n_features].
        pulls: [n].
        betas: [n, n_features].
        probes: [n, n_probes, n_features] solutions with a probe in the slope's place.
    """

    curvature: Array
    slope: Array
    pulls: Array
    betas: Array
    probes: Array


def nothing(n: int, n_features: int) -> Lines:
    """Lines of equations that say nothing yet."""
    dtype = jnp.result_type(float)
    # One array each: donated buffers must not alias.
    return Lines(
        curvature=jnp.zeros((n, n_features, n_features), dtype),
        slope=jnp.zeros((n, n_features), dtype),
        pulls=jnp.full(n, _FIRST_PULL, dtype),
        betas=jnp.zeros((n, n_features), dtype),
        probes=jnp.zeros((n, _PROBES, n_features), dtype),
    )


def changed(lines: Lines, rows: Array, curve: Array, slope: Array, teaches: Array) -> Lines:
    """The equations with some rows more; the lines stay where they are.

    Args:
        lines: before it.
        rows: [m, n_features].
        curve: [m] what each row's outer product adds to the curvature, less than 0 to take away.
        slope: [m] what each row adds to the slope.
        teaches: [n] bool, the lines that they are added to.
    """
    counts = teaches.astype(rows.dtype)
    bent, moved = times(rows.T, curve[:, None] * rows), times(slope, rows)
    return lines._replace(
        curvature=lines.curvature + counts[:, None, None] * bent,
        slope=lines.slope + counts[:, None] * moved,
    )


def fitted(lines: Lines, n_steps: int = _STEPS) -> Lines:
    """The lines some steps nearer to the solutions of their equations, and their pulls."""
    n_features = lines.slope.shape[1]
    signs = jnp.asarray(_signs(n_features), lines.slope.dtype)

    def one(line: Lines) -> Lines:
        wanted = jnp.concatenate([line.slope[None], signs])
        start = jnp.concatenate([line.betas[None], line.probes])
        found = _solved(line.curvature, line.pulls, wanted, start, n_steps)
        trace = jnp.sum(signs * found[1:]) / _PROBES
        # No less than with all eigenvalues alike, however far the probes are from solved.
        least = n_features**2 / (jnp.trace(line.curvature) + n_features * line.pulls)
        squares = jnp.sum(found[0] ** 2) + jnp.maximum(trace, least)
        pull = (n_features + _GUESS_WORTH) / (squares + _GUESS_WORTH / _FIRST_PULL)
        return line._replace(pulls=pull, betas=found[0], probes=found[1:])

    each: Lines = jax.vmap(one)(lines)
    return each


def times(a: Array, b: Array) -> Array:
    """Their product in full precision: a GPU's default rounds to ten bits."""
    return jnp.matmul(a, b, precision="highest")


def _solved(curvature: Array, pull: Array, wanted: Array, start: Array, n_steps: int) -> Array:
    """[n, d] nearer to (curvature + pull I)^-1 wanted, by conjugate gradients from the start."""
    scale = 1.0 / (jnp.diagonal(curvature) + pull)

    def applied(v: Array) -> Array:
        return times(v, curvature) + pull * v

    def step(_: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        at, left, way, length = carry
        bent = applied(way)
        share = _ratio(length, jnp.sum(way * bent, axis=1, keepdims=True))
        at, left = at + share * way, left - share * bent
        new = jnp.sum(left * scale * left, axis=1, keepdims=True)
        return at, left, scale * left + _ratio(new, length) * way, new

    left = wanted - applied(start)
    length = jnp.sum(left * scale * left, axis=1, keepdims=True)
    found: Array = jax.lax.fori_loop(0, n_steps, step, (start, left, scale * left, length))[0]
    return found


def _ratio(above: Array, below: Array) -> Array:
    """Their ratio, 0 where there is nothing to divide by."""
    return jnp.where(below > 0, above / jnp.where(below > 0, below, 1.0), 0.0)


@cache
def _signs(n_features: int) -> npt.NDArray[np.float64]:
    """[n_probes, n_features] of 1 and -1, always the same."""
    return np.random.Generator(np.random.PCG64(20)).choice([-1.0, 1.0], (_PROBES, n_features))
