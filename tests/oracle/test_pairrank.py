"""PairRank, by hand and by what must hold exactly."""

from __future__ import annotations

import numpy as np

from oracle import pairrank


def test_pairrank_is_solved_to_its_minimum(rng):
    X_ij = rng.normal(size=(12, 3))
    w = pairrank.solve(X_ij, lam=0.1)
    assert abs(pairrank.gradient(w, X_ij, 0.1)).max() < 1e-10
    far = pairrank.solve(X_ij, lam=0.1, start=np.full(3, 30.0))
    np.testing.assert_allclose(w, far, atol=1e-9)


def test_pairranks_derivatives_are_those_of_finite_differences(rng):
    X_ij, w, h = rng.normal(size=(5, 3)), rng.normal(size=3), 1e-5 * np.eye(3)
    slope = [
        (pairrank.objective(w + e, X_ij, 0.1) - pairrank.objective(w - e, X_ij, 0.1)) / 2e-5
        for e in h
    ]
    np.testing.assert_allclose(pairrank.gradient(w, X_ij, 0.1), slope, rtol=1e-7, atol=1e-9)
    curve = [
        (pairrank.gradient(w + e, X_ij, 0.1) - pairrank.gradient(w - e, X_ij, 0.1)) / 2e-5
        for e in h
    ]
    np.testing.assert_allclose(pairrank.hessian(w, X_ij, 0.1), curve, rtol=1e-7, atol=1e-9)
