"""Data with a gap: no two documents of different grades are close, as a logarithmic regret needs.

The paper's Lemma 2 and Theorem 1 divide by Delta_min, the smallest difference between any two
documents of a query. With real or freely drawn grades it is nearly 0, and the bound says nothing.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np

from olrank.errors import DataError
from olrank.types import Dataset


def with_gap(data: Dataset, margin: float = 0.25, spacing: float = 2.0) -> Dataset:
    """The set without documents close to the next grade, and with one h a grade.

    Documents of different grades then differ by at least `spacing` in h and, with grades that are
    cut from the old h without noise, by 2 * margin of what the features tell: the gap that a
    logarithmic regret needs. Documents of one grade differ in nothing that regret counts.

    Args:
        data: synthetic, with h, made with noise=0.
        margin: documents closer to a cut between two grades than this are left out.
        spacing: of the new h between neighbouring grades.
    """
    if data.relevance is None:
        raise DataError(f"{data.name}: its true relevance h is not known. Use synthetic data.")
    h, grades = data.relevance, data.grades
    cuts = []
    for grade in range(1, data.max_grade + 1):
        below, above = h[grades < grade], h[grades >= grade]
        if below.size and above.size:
            if below.max() > above.min():
                raise DataError(
                    f"{data.name}: grades {grade - 1} and {grade} overlap in h. Make the set with "
                    "noise=0."
                )
            cuts.append((below.max() + above.min()) / 2)
    near = np.abs(h[:, None] - np.asarray(cuts)[None, :]).min(axis=1, initial=np.inf)
    keep = near >= margin
    query = np.repeat(np.arange(data.n_queries), data.sizes)
    sizes = np.bincount(query[keep], minlength=data.n_queries)
    left = np.flatnonzero(sizes >= 2)  # a list of one has no order
    if not left.size:
        raise DataError(
            f"{data.name}: no query is left with margin {margin}. Choose a smaller one."
        )
    chosen = keep & np.isin(query, left)
    levels = spacing * (grades[chosen] - data.max_grade / 2)
    return replace(
        data,
        features=data.features[chosen],
        grades=grades[chosen],
        relevance=levels.astype(np.float32),
        offsets=np.concatenate([[0], np.cumsum(sizes[left])]).astype(np.int64),
        query_ids=[data.query_ids[q] for q in left.tolist()],
        name=f"{data.name} with a gap",
        checksum=hashlib.sha256(f"{data.checksum} {margin} {spacing}".encode()).hexdigest(),
    )
