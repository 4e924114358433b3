"""Does a cumulative curve grow like log^2 T, sqrt(T) or T? Least squares with an intercept."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from olrank.errors import DataError

Floats = npt.NDArray[np.float64]

SHAPES: dict[str, Callable[[Floats], Floats]] = {
    "log^2 T": lambda rounds: np.log(rounds) ** 2,
    "sqrt T": np.sqrt,
    "T": lambda rounds: rounds,
}
"""The paper's bound, and what it stands against."""


class Fit(NamedTuple):
    """values = intercept + slope * shape(rounds), and the share of their variance it explains."""

    shape: str
    intercept: float
    slope: float
    r_squared: float

    def at(self, rounds: npt.ArrayLike) -> Floats:
        """The fitted curve at these rounds."""
        found: Floats = SHAPES[self.shape](np.asarray(rounds, np.float64))
        return self.intercept + self.slope * found


def fits(rounds: npt.ArrayLike, values: npt.ArrayLike) -> list[Fit]:
    """Each of `SHAPES` fitted to a curve, the best first.

    Args:
        rounds: [n] from 1 up, evenly spaced so that no part of the run weighs more than another.
        values: [n] cumulative.
    """
    t, y = np.asarray(rounds, np.float64), np.asarray(values, np.float64)
    if t.size < 4 or t.shape != y.shape:
        raise DataError(f"a fit needs four points or more of a curve; found {t.size} and {y.size}.")
    total = float(np.sum((y - y.mean()) ** 2))
    found = []
    for name, shape in SHAPES.items():
        design = np.stack([np.ones_like(t), shape(t)], axis=1)
        (intercept, slope), *_ = np.linalg.lstsq(design, y, rcond=None)
        left = float(np.sum((y - design @ [intercept, slope]) ** 2))
        explained = 1.0 - left / total if total > 0 else float("nan")
        found.append(Fit(name, float(intercept), float(slope), explained))
    return sorted(found, key=lambda fit: -fit.r_squared)
