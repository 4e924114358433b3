"""Feedback: Sec. 3.1 and 3.2, by hand and by what must hold exactly."""

from __future__ import annotations

import numpy as np
import pytest

from oracle import feedback


@pytest.mark.parametrize(
    ("pattern", "o"), [((0, 0, 0), 0), ((1, 0, 0), 2), ((0, 1, 0, 0), 3), ((0, 0, 1), 3)]
)
def test_examination_ends_one_below_the_last_click(pattern, o):
    assert feedback.last_examined(pattern) == o


def test_an_odd_last_position_is_in_no_disjoint_pair():
    assert feedback.disjoint_positions(5) == [(0, 1), (2, 3)]
    assert feedback.disjoint_positions(4) == [(0, 1), (2, 3)]
    assert feedback.disjoint_positions(1) == feedback.disjoint_positions(0) == []
    assert feedback.independent_pairs((0, 0, 1)) == []  # o_t = 3: the click has no partner


def test_pairs_by_hand():
    pattern = (0, 1, 0, 1, 0, 0)  # o_t = 5
    assert feedback.all_pairs(pattern) == [(0, 1), (0, 3), (1, 2), (1, 4), (2, 3), (3, 4)]
    assert feedback.independent_pairs(pattern) == [(0, 1), (2, 3)]  # rank 5 is dropped
    assert [feedback.y(pattern, i, j) for i, j in [(0, 1), (1, 2), (0, 2)]] == [0.0, 1.0, 0.5]
    assert feedback.all_pairs((0, 0)) == feedback.independent_pairs((0, 0)) == []


def test_matched_pairs_by_hand():
    one_click = feedback.matched_pairs((0, 1, 0, 0))  # examined: 0, 1, 2
    assert one_click == pytest.approx({((1, 0),): 1 / 2, ((1, 2),): 1 / 2})
    two_clicks = feedback.matched_pairs((1, 0, 1, 0))
    both = {((0, 1), (2, 3)): 1 / 2, ((0, 3), (2, 1)): 1 / 2}
    assert two_clicks == pytest.approx(both)
    assert feedback.matched_pairs((0, 0)) == {(): 1.0}
    assert feedback.matched_pairs((1, 1)) == {(): 1.0}


def test_pairs_left_to_chance_by_hand():
    chain = np.zeros((3, 3), dtype=bool)
    chain[0, 1] = chain[1, 2] = True
    pairs = [(0, 1), (0, 2)]
    assert feedback.uncertain_pairs(pairs, (0, 1, 2), chain) == [(0, 2)]
    assert feedback.left_to_chance(pairs, (0, 1, 2), chain) == []
