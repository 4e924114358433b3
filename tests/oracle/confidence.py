"""Confidence widths and certain rank orders: Lemma 1 and Definition 1.

Tangents G [n, p] hold g(x_i; theta) in row i, not divided by sqrt(m). The paper writes theta_t
in some places and theta_{t-1} in others; both A_t and the widths use the parameters that served
the ranking (READINGS, "g in A_t and in the widths"). PairRank is the case of tangents x and
m = 1. A matrix A may be given by its diagonal alone: an array of one axis instead of two.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .network import Array, sigmoid

Pair = tuple[int, int]


def initial(p: int, prior: float) -> Array:
    """[p, p] A_1 = lambda I, Algorithm 1 line 3; lambda is the setting `prior`."""
    return prior * np.eye(p)


def initial_diagonal(p: int, prior: float) -> Array:
    """[p] the diagonal of A_1 (Sec. 5.2 keeps only the diagonal of A_t)."""
    return prior * np.ones(p)


def update(A: Array, G: Array, pairs: Sequence[Pair], m: int) -> Array:
    """A_{t+1} = A_t + sum over (i, j) in Omega_t^ind of g_ij g_ij^T / m, Algorithm 1 line 12.

    Args:
        A: [p, p], or its diagonal [p].
        G: [n, p] tangents of the documents of this round.
        pairs: rows (i, j) of G.
        m: the network's width.
    """
    A = A.copy()
    for i, j in pairs:
        g_ij = G[i] - G[j]
        A += np.outer(g_ij, g_ij) / m if A.ndim == 2 else g_ij * g_ij / m
    return A


def inverse(A: Array) -> Array:
    """A^-1; A [p, p], or its diagonal [p]."""
    return np.asarray(np.linalg.inv(A) if A.ndim == 2 else 1.0 / A, dtype=np.float64)


def norm(v: Array, A_inverse: Array) -> float:
    """||v||_{A^-1} = sqrt(v^T A^-1 v); A^-1 [p, p], or its diagonal [p]."""
    squared = v @ A_inverse @ v if A_inverse.ndim == 2 else np.sum(v * A_inverse * v)
    return float(np.sqrt(max(squared, 0.0)))


def log_det(A: Array) -> float:
    """log det A; A [p, p], or its diagonal [p]."""
    return float(np.linalg.slogdet(A)[1] if A.ndim == 2 else np.sum(np.log(A)))


def alpha_t(
    A: Array, prior: float, delta: float, nu: float, S: float = 1.0, C1: float = 1.0
) -> float:
    """C1 (sqrt(nu^2 log(det A_t / (delta^2 det(lambda I)))) + sqrt(lambda) S), Lemma 1.

    The parenthesis follows READINGS "alpha_t" and the end of the proof of Lemma (glm); S is the
    lemma's bar C_2, C1 its bar C_1, lambda the prior of A.
    """
    p = A.shape[0]
    log_ratio = log_det(A) - p * np.log(prior) - 2.0 * np.log(delta)
    return float(C1 * (np.sqrt(nu**2 * log_ratio) + np.sqrt(prior) * S))


def eps_m(T: float, m: float, lam: float, L: float, eta: float, J: float, C3: float = 1.0) -> float:
    """eps(m) of Lemma 1, its three terms as written.

    The middle one is a geometric decay only while eta m lambda <= 1, which the lemma's
    condition on the step size implies; outside it there is nothing to compute.
    """
    if eta * m * lam > 1.0:
        raise ValueError(f"Lemma 1 needs eta m lambda <= 1, not {eta * m * lam}")
    linear = T ** (2 / 3) * m ** (-1 / 6) * lam ** (-2 / 3) * L**3 * np.sqrt(np.log(m))
    unfinished = L**0.5 * (1.0 - eta * m * lam) ** (J / 2) * np.sqrt(T / lam)
    drift = T ** (5 / 3) * m ** (-1 / 6) * lam ** (-5 / 3) * L**4 * (1.0 + np.sqrt(T / lam))
    return float(C3 * (linear + unfinished + drift))


def widths(G: Array, A: Array, m: int, alpha: float, eps: float = 0.0) -> Array:
    """[n, n] CB_ij = alpha ||g_ij / sqrt(m)||_{A^-1} + eps(m): Lemma 1, for all of Psi_t.

    The plus is that of the lemma and its proof (READINGS "eps(m)"). The diagonal, which is no
    pair, holds 0.
    """
    n = G.shape[0]
    A_inverse = inverse(A)
    CB = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if i != j:
                CB[i, j] = alpha * norm((G[i] - G[j]) / np.sqrt(m), A_inverse) + eps
    return CB


def certain(f: Array, CB: Array) -> npt.NDArray[np.bool_]:
    """omega_t as [n, n] bool: (i, j) with sigma(f_i - f_j) - CB_ij > 1/2, Definition 1.

    Args:
        f: [n] scores f(x_i; theta_{t-1}).
        CB: [n, n] widths, with READINGS' sign of eps(m).
    """
    n = f.shape[0]
    omega = np.zeros((n, n), dtype=bool)
    for i in range(n):
        for j in range(n):
            omega[i, j] = i != j and sigmoid(f[i] - f[j]) - CB[i, j] > 0.5
    return omega
