"""PairRank: pairwise logistic regression, solved to convergence.

X_ij [n, d] holds x_clicked - x_unclicked of every pair seen so far, so that y = 1 throughout.
Its confidence is that of `confidence` with tangents x and m = 1.
"""

from __future__ import annotations

import numpy as np

from .network import Array, sigmoid


def objective(w: Array, X_ij: Array, lam: float) -> float:
    """sum over pairs of log(1 + exp(-w . x_ij)) + (lambda / 2) ||w||^2."""
    return float(sum(np.logaddexp(0.0, -(w @ x)) for x in X_ij) + lam / 2.0 * (w @ w))


def gradient(w: Array, X_ij: Array, lam: float) -> Array:
    """[d] -sum (1 - sigma(w . x_ij)) x_ij + lambda w."""
    total = lam * w
    for x in X_ij:
        total = total - (1.0 - sigmoid(w @ x)) * x
    return total


def hessian(w: Array, X_ij: Array, lam: float) -> Array:
    """[d, d] sum sigma (1 - sigma) x_ij x_ij^T + lambda I."""
    total = lam * np.eye(w.size)
    for x in X_ij:
        p = float(sigmoid(w @ x))
        total = total + p * (1.0 - p) * np.outer(x, x)
    return total


def solve(X_ij: Array, lam: float, start: Array | None = None, steps: int = 100) -> Array:
    """[d] the minimiser: Newton's steps, halved until the objective does not grow.

    Convex with lambda > 0, so every start ends at the same place; stops when the gradient is
    below 1e-12 of the scale of the data, or when no halving helps any more.
    """
    w = np.zeros(X_ij.shape[1]) if start is None else np.asarray(start, dtype=np.float64)
    tolerance = 1e-12 * (1.0 + float(np.abs(X_ij).sum()))
    for _ in range(steps):
        slope = gradient(w, X_ij, lam)
        if np.abs(slope).max() < tolerance:
            break
        newton = np.linalg.solve(hessian(w, X_ij, lam), slope)
        size = 1.0
        while size > 1e-10 and objective(w - size * newton, X_ij, lam) > objective(w, X_ij, lam):
            size /= 2.0
        w = w - size * newton
    return w
