"""Clicks: Sec. 5.1, by hand and by what must hold exactly."""

from __future__ import annotations

import numpy as np
import pytest

from oracle import clicks


def test_two_documents_clicked_by_hand():
    c, s = (0.3, 0.8), (0.1, 0.6)
    stop_after_click = clicks.patterns([1, 0], c, s, "clicked")
    assert stop_after_click == pytest.approx(
        {
            (0, 0): 0.2 * 0.7,
            (0, 1): 0.2 * 0.3,
            (1, 0): 0.8 * (0.6 + 0.4 * 0.7),
            (1, 1): 0.8 * 0.4 * 0.3,
        }
    )
    stop_anywhere = clicks.patterns([1, 0], c, s, "examined")
    assert stop_anywhere == pytest.approx(
        {
            (0, 0): 0.2 * (0.6 + 0.4 * 0.7),
            (0, 1): 0.2 * 0.4 * 0.3,
            (1, 0): 0.8 * (0.6 + 0.4 * 0.7),
            (1, 1): 0.8 * 0.4 * 0.3,
        }
    )


@pytest.mark.parametrize("stop", ["clicked", "examined"])
@pytest.mark.parametrize("name", clicks.FIVE_GRADES)
def test_click_patterns_are_a_distribution(name, stop):
    patterns = clicks.patterns([0, 4, 2, 1, 3], *clicks.FIVE_GRADES[name], stop)
    assert sum(patterns.values()) == pytest.approx(1.0)


def test_drawn_clicks_follow_the_enumeration(rng):
    p_click, p_stop = clicks.THREE_GRADES["navigational"]
    for stop in ("clicked", "examined"):
        patterns = clicks.patterns([0, 2, 1], p_click, p_stop, stop)
        look, n = clicks.user(rng, p_click, p_stop, stop), 4000
        drawn = [look([0, 2, 1]) for _ in range(n)]
        for pattern, p in patterns.items():  # 5 sigma, 16 patterns: below 1e-3 of seeds
            assert abs(drawn.count(pattern) - n * p) < 5 * (n * p * (1 - p)) ** 0.5


def test_the_well_specified_users_pairs_follow_the_model():
    h = [0.7, -0.4, 1.1]
    patterns = clicks.well_specified(h)
    only_first = sum(p for c, p in patterns.items() if c[0] == 1 and c[1] == 0)
    differ = sum(p for c, p in patterns.items() if c[0] != c[1])
    assert only_first / differ == pytest.approx(1 / (1 + np.exp(-(0.7 + 0.4))))
