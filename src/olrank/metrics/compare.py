"""Means with intervals, and paired comparisons of two rankers over matched units.

A unit is one independent run, usually a (fold, seed). NumPy only; nothing here is traced by JAX.

Intervals are percentile bootstrap intervals of the mean, expanded for small samples (Hesterberg,
"What teachers should know about the bootstrap", 2015): the plain ones are too narrow, because they
spread like the sample with n where n - 1 is right and use the normal where t is right. The tail
left out on each side is therefore Phi(-sqrt(n / (n - 1)) * t), with t Student's quantile. From five
units on they nearly cover what they say; with two to four they cannot, as no resample leaves the
range of the sample.

P-values come from flipping the signs of the paired differences: under the hypothesis that the two
rankers do equally well, every sign is as likely as its opposite.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from olrank.errors import DataError

Floats = npt.NDArray[np.float64]

_MAX_EXACT = 12  # 2^12 sign patterns are all tried; beyond that they are sampled
_MAX_CELLS = 1 << 20  # resampled values held at once, about 8 MB


class Interval(NamedTuple):
    """A mean over n units and its interval; the bounds are NaN for a single unit."""

    mean: float
    low: float
    high: float
    n: int


class Comparison(NamedTuple):
    """The mean of a - b over n matched units, its interval, and a two-sided p-value."""

    difference: float
    low: float
    high: float
    p_value: float
    n: int


def interval(
    values: npt.ArrayLike, level: float = 0.95, n_resamples: int = 10_000, seed: int = 0
) -> Interval:
    """The mean of independent units with a bootstrap interval.

    Args:
        values: [n] one number a unit, finite.
        level: the coverage aimed at, in (0, 1).
        n_resamples: bootstrap samples.
        seed: of the resampling; the same seed gives the same interval.

    Returns:
        Interval.
    """
    units = _units("values", values)
    _check_settings(level, n_resamples)
    mean, n = float(units.mean()), units.size
    if n == 1:
        return Interval(mean, math.nan, math.nan, n)
    rng = np.random.default_rng(seed)
    means = np.concatenate(
        [units[rng.integers(n, size=(m, n))].mean(axis=1) for m in _chunks(n_resamples, n)]
    )
    tail = _expanded_tail(level, n)
    low, high = np.quantile(means, [tail, 1 - tail])
    return Interval(mean, float(low), float(high), n)


def paired(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    level: float = 0.95,
    n_resamples: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Compare two rankers that met the same units.

    Args:
        a: [n] one number a unit, finite.
        b: [n] the other ranker's, unit by unit in the same order.
        level: the coverage aimed at by the interval of the difference.
        n_resamples: bootstrap samples, and sampled sign patterns when n is above 12.
        seed: of both.

    Returns:
        Comparison. The smallest p-value that n units can give is 2 / 2^n.
    """
    ours, theirs = _units("a", a), _units("b", b)
    if ours.size != theirs.size:
        raise DataError(
            f"paired comparison: a has {ours.size} units and b has {theirs.size}. "
            "Give both rankers' values for the same (fold, seed) units, in the same order."
        )
    differences = ours - theirs
    found = interval(differences, level, n_resamples, seed)
    p_value = sign_flip_p_value(differences, n_resamples, seed)
    return Comparison(found.mean, found.low, found.high, p_value, found.n)


def sign_flip_p_value(
    differences: npt.ArrayLike, n_resamples: int = 10_000, seed: int = 0
) -> float:
    """Two-sided p-value of the hypothesis that differences lie symmetrically around 0.

    Args:
        differences: [n] paired differences, finite.
        n_resamples: sampled sign patterns, when n is above 12; else all 2^n are tried.
        seed: of the sampling.

    Returns:
        The share of sign patterns whose mean is at least as far from 0 as the one observed; when
        sampled, the observed pattern is counted in, so that it is never 0.
    """
    units = _units("differences", differences)
    n = units.size
    # Sums that are equal on paper may differ in the last bits: they still count as as far.
    threshold = abs(units.sum()) - 1e-12 * np.abs(units).sum()
    if n <= _MAX_EXACT:
        patterns = 1 - 2 * (np.arange(2**n)[:, None] >> np.arange(n) & 1)
        return float(np.mean(np.abs(patterns @ units) >= threshold))
    rng = np.random.default_rng([seed, 1])  # apart from the interval's stream
    n_as_far = 1
    for m in _chunks(n_resamples, n):
        patterns = rng.choice(np.array([-1.0, 1.0]), size=(m, n))
        n_as_far += int(np.sum(np.abs(patterns @ units) >= threshold))
    return n_as_far / (n_resamples + 1)


def holm(p_values: npt.ArrayLike) -> Floats:
    """Holm's adjusted p-values: compare each with the level, and all tests together keep it.

    Args:
        p_values: [n_tests] in [0, 1].

    Returns:
        [n_tests] adjusted, in the order given.
    """
    p = _units("p_values", p_values)
    if p.min() < 0 or p.max() > 1:
        raise DataError(f"p_values: must lie in [0, 1], found {p.min()} to {p.max()}.")
    order = np.argsort(p, kind="stable")
    n_left = np.arange(p.size, 0, -1)
    adjusted = np.empty_like(p)
    # A larger p-value is never adjusted below a smaller one: hence the running maximum.
    adjusted[order] = np.minimum(np.maximum.accumulate(n_left * p[order]), 1)
    return adjusted


def student_quantile(p: float, df: int) -> float:
    """The p-quantile of Student's t with df degrees of freedom, for p in (0.5, 1)."""
    low, high = 0.0, math.pi / 2
    # Bisect the angle atan(t / sqrt(df)), in which the distribution has no tail; 60 halvings reach
    # the last bit.
    for _ in range(60):
        angle = (low + high) / 2
        low, high = (angle, high) if _p_within(angle, df) < 2 * p - 1 else (low, angle)
    return math.sqrt(df) * math.tan(low)


def _p_within(angle: float, df: int) -> float:
    """P(|T| < t), t = sqrt(df) tan(angle): the finite series that whole df allow."""
    # Term by term the series multiplies cos^2 by 2/3, 4/5, ... (odd df) or 1/2, 3/4, ... (even df).
    cos_squared = math.cos(angle) ** 2
    odd = df % 2
    n_terms = (df - 1) // 2 if odd else df // 2
    term, total = 1.0, 0.0
    for step in range(n_terms):
        total += term
        term *= cos_squared * (2 * step + 1 + odd) / (2 * step + 2 + odd)
    if odd:
        return (angle + math.sin(angle) * math.cos(angle) * total) * 2 / math.pi
    return math.sin(angle) * total


def _expanded_tail(level: float, n: int) -> float:
    quantile = student_quantile((1 + level) / 2, n - 1)
    return NormalDist().cdf(-math.sqrt(n / (n - 1)) * quantile)


def _chunks(n_resamples: int, n: int) -> Iterator[int]:
    """Numbers of resamples that sum to n_resamples, each small enough to hold at once."""
    most = max(1, _MAX_CELLS // n)
    for start in range(0, n_resamples, most):
        yield min(most, n_resamples - start)


def _units(name: str, values: npt.ArrayLike) -> Floats:
    units = np.asarray(values, dtype=np.float64)
    if units.ndim != 1 or units.size == 0:
        raise DataError(f"{name}: expected one number a unit, found shape {units.shape}.")
    bad = np.flatnonzero(~np.isfinite(units))
    if bad.size:
        raise DataError(
            f"{name}: unit {bad[0]} is {units[bad[0]]}. Leave out units without a value "
            "on both sides before comparing."
        )
    return units


def _check_settings(level: float, n_resamples: int) -> None:
    if not 0 < level < 1:
        raise DataError(f"level: an interval's coverage lies between 0 and 1, found {level}.")
    if n_resamples < 1:
        raise DataError(f"n_resamples: needs at least one bootstrap sample, found {n_resamples}.")
