"""Features brought to one scale: within each query, within the whole set, or not at all.

    how        what becomes of a feature
    "none"     nothing
    "query"    min-max within its query to [0, 1]; 0 where the query has only one value of it
    "unit"     the same, then each document is scaled to norm 1 (all-zero documents stay zero)
    "global"   min-max over the set (in a fold: over its train part) to [0, 1]

"query" is the convention of the field and what LETOR calls QueryLevelNorm.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from olrank.errors import DataError, unknown_name
from olrank.types import Dataset, Fold

HOW = ("none", "query", "unit", "global")

_CHUNK_CELLS = 1 << 23  # features worked on at a time: 64 MiB in 64 bits

Features = npt.NDArray[np.float32]
Bounds = npt.NDArray[np.float64]


class Range(NamedTuple):
    """[n_features] the lowest and the highest value of each feature."""

    low: Bounds
    high: Bounds


def normalise(dataset: Dataset, how: str, bounds: Range | None = None) -> Dataset:
    """The set with its features normalised.

    Args:
        dataset: as read, or normalised by query already when how is "unit" or "global".
        how: see the table above.
        bounds: for "global", the range to use (from `fit_global`); this set's own when None. Values
            outside of it land outside [0, 1].
    """
    _check(how)
    if how in ("none", dataset.normalise):
        return dataset
    if dataset.normalise in ("unit", "global"):
        raise DataError(
            f'{dataset.name}: already normalised as "{dataset.normalise}", cannot become "{how}".\n'
            "  Normalise the set as it was read."
        )
    if how == "global" and bounds is None:
        bounds = fit_global(dataset)
    features = np.empty(dataset.features.shape, dtype=np.float32)
    for start, end in chunks(dataset):
        rows = slice(int(dataset.offsets[start]), int(dataset.offsets[end]))
        offsets = dataset.offsets[start : end + 1] - rows.start
        features[rows] = normalise_rows(dataset.features[rows], offsets, how, bounds)
    features.flags.writeable = False
    return replace(dataset, features=features, normalise=how)


def normalise_fold(fold: Fold, how: str) -> Fold:
    """All parts of a fold normalised; "global" takes its range from the train part."""
    bounds = fit_global(fold.train) if how == "global" else None
    train, validation, test = (normalise(part, how, bounds) for part in fold[1:])
    return Fold(fold.name, train, validation, test)


def normalise_query(features: npt.ArrayLike, how: str, bounds: Range | None = None) -> Features:
    """The candidates of one query, normalised as `normalise` would.

    Args:
        features: [n_docs, n_features].
        how: see the table above.
        bounds: the range for "global", which one query cannot know.

    Returns:
        [n_docs, n_features] float32.
    """
    _check(how)
    array = np.asarray(features, dtype=np.float32)
    if how == "global" and bounds is None:
        raise DataError('normalise="global" needs the range of the features.\n  Pass fit_global().')
    if how == "none" or not len(array):
        return array
    return normalise_rows(array, np.array([0, len(array)]), how, bounds)


def fit_global(dataset: Dataset) -> Range:
    """The range of each feature over a set, to be used on other sets."""
    if not dataset.n_rows:
        raise DataError(f"{dataset.name}: an empty set has no range of features.\n  Fit another.")
    low = np.asarray(dataset.features.min(axis=0), dtype=np.float64)
    return Range(low, np.asarray(dataset.features.max(axis=0), dtype=np.float64))


def _check(how: str) -> None:
    if how not in HOW:
        raise unknown_name("normalisation", how, HOW)


def chunks(dataset: Dataset) -> list[tuple[int, int]]:
    """Ranges of queries with about `_CHUNK_CELLS` features each."""
    rows = max(1, _CHUNK_CELLS // max(1, dataset.n_features))
    cuts = np.searchsorted(dataset.offsets, np.arange(0, dataset.n_rows, rows))
    edges = np.unique([0, *cuts, dataset.n_queries]).tolist()
    return list(zip(edges[:-1], edges[1:], strict=True))


def normalise_rows(
    features: Features,
    offsets: npt.NDArray[np.int64],
    how: str = "query",
    bounds: Range | None = None,
) -> Features:
    """Whole queries, normalised.

    Args:
        features: [n_rows, n_features].
        offsets: [n_queries + 1] the first row of each query, and the end.
        how: "query", "unit" or "global".
        bounds: the range for "global".

    Returns:
        [n_rows, n_features] float32; worked out in 64 bits, which a range of 32-bit values needs.
    """
    if how == "global" and bounds is not None:
        return _scaled(features, bounds.low, bounds.high).astype(np.float32)
    sizes = np.diff(offsets)
    starts = offsets[:-1][sizes > 0]  # reduceat takes a row of the next query for an empty one
    low = np.minimum.reduceat(features, starts, axis=0).astype(np.float64)
    high = np.maximum.reduceat(features, starts, axis=0).astype(np.float64)
    sizes = sizes[sizes > 0]
    scaled = _scaled(features, np.repeat(low, sizes, axis=0), np.repeat(high, sizes, axis=0))
    if how == "unit":
        norms = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
        scaled /= np.where(norms > 0, norms, 1.0)[:, None]
    return scaled.astype(np.float32)


def _scaled(features: Features, low: Bounds, high: Bounds) -> Bounds:
    spread = high - low
    scaled = features - low
    np.divide(scaled, spread, out=scaled, where=spread > 0)
    scaled[np.broadcast_to(spread, scaled.shape) <= 0] = 0.0
    return scaled
