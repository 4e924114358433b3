"""Metrics, by hand and by what must hold exactly."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from oracle import metrics
from oracle.cases import FIGURE_1, A, B, C, D


def test_ndcg_by_hand():
    grades = [0, 2, 1]
    value = metrics.ndcg(grades, (2, 1), k=2)
    assert value == pytest.approx((1 + 3 / np.log2(3)) / (3 + 1 / np.log2(3)))
    best = max(metrics.dcg([grades[i] for i in shown], 2) for shown in permutations(range(3)))
    assert metrics.dcg([2, 1, 0], 2) == pytest.approx(best)
    assert metrics.ndcg([0, 0], (0, 1), k=2, no_relevant=1.0) == 1.0
    assert metrics.cumulative_ndcg([1.0, 0.5], gamma=0.9) == pytest.approx(1 + 0.5 * 0.9)


def test_regret_by_hand():
    grades = [0, 2, 1, 1]
    assert metrics.regret(grades, (0, 2)) == 3 + 1  # 0 above 1, 2, 3; 2 above 1
    assert metrics.regret(grades, (1, 2)) == 0  # equal grades are no mistake
    assert metrics.examined_regret(grades, (0, 2, 1), 2) == 1
    assert metrics.examined_regret(grades, (0, 2, 1), 0) == 0


def test_regret_of_a_full_list_is_kendalls_distance_to_the_ideal():
    grades = [3, 0, 2, 1]
    ideal = [1, 4, 2, 3]
    for shown in permutations(range(4)):
        tau = [shown.index(i) + 1 for i in range(4)]
        assert metrics.regret(grades, shown) == metrics.kendall(tau, ideal)


def test_certain_ratio_by_hand():
    assert metrics.certain_ratio(FIGURE_1, (A, B, C, D)) == pytest.approx(4 / 6)
    assert metrics.certain_ratio(FIGURE_1, (A,)) is None
