"""PDGD, by hand and by what must hold exactly."""

from __future__ import annotations

import numpy as np
import pytest

from oracle import clicks, feedback, order, plackett_luce


def test_plackett_luce_by_hand():
    scores = np.log([1.0, 2.0, 3.0])
    assert plackett_luce.p_list(scores, (2, 0)) == pytest.approx(3 / 6 * 1 / 3)
    lists = plackett_luce.lists(scores, 2)
    assert len(lists) == 3 * 2
    assert sum(lists.values()) == pytest.approx(1.0)
    # (2, 0) became (0, 2) with probability 1/6 * 3/5
    rho = plackett_luce.pair_weight(scores, (2, 0), 0, 1)
    assert rho == pytest.approx((1 / 6 * 3 / 5) / (1 / 6 * 3 / 5 + 3 / 6 * 1 / 3))


def test_pdgds_gradient_by_hand():
    scores, gradients = np.log([1.0, 4.0]), np.array([[1.0, 0.0], [0.0, 3.0]])
    # List (1, 0) has P = 4/5; slot 1 (document 0) was clicked, the swap has P = 1/5.
    estimate = plackett_luce.pdgd_gradient(scores, gradients, (1, 0), (0, 1))
    np.testing.assert_allclose(estimate, 1 / 5 * (1 * 4) / (1 + 4) ** 2 * np.array([1.0, -3.0]))


def test_huge_scores_leave_plackett_luce_finite():
    scores = np.array([800.0, -800.0])
    assert plackett_luce.p_list(scores, (0, 1)) == 1.0
    assert np.isfinite(plackett_luce.pdgd_gradient(scores, np.eye(2), (0, 1), (0, 1))).all()


def expected_push(lists, weight, grades, i, j, pairs_of, stop):
    """The expected weighted sum of [i beat j] - [j beat i], over every list and pattern."""
    push = 0.0
    for shown, p_shown in lists.items():
        if i not in shown or j not in shown:
            continue
        shown_grades = [grades[d] for d in shown]
        a, b = shown.index(i), shown.index(j)
        patterns = clicks.patterns(shown_grades, *clicks.THREE_GRADES["informational"], stop)
        for pattern, p in patterns.items():
            if tuple(sorted((a, b))) in pairs_of(pattern):
                push += p_shown * p * weight(shown, a, b) * (pattern[a] - pattern[b])
    return push


@pytest.mark.parametrize("stop", ["clicked", "examined"])
@pytest.mark.parametrize("pairs_of", [feedback.all_pairs, feedback.independent_pairs])
def test_equally_relevant_documents_are_not_pushed_apart(pairs_of, stop):
    grades, scores = [1, 1, 2, 0], np.array([0.9, 0.1, 0.5, -0.3])
    luce = plackett_luce.lists(scores, 3)
    certain = np.zeros((4, 4), dtype=bool)
    certain[1, 3] = True  # so that (0, 1, .) and (1, 0, .) have 1/6 and 1/9
    sort = order.lists(certain, 3)

    def by_luce(shown, a, b):
        return plackett_luce.pair_weight(scores, shown, a, b)

    def by_sort(shown, a, b):
        return order.swap_weight(certain, shown, a, b)

    def unweighted(shown, a, b):
        return 1.0

    for lists, weight in [(luce, by_luce), (sort, by_sort)]:
        push = expected_push(lists, weight, grades, 0, 1, pairs_of, stop)
        assert push == pytest.approx(0.0, abs=1e-14)
        biased = expected_push(lists, unweighted, grades, 0, 1, pairs_of, stop)
        assert abs(biased) > 1e-3
