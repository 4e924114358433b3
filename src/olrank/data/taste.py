"""Another taste for the same documents: what users who change their mind half-way want next.

    x   features, min-max within the query (as `normalise` does; nothing new where it has been done)
    g   the other taste: 8 waves cos(4 w x + b) added up, each along a direction w of its own
    grades  each query deals its own grades out anew, the highest to the largest g

Directions, phases and signs follow from a seed and the number of features alone, so that the parts
of a fold have one taste. The weights of a direction sum to zero: features of search engines mostly
agree with each other and with the judges, and what they agree on would bring the old taste back.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from olrank.data.normalise import chunks, normalise_rows
from olrank.types import Dataset

_N_WAVES = 8  # enough that no single direction decides
_FREQUENCY = 4.0  # features of a query spread a direction by about .3: half a turn from end to end
_DECIMALS = 9  # twins get one g, whatever the machine's way of adding up

Floats = npt.NDArray[np.float64]


class Taste(NamedTuple):
    """A function of the features.

    Attributes:
        directions: [n_features, n_waves] each of length 1, its weights summing to 0.
        phases: [n_waves] in radians.
        heights: [n_waves] by how much each wave counts.
    """

    directions: Floats
    phases: Floats
    heights: Floats

    def of(self, features: npt.NDArray[np.float32]) -> Floats:
        """[n_rows] g of documents with these features [n_rows, n_features]."""
        turns = _FREQUENCY * (features.astype(np.float64) @ self.directions)
        return np.round(np.cos(turns + self.phases) @ self.heights, _DECIMALS)


def other_taste(n_features: int, seed: int) -> Taste:
    """The taste of a seed."""
    random = np.random.default_rng([seed, n_features])
    directions = random.normal(size=(n_features, _N_WAVES))
    if n_features > 1:
        directions -= directions.mean(axis=0)
    directions /= np.linalg.norm(directions, axis=0)
    phases = random.uniform(0, 2 * np.pi, _N_WAVES)
    return Taste(directions, phases, random.normal(size=_N_WAVES))


def with_other_taste(dataset: Dataset, seed: int) -> Dataset:
    """The same documents, judged by somebody with another taste.

    Args:
        dataset: queries with grades; they are not changed.
        seed: of the taste; parts of a fold need the same one.

    Returns:
        The set with new grades: within each query the old ones, and the true relevance where it is
        known, in the order of g. Documents that g cannot tell apart are put in random order.
    """
    taste = other_taste(dataset.n_features, seed)
    wanted = np.zeros(dataset.n_rows)
    for start, end in chunks(dataset):
        rows = slice(int(dataset.offsets[start]), int(dataset.offsets[end]))
        offsets = dataset.offsets[start : end + 1] - rows.start
        wanted[rows] = taste.of(normalise_rows(dataset.features[rows], offsets))
    ties = np.random.default_rng(seed).random(dataset.n_rows)
    query = np.repeat(np.arange(dataset.n_queries), dataset.sizes)
    by_taste = np.lexsort((ties, wanted, query))

    def deal(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        dealt = np.empty_like(values)
        dealt[by_taste] = values[np.lexsort((values, query))]
        return dealt

    return replace(
        dataset,
        grades=deal(dataset.grades),
        relevance=None if dataset.relevance is None else deal(dataset.relevance),
        checksum=hashlib.sha256(f"{dataset.checksum}|taste {seed}".encode()).hexdigest(),
    )
