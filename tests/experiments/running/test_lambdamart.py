"""The outside skyline: it learns from labels, and its NDCG counts as everything here does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from experiments.made_rows import tiny_dataset

from olrank.data.synthetic import synthetic_folds
from olrank.errors import ConfigError
from olrank.experiments.running import lambdamart


@pytest.fixture(scope="module")
def fold():
    return synthetic_folds("small", queries=(60, 20, 20), seed=0)


def test_it_stands_far_above_a_random_order(fold):
    pytest.importorskip("lightgbm")
    rows = lambdamart.lambdamart(fold, seeds=(0,))
    rng = np.random.default_rng(0)
    drawn = [lambdamart._ndcg(fold.test, rng.random(fold.test.n_rows), 10) for _ in "abc"]
    chance = np.nanmean(drawn)
    assert rows["value"].item() > chance + 0.15
    assert (rows["user"].item(), rows["round"].item()) == ("-", 0)


def test_ordering_by_grade_is_worth_one(fold):
    found = lambdamart._ndcg(fold.test, fold.test.grades.astype(float), 10)
    assert np.nanmin(found) == pytest.approx(1.0)


def test_a_query_without_a_relevant_document_follows_the_rule_and_the_others_do_not():
    # Scores put the relevant document of the second query second: 1 / log2(3).
    test = replace(tiny_dataset(), grades=np.array([0, 0, 1, 0], np.int32))
    scores = np.array([1.0, 2.0, 3.0, 4.0])
    for rule, empty in (("skip", np.nan), ("zero", 0.0), ("one", 1.0)):
        found = lambdamart._ndcg(test, scores, 10, rule)
        np.testing.assert_allclose(found, [empty, 1 / np.log2(3)], rtol=1e-6)


def test_the_mean_is_that_of_the_queries_for_every_seed(fold):
    pytest.importorskip("lightgbm")
    grades = fold.test.grades.copy()
    grades[: fold.test.offsets[1]] = 0
    fold = fold._replace(test=replace(fold.test, grades=grades))
    single = lambdamart.by_query(fold, seeds=(0, 7))
    assert single.shape == (2, 20)
    assert np.isnan(single[:, 0]).all()
    assert (single[0, 1:] != single[1, 1:]).any()  # seeds grow other trees
    rows = lambdamart.lambdamart(fold, seeds=(0, 7))
    np.testing.assert_allclose(rows["value"], np.nanmean(single, axis=1), rtol=1e-6)


def test_without_lightgbm_it_says_what_to_install(fold, monkeypatch):
    monkeypatch.setattr(lambdamart, "available", lambda: False)
    with pytest.raises(ConfigError, match="pip install lightgbm"):
        lambdamart.lambdamart(fold)
