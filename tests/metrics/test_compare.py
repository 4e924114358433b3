import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from olrank.errors import DataError
from olrank.metrics.compare import (
    Interval,
    holm,
    interval,
    paired,
    sign_flip_p_value,
    student_quantile,
)


def test_the_mean_lies_in_its_interval_and_the_same_seed_gives_the_same_interval():
    values = np.random.default_rng(0).normal(3, 1, 20)
    found = interval(values)
    assert found.mean == pytest.approx(values.mean())
    assert found.low < found.mean < found.high
    assert found.n == 20
    assert interval(values) == found
    assert interval(values, seed=1) != found


def test_a_higher_level_gives_a_wider_interval():
    values = np.random.default_rng(0).normal(size=30)
    narrow, wide = interval(values, level=0.5), interval(values, level=0.99)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_a_single_unit_has_a_mean_but_no_interval():
    found = interval([0.7])
    assert (found.mean, found.n) == (0.7, 1)
    assert math.isnan(found.low)
    assert math.isnan(found.high)


def test_equal_units_have_an_interval_without_width():
    assert interval([0.5, 0.5, 0.5]) == Interval(0.5, 0.5, 0.5, 3)


def test_many_units_are_resampled_in_parts_and_give_the_normal_interval():
    values = np.random.default_rng(2).normal(size=4000)
    found = interval(values, n_resamples=2000)
    half_width = 1.96 * values.std() / math.sqrt(4000)
    # A bootstrap quantile of 2,000 resamples has a standard error of about 3% of the half width.
    assert found.high - found.mean == pytest.approx(half_width, rel=0.15)
    assert found.mean - found.low == pytest.approx(half_width, rel=0.15)


def test_ten_symmetric_units_have_about_the_interval_of_student():
    # A plain percentile interval would be narrower by sqrt(9 / 10) * 1.96 / 2.262 = .82.
    values = stats.norm.ppf((np.arange(10) + 0.5) / 10)
    half_width = 2.262 * values.std(ddof=1) / math.sqrt(10)
    found = interval(values)
    assert found.high == pytest.approx(half_width, rel=0.08)
    assert found.low == pytest.approx(-half_width, rel=0.08)


@pytest.mark.parametrize(("n", "draw"), [(10, "normal"), (25, "normal"), (25, "exponential")])
def test_intervals_cover_the_true_mean_about_as_often_as_they_say(n, draw):
    # Fewer than 528 hits in 600 (88%) have chance 4e-5 where coverage is .925, the least we call
    # "about"; more than 594 (99%) have 2e-8 where it is .95. Fixed seed.
    rng = np.random.default_rng(7)
    true_mean = 1.0 if draw == "exponential" else 0.0
    n_hits = 0
    for seed in range(600):
        found = interval(getattr(rng, draw)(size=n), n_resamples=1000, seed=seed)
        n_hits += found.low <= true_mean <= found.high
    assert 528 <= n_hits <= 594


@settings(max_examples=50, deadline=None)
@given(df=st.integers(1, 300), p=st.floats(0.6, 0.9995))
def test_the_quantile_of_student_agrees_with_scipy(df, p):
    assert student_quantile(p, df) == pytest.approx(stats.t.ppf(p, df), rel=1e-8)


def test_a_paired_comparison_sees_through_differences_between_units():
    rng = np.random.default_rng(0)
    units = rng.normal(0, 10, 10)  # folds differ wildly; a is always a little better
    found = paired(units + 0.1 + rng.normal(0, 0.01, 10), units)
    assert 0.08 < found.low < found.difference < found.high < 0.12
    assert found.p_value == 2 / 2**10
    assert found.n == 10


def test_swapping_the_rankers_swaps_the_sign_and_keeps_the_p_value():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=8), rng.normal(size=8)
    one, other = paired(a, b), paired(b, a)
    assert one.difference == pytest.approx(-other.difference)
    assert one.p_value == other.p_value


def test_identical_rankers_have_p_value_one():
    found = paired([0.1, 0.2, 0.3], [0.1, 0.2, 0.3])
    assert (found.difference, found.low, found.high, found.p_value) == (0, 0, 0, 1)
    assert paired([1.0], [0.5]).p_value == 1  # one unit: +d and -d are equally far from 0


def test_the_exact_p_value_is_as_by_hand():
    # Sums of +-1 +-2 +-3: 6, 4, 2, 0, 0, -2, -4, -6. Observed 4: four of eight are as far.
    assert sign_flip_p_value([-1.0, 2.0, 3.0]) == 4 / 8
    assert sign_flip_p_value([1.0, 2.0, 3.0]) == 2 / 8


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-5, 5), min_size=1, max_size=8))
def test_the_exact_p_value_equals_enumeration_in_whole_numbers(differences):
    signs = itertools.product([-1, 1], repeat=len(differences))
    sums = [abs(sum(s * d for s, d in zip(row, differences, strict=True))) for row in signs]
    expected = sum(total >= abs(sum(differences)) for total in sums) / len(sums)
    # A tenth of a whole number is not exact in binary, but ties must still count.
    assert sign_flip_p_value(np.array(differences) * 0.1) == expected


def test_beyond_twelve_units_the_sampled_p_value_is_near_the_exact_one():
    differences = np.random.default_rng(4).normal(0.3, 1, 13)
    signs = 1 - 2 * (np.arange(2**13)[:, None] >> np.arange(13) & 1)
    exact = np.mean(np.abs(signs @ differences) >= abs(differences.sum()) - 1e-12)
    # Five standard errors of 10,000 draws: false alarm 6e-7; fixed seed.
    error = 5 * math.sqrt(exact * (1 - exact) / 10_000)
    assert sign_flip_p_value(differences) == pytest.approx(exact, abs=error + 1e-4)


def test_a_sampled_p_value_is_never_zero():
    assert sign_flip_p_value(np.ones(50), n_resamples=99) == 1 / 100


def test_holm_is_as_by_hand():
    # In order of size .01, .02, .04 by 3, 2, 1: .03, .04, .04.
    np.testing.assert_allclose(holm([0.04, 0.01, 0.02]), [0.04, 0.03, 0.04])
    # The second would fall below the first (.02 * 3 = .06 against .025 * 2): it is held up.
    np.testing.assert_allclose(holm([0.02, 0.025, 0.9]), [0.06, 0.06, 0.9])
    np.testing.assert_allclose(holm([0.6, 0.7]), [1.0, 1.0])


def test_bad_input_is_refused_with_what_is_wrong():
    with pytest.raises(DataError, match="a has 3 units and b has 2"):
        paired([1, 2, 3], [1, 2])
    with pytest.raises(DataError, match="b: unit 1 is nan"):
        paired([1, 2], [1, math.nan])
    with pytest.raises(DataError, match="values: unit 0 is inf"):
        interval([math.inf, 1])
    with pytest.raises(DataError, match="values: expected one number a unit"):
        interval([])
    with pytest.raises(DataError, match="values: expected one number a unit"):
        interval([[1.0, 2.0]])
    with pytest.raises(DataError, match="level"):
        interval([1, 2], level=95)
    with pytest.raises(DataError, match="n_resamples"):
        interval([1, 2], n_resamples=0)
    with pytest.raises(DataError, match="p_values"):
        holm([0.5, 1.5])
