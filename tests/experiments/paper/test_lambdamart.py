"""The outside skyline: it learns from labels, and its NDCG counts as everything here does."""

from __future__ import annotations

import numpy as np
import pytest

from olrank.data.synthetic import synthetic_folds
from olrank.errors import ConfigError
from olrank.experiments.paper import lambdamart


@pytest.fixture(scope="module")
def fold():
    return synthetic_folds("small", queries=(60, 20, 20), seed=0)


def test_it_stands_far_above_a_random_order(fold):
    pytest.importorskip("lightgbm")
    rows = lambdamart.lambdamart(fold, seeds=(0,))
    rng = np.random.default_rng(0)
    chance = np.mean([lambdamart._ndcg(fold.test, rng.random(fold.test.n_rows), 10) for _ in "abc"])
    assert rows["value"].item() > chance + 0.15
    assert (rows["user"].item(), rows["round"].item()) == ("-", 0)


def test_ordering_by_grade_is_worth_one(fold):
    assert lambdamart._ndcg(fold.test, fold.test.grades.astype(float), 10) == pytest.approx(1.0)


def test_without_lightgbm_it_says_what_to_install(fold, monkeypatch):
    monkeypatch.setattr(lambdamart, "available", lambda: False)
    with pytest.raises(ConfigError, match="pip install lightgbm"):
        lambdamart.lambdamart(fold)
