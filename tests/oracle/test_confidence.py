"""Confidence: Lemma 1, Definition 1, by hand and by what must hold exactly."""

from __future__ import annotations

import numpy as np
import pytest

from oracle import confidence, order


def test_widths_by_hand():
    G = np.array([[2.0, 0.0], [0.0, 0.0], [0.0, 4.0]])
    full = confidence.update(confidence.initial(2, 0.5), G, [(0, 2)], m=4)
    np.testing.assert_allclose(full, [[0.5 + 4 / 4, -8 / 4], [-8 / 4, 0.5 + 16 / 4]])
    diagonal = confidence.update(confidence.initial_diagonal(2, 0.5), G, [(0, 2)], m=4)
    np.testing.assert_allclose(diagonal, np.diag(full))
    CB = confidence.widths(G, diagonal, m=4, alpha=0.3, eps=0.01)
    assert CB[0, 1] == pytest.approx(0.3 * (4 / 4 / 1.5) ** 0.5 + 0.01)
    CB = confidence.widths(G, full, m=4, alpha=0.3)
    determinant = 1.5 * 4.5 - 2 * 2
    assert CB[0, 1] == pytest.approx(0.3 * (4 / 4 * 4.5 / determinant) ** 0.5)
    assert confidence.log_det(full) == pytest.approx(np.log(determinant))
    assert confidence.log_det(diagonal) == pytest.approx(np.log(1.5 * 4.5))


def test_full_and_diagonal_agree_when_the_full_matrix_is_diagonal(rng):
    G = rng.normal(size=(4, 6))
    full = confidence.widths(G, confidence.initial(6, 0.2), m=3, alpha=0.7)
    diagonal = confidence.widths(G, confidence.initial_diagonal(6, 0.2), m=3, alpha=0.7)
    np.testing.assert_allclose(full, diagonal)


def test_alpha_and_eps_by_hand():
    start = confidence.initial(7, 0.25)
    alpha = confidence.alpha_t(start, prior=0.25, delta=0.1, nu=0.5, S=3.0, C1=2.0)
    assert alpha == pytest.approx(2 * ((0.25 * 2 * np.log(10)) ** 0.5 + 0.25**0.5 * 3))
    grown = confidence.alpha_t(4 * start, prior=0.25, delta=0.1, nu=0.5)
    assert grown == pytest.approx((0.25 * (7 * np.log(4) + 2 * np.log(10))) ** 0.5 + 0.5)
    eps = confidence.eps_m(T=8, m=64, lam=1, L=2, eta=1 / 128, J=4, C3=0.5)
    first = 4 / 2 * 8 * np.log(64) ** 0.5
    second = 2**0.5 * 0.5**2 * 8**0.5
    third = 32 / 2 * 16 * (1 + 8**0.5)
    assert eps == pytest.approx(0.5 * (first + second + third))


def test_certain_orders_by_hand():
    f = np.array([np.log(4), 0.0])  # sigma = 4/5
    for width, is_certain in [(0.29, True), (0.31, False)]:
        CB = np.full((2, 2), width)
        assert confidence.certain(f, CB).tolist() == [[False, is_certain], [False, False]]


def test_certain_orders_never_form_a_cycle(rng):
    for _ in range(50):
        CB = rng.uniform(0, 0.4, size=(8, 8))
        certain = confidence.certain(rng.normal(size=8), CB)
        assert order.is_acyclic(certain)


def test_negative_widths_can_form_a_cycle():
    certain = confidence.certain(np.zeros(2), np.full((2, 2), -0.1))
    assert not order.is_acyclic(certain)
