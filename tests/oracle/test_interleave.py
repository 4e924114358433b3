"""Interleaving, by hand and by what must hold exactly."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from oracle import interleave


def test_probabilistic_interleaving_by_hand():
    current, candidate = [1, 2], [2, 1]
    lists = interleave.lists(current, candidate, 2)
    assert lists == pytest.approx({(0, 1): 1 / 2, (1, 0): 1 / 2})
    p_current = 1 / (1 + 1 / 8)
    credit = interleave.credits(current, candidate, (0, 1))
    assert credit == pytest.approx([1 - p_current, 1 / 2])
    assert interleave.lead(credit, (1, 1)) == pytest.approx(2 * (1 - p_current) - 1)


def test_ranks_stay_those_of_the_whole_ranking_as_documents_are_placed():
    left = interleave.p_next([1, 2, 3], placed=[0])
    assert left == pytest.approx({1: (1 / 8) / (1 / 8 + 1 / 27), 2: (1 / 27) / (1 / 8 + 1 / 27)})


def test_credits_are_the_posterior_of_the_coins():
    current, candidate = [1, 2, 3], [3, 1, 2]
    for shown, p_shown in interleave.lists(current, candidate, 2).items():
        joint = np.zeros(2)
        for coins in product((0, 1), repeat=2):
            p = 1.0
            for slot, coin in enumerate(coins):
                ranks = candidate if coin else current
                p *= 0.5 * interleave.p_next(ranks, shown[:slot])[shown[slot]]
            joint += p * np.array(coins)
        expected = joint / p_shown
        assert interleave.credits(current, candidate, shown) == pytest.approx(expected.tolist())


def test_team_draft_by_hand():
    current, candidate = [1, 2, 3], [1, 3, 2]
    two = interleave.team_drafts(current, candidate, 2)
    assert two == {((0, 2), (0, 1)): 1 / 2, ((0, 1), (1, 0)): 1 / 2}
    three = interleave.team_drafts(current, candidate, 3)
    assert three == {
        ((0, 2, 1), (0, 1, 0)): 1 / 4,
        ((0, 2, 1), (0, 1, 1)): 1 / 4,
        ((0, 1, 2), (1, 0, 0)): 1 / 4,
        ((0, 1, 2), (1, 0, 1)): 1 / 4,
    }
