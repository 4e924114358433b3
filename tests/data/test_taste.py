"""Another taste: the same documents and counts of grades, in an order that has no past."""

from dataclasses import replace

import numpy as np
import pytest

from olrank.data.normalise import normalise
from olrank.data.synthetic import synthetic
from olrank.data.taste import other_taste, with_other_taste

DATA = synthetic("small", queries=150, seed=0)


def queries_of(data):
    return [slice(*pair) for pair in zip(data.offsets[:-1], data.offsets[1:], strict=True)]


def correlation(data, other):
    """Mean over queries of the correlation between two grades of the same documents."""
    found = [
        np.corrcoef(data.grades[rows], other.grades[rows])[0, 1]
        for rows in queries_of(data)
        if np.ptp(data.grades[rows]) > 0
    ]
    return np.mean(found)


def test_each_query_keeps_its_counts_of_grades_and_everything_else_stays():
    before = DATA.grades.copy()
    other = with_other_taste(DATA, seed=3)
    for rows in queries_of(DATA):
        assert sorted(other.grades[rows]) == sorted(DATA.grades[rows])
        assert sorted(other.relevance[rows]) == sorted(DATA.relevance[rows])
    assert other.features is DATA.features
    assert (other.name, other.max_grade, other.n_queries) == ("small", 4, 150)
    assert other.grades.dtype == DATA.grades.dtype
    assert other.checksum != DATA.checksum  # nobody takes one for the other
    np.testing.assert_array_equal(DATA.grades, before)


def test_the_two_tastes_have_nearly_nothing_to_do_with_each_other():
    """Of independent orders of 150 queries of 15 documents, means spread by .02.

    Random directions share a little with the old taste, each its own way: about .05 here.
    """
    found = [correlation(DATA, with_other_taste(DATA, seed)) for seed in range(8)]
    assert np.abs(found).max() < 0.2
    assert abs(np.mean(found)) < 0.06
    # A second change is no way back, either.
    assert abs(correlation(with_other_taste(DATA, 0), with_other_taste(DATA, 1))) < 0.2


def test_grades_rise_with_the_taste_and_relevance_with_them():
    other, taste = with_other_taste(DATA, seed=5), other_taste(DATA.n_features, 5)
    wanted = taste.of(DATA.features)  # min-max within queries already
    for rows in queries_of(DATA):
        by_taste = np.argsort(wanted[rows])
        assert (np.diff(other.grades[rows][by_taste]) >= 0).all()
        assert (np.diff(other.relevance[rows][by_taste]) >= 0).all()


def test_the_taste_is_one_of_the_seed_and_shared_by_all_parts_of_a_fold():
    again, another = with_other_taste(DATA, 1), with_other_taste(DATA, 2)
    np.testing.assert_array_equal(again.grades, with_other_taste(DATA, 1).grades)
    assert (again.grades != another.grades).any()
    some = np.arange(40, 90)
    part = with_other_taste(DATA.select(some), 1)
    np.testing.assert_array_equal(part.grades, again.select(some).grades)


def test_the_scale_of_the_features_does_not_matter():
    stretched = replace(DATA, features=DATA.features * 2**10 + 2**7, normalise="none")
    expected = with_other_taste(normalise(stretched, "query"), 1)
    np.testing.assert_array_equal(with_other_taste(stretched, 1).grades, expected.grades)


def test_the_taste_is_neither_a_line_nor_without_one():
    """A linear fit explains a part of it: linear rankers can follow, but not all the way."""
    wanted = other_taste(DATA.n_features, 1).of(DATA.features)
    x = np.column_stack([DATA.features, np.ones(DATA.n_rows)])
    left = wanted - x @ np.linalg.lstsq(x, wanted, rcond=None)[0]
    assert 0.2 < 1 - left.var() / wanted.var() < 0.9


@pytest.mark.parametrize("width", [1, 2, 20])
def test_features_that_tell_nothing_leave_the_order_to_chance(width):
    constant = replace(DATA, features=np.ones((DATA.n_rows, width), np.float32), relevance=None)
    other = with_other_taste(constant, 4)
    for rows in queries_of(DATA):
        assert sorted(other.grades[rows]) == sorted(DATA.grades[rows])
    assert other.relevance is None
    # Means of independent orders spread by .02: a false alarm once in 1e6 seeds.
    assert abs(correlation(constant, other)) < 0.1


def test_empty_queries_and_empty_sets_stay_what_they_are():
    assert with_other_taste(DATA.select([]), 0).n_rows == 0
    gap = replace(DATA, offsets=np.insert(DATA.offsets, 3, DATA.offsets[3]))
    np.testing.assert_array_equal(with_other_taste(gap, 1).grades, with_other_taste(DATA, 1).grades)
