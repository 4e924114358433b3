"""Made-up judged queries with a known relevance function h, at the shape of real sets.

    x   features, min-max within the query, [0, 1]: correlated through a few hidden factors, and
        bent by an exponent of the query's own, so that queries differ in how good they are
    h   relevance: a fixed function of x that depends on the seed and the width alone
    g   grades: h plus noise, cut at thresholds common to all queries, in the wanted mix

"linear": h is a projection p_0 of x. "nonlinear": mostly |p_1| and p_2 * p_3, whose slope has no
sign, and a little of p_0; a linear ranker can learn that little and no more.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from olrank.data.lengths import list_lengths
from olrank.data.normalise import normalise_rows
from olrank.errors import ConfigError, unknown_name
from olrank.types import Dataset, Fold

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

_CHUNK_CELLS = 1 << 23  # features made at a time
_N_REFERENCE = 2048  # documents of the sample on which h gets its scale
_WORLD, _LENGTHS, _FEATURES, _NOISE = range(4)  # independent streams of random numbers


@dataclass(frozen=True)
class Shape:
    """What a made-up set looks like.

    Attributes:
        features: width.
        mean_docs: mean length of a list.
        max_docs: the longest list.
        grade_mix: share of documents of each grade, from 0.
        relevance: "linear" or "nonlinear".
        noise: standard deviation of what grades see besides h, which has 1.
        tail: standard deviation of the log of list lengths: larger is a heavier tail.
    """

    features: int
    mean_docs: float
    max_docs: int
    grade_mix: tuple[float, ...]
    relevance: Literal["linear", "nonlinear"] = "nonlinear"
    noise: float = 0.2
    tail: float = 0.7


PRESETS: dict[str, Shape] = {
    # 15 documents fill a first page and leave a choice; five grades as in the paper's click table
    "small": Shape(20, 15, 40, (0.45, 0.25, 0.15, 0.10, 0.05), tail=0.4),
    "web10k": Shape(136, 120, 908, (0.52, 0.32, 0.13, 0.02, 0.01)),
    "yahoo": Shape(700, 24, 139, (0.26, 0.36, 0.28, 0.08, 0.02)),
    "mq2008": Shape(46, 19, 121, (0.81, 0.13, 0.06), tail=1.0),
}
"""Shapes of the public sets (features, list lengths, about their grade mix), and a small one."""


class World(NamedTuple):
    """What all queries of a seed share, however many there are.

    Attributes:
        loadings: [n_factors, n_features] how hidden factors show in features.
        skew: [n_features] log of the exponent that bends each feature.
        weights: [n_features, 4] the projections p_0 to p_3, uncorrelated and of variance 1.
        centre: [4] their means before centring.
        mean: mean of h before it is scaled.
        spread: standard deviation of h before it is scaled.
        relevance: "linear" or "nonlinear".
    """

    loadings: Floats
    skew: Floats
    weights: npt.NDArray[np.float64]
    centre: npt.NDArray[np.float64]
    mean: float
    spread: float
    relevance: str

    def h(self, features: Floats) -> Floats:
        """[n_rows] the relevance of documents with these features [n_rows, n_features]."""
        raw = _raw_relevance(features @ self.weights - self.centre, self.relevance)
        return ((raw - self.mean) / self.spread).astype(np.float32)


def synthetic(
    preset: str | None = None,
    *,
    queries: int = 300,
    features: int | None = None,
    mean_docs: float | None = None,
    max_docs: int | None = None,
    relevance: Literal["linear", "nonlinear"] | None = None,
    grade_mix: Sequence[float] | None = None,
    noise: float | None = None,
    seed: int = 0,
    name: str | None = None,
) -> Dataset:
    """Make a data set whose relevance function is known.

    Args:
        preset: a shape from `PRESETS`, "small" when None; the arguments below change it.
        queries: how many.
        features: width, at least 4.
        mean_docs: mean length of a list; met over the whole set.
        max_docs: the longest list; met by sets of 20 queries and more.
        relevance: "nonlinear", which no linear ranker can learn, or "linear".
        grade_mix: share of documents of each grade, from 0; they sum to 1.
        noise: standard deviation of what grades see besides h, which has about 1.
        seed: the same arguments and seed give the same set; h depends on the seed and the shape
            alone, so sets of different numbers of queries share it.
        name: what rows and figures call the set; the preset's name when None.

    Returns:
        The set, normalised by query, with h in `relevance`.
    """
    chosen = preset or "small"
    if chosen not in PRESETS:
        raise unknown_name("synthetic preset", chosen, PRESETS)
    changes = {
        "features": features,
        "mean_docs": mean_docs,
        "max_docs": max_docs,
        "relevance": relevance,
        "grade_mix": None if grade_mix is None else tuple(grade_mix),
        "noise": noise,
    }
    changed = {field: value for field, value in changes.items() if value is not None}
    shape = replace(PRESETS[chosen], **changed)  # type: ignore[arg-type]
    _check(shape, queries)
    return _make(shape, queries, seed, name or (chosen if preset else "synthetic"))


def synthetic_folds(
    preset: str | None = None,
    *,
    queries: tuple[int, int, int] = (200, 50, 100),
    seed: int = 0,
    **changes: Any,
) -> Fold:
    """One h, and disjoint queries to learn on, to choose on and to report on.

    Args:
        preset: as in `synthetic`.
        queries: how many in train, validation and test.
        seed: as in `synthetic`.
        **changes: further arguments of `synthetic`.
    """
    whole = synthetic(preset, queries=sum(queries), seed=seed, **changes)
    cuts = np.split(np.arange(sum(queries)), np.cumsum(queries)[:2])
    return Fold(
        "1", *(_part(whole, cut, label) for cut, label in zip(cuts, Fold._fields[1:], strict=True))
    )


def _make(shape: Shape, queries: int, seed: int, name: str) -> Dataset:
    world = make_world(shape, seed)
    lengths_rng = np.random.default_rng([seed, _LENGTHS])
    lengths = list_lengths(lengths_rng, queries, shape.mean_docs, shape.max_docs, shape.tail)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    features = _draw_features(np.random.default_rng([seed, _FEATURES]), world, offsets)
    chunk = max(1, _CHUNK_CELLS // shape.features)
    h = np.concatenate([world.h(features[i : i + chunk]) for i in range(0, len(features), chunk)])
    noise = np.random.default_rng([seed, _NOISE]).standard_normal(len(h))
    made_of = json.dumps({"shape": asdict(shape), "queries": queries, "seed": seed}, sort_keys=True)
    return Dataset(
        name=name,
        features=features,
        grades=_cut(h + shape.noise * noise, shape.grade_mix),
        offsets=offsets,
        query_ids=[str(query + 1) for query in range(queries)],
        max_grade=len(shape.grade_mix) - 1,
        relevance=h,
        normalise="query",
        checksum=hashlib.sha256(made_of.encode()).hexdigest(),
    )


def make_world(shape: Shape, seed: int) -> World:
    """The hidden factors and the relevance function of a seed."""
    rng = np.random.default_rng([seed, _WORLD])
    n_factors = max(4, shape.features // 6)
    loadings = rng.standard_normal((n_factors, shape.features), dtype=np.float32)
    loadings /= np.linalg.norm(loadings, axis=0)
    skew = rng.normal(0.0, 0.3, shape.features).astype(np.float32)
    blank = World(loadings, skew, np.zeros((0, 4)), np.zeros(4), 0.0, 1.0, shape.relevance)
    length = round(shape.mean_docs)
    offsets = np.arange(0, _N_REFERENCE + length, length)
    reference = _draw_features(rng, blank, offsets).astype(np.float64)
    weights = rng.standard_normal((shape.features, 4))
    weights @= np.linalg.inv(np.linalg.cholesky(np.cov(reference @ weights, rowvar=False))).T
    centre = (reference @ weights).mean(axis=0)
    raw = _raw_relevance(reference @ weights - centre, shape.relevance)
    return World(
        loadings, skew, weights, centre, float(raw.mean()), float(raw.std()), shape.relevance
    )


def _raw_relevance(projections: npt.NDArray[np.float64], relevance: str) -> npt.NDArray[np.float64]:
    """[n_rows] h of projections [n_rows, 4], not yet scaled."""
    if relevance == "linear":
        return projections[:, 0]
    p_0, p_1, p_2, p_3 = (projections[:, i] for i in range(4))
    return 0.3 * p_0 + 1.2 * np.abs(p_1) + 0.6 * p_2 * p_3


def _draw_features(rng: np.random.Generator, world: World, offsets: Ints) -> Floats:
    """[n_rows, n_features] of queries with these offsets, some queries at a time."""
    n_factors, n_features = world.loadings.shape
    features = np.empty((int(offsets[-1]), n_features), dtype=np.float32)
    per_chunk = max(1, _CHUNK_CELLS // n_features // int(np.diff(offsets).max()))
    for first in range(0, len(offsets) - 1, per_chunk):
        some = offsets[first : first + per_chunk + 1]
        n_rows = int(some[-1] - some[0])
        factors = rng.standard_normal((n_rows, n_factors), dtype=np.float32)
        own = rng.standard_normal((n_rows, n_features), dtype=np.float32)
        bend = rng.normal(0.0, 0.3, len(some) - 1).astype(np.float32)
        between = normalise_rows(factors @ world.loadings + np.float32(0.5) * own, some - some[0])
        exponents = np.exp(np.repeat(bend, np.diff(some))[:, None] + world.skew)
        features[some[0] : some[-1]] = between**exponents
    return features


def _cut(scores: npt.NDArray[np.float64], grade_mix: Sequence[float]) -> npt.NDArray[np.int32]:
    """[n_rows] grades: how many of the common thresholds each score reaches."""
    ends = np.rint(np.cumsum(grade_mix)[:-1] * len(scores)).astype(np.int64)
    thresholds = np.append(np.sort(scores), np.inf)[ends]
    return np.searchsorted(thresholds, scores, side="right").astype(np.int32)


def _check(shape: Shape, queries: int) -> None:
    mix = shape.grade_mix
    if queries < 1:
        raise ConfigError(f"queries: {queries} is not a whole number from 1 up.")
    if shape.features < 4:
        raise ConfigError(f"features: {shape.features} is below 4, the least that h needs.")
    if not 2 <= shape.mean_docs <= shape.max_docs:
        raise ConfigError(
            f"mean_docs: {shape.mean_docs} is not between 2 and max_docs, {shape.max_docs}."
        )
    if len(mix) < 2 or min(mix) < 0 or abs(sum(mix) - 1) > 1e-9:
        raise ConfigError(f"grade_mix: {mix} are not two or more shares that sum to 1.")
    if shape.relevance not in ("linear", "nonlinear"):
        raise unknown_name("relevance function", shape.relevance, ("linear", "nonlinear"))
    if shape.noise < 0:
        raise ConfigError(f"noise: {shape.noise} is negative.")


def _part(whole: Dataset, queries: Ints, label: str) -> Dataset:
    checksum = hashlib.sha256(f"{whole.checksum} {label}".encode()).hexdigest()
    return replace(whole.select(queries), checksum=checksum)
