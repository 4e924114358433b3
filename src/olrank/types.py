"""The records that pass between rooms: data sets, rankings, impressions and rankers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np
import numpy.typing as npt

Array = jax.Array
Key = jax.Array
"""A typed JAX random key; always passed in, never global."""

PyTree = Any
"""Any nesting of tuples, lists, dicts and NamedTuples with arrays as leaves."""

Factors = tuple[tuple[Array, Array], ...]
"""Tangents as outer products: (delta [n, out], input [n, in]) of each weight matrix.

Document i's tangent is delta_i x input_i, flattened row by row, one matrix after the other; a bias
counts as a matrix with the input 1. Never holding the product is what makes large queries cheap.
"""


@dataclass(frozen=True)
class Dataset:
    """Judged queries as flat arrays: query q owns rows offsets[q] to offsets[q + 1].

    Attributes:
        name: what rows and figures call it.
        features: [n_rows, n_features] float32, possibly memory-mapped.
        grades: [n_rows] int32, judged relevance from 0 up.
        offsets: [n_queries + 1] int64, the first row of each query, and the end.
        query_ids: the ids as the file wrote them.
        relevance: [n_rows] float32, the true h of synthetic data; None where nobody knows it.
        max_grade: the highest grade of the scale, which a small part may not contain.
        normalise: how the features were normalised ("none" when they are as read).
        checksum: SHA-256 of what the set was made of, for run.json and for keys.
    """

    name: str
    features: npt.NDArray[np.float32]
    grades: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    query_ids: Sequence[str]
    max_grade: int
    relevance: npt.NDArray[np.float32] | None = None
    normalise: str = "none"
    checksum: str = ""

    @property
    def n_rows(self) -> int:
        """The number of judged documents."""
        return int(self.grades.shape[0])

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return int(self.offsets.shape[0]) - 1

    @property
    def n_features(self) -> int:
        """The number of features of a document."""
        return int(self.features.shape[1])

    @cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        """[n_queries] documents of each query."""
        return np.diff(self.offsets)

    def select(self, queries: npt.ArrayLike, name: str | None = None) -> Dataset:
        """The set made of these queries (indices), in this order."""
        chosen = np.asarray(queries, dtype=np.int64)
        starts, sizes = self.offsets[chosen], self.sizes[chosen]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        rows = np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1])
        return replace(
            self,
            name=self.name if name is None else name,
            features=self.features[rows],
            grades=self.grades[rows],
            offsets=offsets,
            query_ids=[self.query_ids[q] for q in chosen],
            relevance=None if self.relevance is None else self.relevance[rows],
        )


class Fold(NamedTuple):
    """One split of a data set: learn on train, choose on validation, report on test."""

    name: str
    train: Dataset
    validation: Dataset
    test: Dataset


class Ranking(NamedTuple):
    """A drawn top-k list and what is known of the draw. Slots past the last document are not shown.

    Attributes:
        order: [k] int32, the candidate at each slot; padding candidates at slots not shown.
        shown: [k] bool, False at the slots past the last document.
        choices: [k] int32, how many candidates could have stood at the slot (1 where not shown).
        log_p_shown: log-probability of exactly this list; the authority on propensity.
        certain: [k, k] bool, True at (a, b) when slot a's document certainly stands above b's.
        memo: a small pytree that only the ranker that made it reads.
    """

    order: Array
    shown: Array
    choices: Array
    log_p_shown: Array
    certain: Array
    memo: PyTree = ()


class Impression(NamedTuple):
    """What a live system knows when a shown list is closed.

    Attributes:
        rows: [k] int32, where the shown documents stand in the table of rows.
        clicks: [k] float, 0 where not clicked, else the click's weight (1 for a plain click).
        ranking: the Ranking that was shown.
        candidates: [max_docs] int32, rows of all candidates of the query, which are neighbours in
            the table, -1 where padded. Only the simulator gives them, and only a ranker whose
            table entry says `sees_grades` reads them.
        seen: [k] bool, False at slots that never came into view, where the system knows; all were
            when None. The ranking's own `shown` stays as drawn: its probabilities need it.
    """

    rows: Array
    clicks: Array
    ranking: Ranking
    candidates: Array | None = None
    seen: Array | None = None


class Rows(NamedTuple):
    """The table that row ids point into: the data set when simulated, a ring of rows when live.

    Attributes:
        features: [n_rows, n_features].
        grades: [n_rows] or None; given by the simulator only, read by the skyline only.
    """

    features: Array
    grades: Array | None = None


class Ranker(NamedTuple):
    """An algorithm as four pure functions, traceable by JAX.

    Attributes:
        init: (key, n_features, settings) -> state; settings is a pytree of numbers.
        score: (state, features [n, n_features]) -> scores [n].
        rank: (state, key, features [n, n_features], mask [n], k) -> Ranking.
        learn: (state, key, impression, rows) -> state.
    """

    init: Callable[[Key, int, PyTree], PyTree]
    score: Callable[[PyTree, Array], Array]
    rank: Callable[[PyTree, Key, Array, Array, int], Ranking]
    learn: Callable[[PyTree, Key, Impression, Rows], PyTree]
