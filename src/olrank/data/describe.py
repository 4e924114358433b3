"""The facts of a data set that a person wants to see first."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from olrank.types import Dataset

_CHUNK_ROWS = 1 << 16


class Facts(NamedTuple):
    """A data set in numbers.

    Attributes:
        queries: how many.
        documents: how many.
        features: how many.
        grades: documents of each grade, from 0 to the top of the scale.
        lengths: the shortest, mean, median and longest list.
        without_relevant: queries whose documents all have grade 0.
        constant_features: numbers (from 1) of the features with one value in the whole set.
        values: the lowest and the highest value of any feature.
    """

    queries: int
    documents: int
    features: int
    grades: tuple[int, ...]
    lengths: tuple[int, float, float, int]
    without_relevant: int
    constant_features: tuple[int, ...]
    values: tuple[float, float]

    def lines(self) -> list[str]:
        """One line of text for each fact."""
        shares = [f"{g}: {n:,} ({n / self.documents:.1%})" for g, n in enumerate(self.grades)]
        low, mean, median, high = self.lengths
        without = self.without_relevant / self.queries
        constant = ", ".join(map(str, self.constant_features)) or "none"
        return [
            f"queries                    {self.queries:,}",
            f"documents                  {self.documents:,}",
            f"features                   {self.features:,}",
            f"grades                     {', '.join(shares)}",
            f"documents a query          {low} to {high}, mean {mean:.1f}, median {median:g}",
            f"queries without relevant   {self.without_relevant:,} ({without:.1%})",
            f"constant features          {constant}",
            f"values                     {self.values[0]:g} to {self.values[1]:g}",
        ]


def describe(dataset: Dataset) -> Facts:
    """The facts of a set with at least one query."""
    low = np.full(dataset.n_features, np.inf)
    high = np.full(dataset.n_features, -np.inf)
    for start in range(0, dataset.n_rows, _CHUNK_ROWS):  # the features may be larger than memory
        rows = dataset.features[start : start + _CHUNK_ROWS]
        low, high = np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))
    sizes = dataset.sizes
    best = np.maximum.reduceat(dataset.grades, dataset.offsets[:-1])
    counts = np.bincount(dataset.grades, minlength=dataset.max_grade + 1)
    return Facts(
        queries=dataset.n_queries,
        documents=dataset.n_rows,
        features=dataset.n_features,
        grades=tuple(counts.tolist()),
        lengths=(int(sizes.min()), float(sizes.mean()), float(np.median(sizes)), int(sizes.max())),
        without_relevant=int((best == 0).sum()),
        constant_features=tuple((np.flatnonzero(low == high) + 1).tolist()),
        values=(float(low.min()), float(high.max())),
    )
