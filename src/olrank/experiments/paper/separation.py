"""The paper's non-linearity analysis: linear discriminant analysis of the graded documents."""

from __future__ import annotations

import numpy as np
import polars as pl
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from olrank.types import Dataset

_FITTED = 50_000  # documents that the analysis is fitted to, at most
_SHOWN = 250  # documents of each grade that are kept for the figure


def separate(data: Dataset, seed: int = 0) -> pl.DataFrame:
    """Project a set's documents on the two directions that separate its grades best.

    Args:
        data: all labelled documents, as the paper takes them; a sample of very large sets.
        seed: of the samples.

    Returns:
        dataset, grade, predicted, x, y: equally many documents of each grade, as far as there are.
        `predicted` is the grade that the analysis gives with equal priors. Two grades have one
        direction only, and y = 0.
    """
    rng = np.random.default_rng(seed)
    rows = rng.permutation(data.n_rows)[:_FITTED]
    X, grades = data.features[rows].astype(np.float64), data.grades[rows]
    X = X[:, np.ptp(X, axis=0) > 0]
    found = np.unique(grades)
    # Ranking features are strongly correlated: without shrinkage the covariance is near singular.
    fitted = LinearDiscriminantAnalysis(
        solver="eigen", shrinkage=1e-3, priors=np.full(len(found), 1 / len(found))
    ).fit(X, grades)
    shown = np.concatenate([np.flatnonzero(grades == grade)[:_SHOWN] for grade in found])
    at = fitted.transform(X[shown])[:, :2]
    at = at - at.mean(axis=0)
    at = at * np.where(np.sum(at**3, axis=0) < 0, -1.0, 1.0)  # a direction has no sign of its own
    return pl.DataFrame(
        {
            "dataset": [data.name] * len(shown),
            "grade": grades[shown].astype(np.int64),
            "predicted": fitted.predict(X[shown]).astype(np.int64),
            "x": at[:, 0],
            "y": at[:, 1] if at.shape[1] > 1 else np.zeros(len(shown)),
        }
    )
