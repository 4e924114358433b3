"""Linear discriminant analysis, where the answer is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from olrank.data.synthetic import synthetic
from olrank.experiments.paper.separation import separate
from olrank.types import Dataset


def recall(points: pl.DataFrame) -> float:
    """Mean over grades of the share that is put into its own grade."""
    own = (pl.col("predicted") == pl.col("grade")).mean().alias("own")
    return float(points.group_by("grade").agg(own)["own"].mean())


@pytest.fixture(scope="module")
def bent() -> Dataset:
    return synthetic("small", queries=100, noise=0.0, seed=2)


@pytest.fixture(scope="module")
def straight() -> Dataset:
    return synthetic("small", queries=100, noise=0.0, seed=2, relevance="linear")


def test_linear_relevance_is_separated_and_the_other_is_not(bent, straight):
    # Five grades: guessing is right for one in five.
    assert recall(separate(straight)) > 0.6
    assert recall(separate(bent)) < 0.4


def test_equally_many_of_each_grade_are_kept_as_far_as_there_are(straight):
    counts = separate(straight)["grade"].value_counts().sort("grade")["count"].to_list()
    there = np.bincount(straight.grades)
    assert counts == [min(250, n) for n in there]


def test_two_grades_have_one_direction(straight):
    binary = replace(straight, grades=(straight.grades > 1).astype(np.int32), max_grade=1)
    points = separate(binary)
    assert points["y"].to_list() == [0.0] * len(points)
    assert points["x"].std() > 0


def test_the_same_set_gives_the_same_points(bent):
    assert separate(bent).equals(separate(bent))
