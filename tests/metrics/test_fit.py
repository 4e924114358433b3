import numpy as np
import pytest

from olrank.errors import DataError
from olrank.metrics.fit import SHAPES, fits

ROUNDS = np.arange(100, 2100, 100)


@pytest.mark.parametrize("name", SHAPES)
def test_a_curve_of_a_shape_is_fitted_best_by_that_shape(name):
    best, *others = fits(ROUNDS, 7.0 + 3.0 * SHAPES[name](ROUNDS.astype(float)))
    assert best.shape == name
    assert best.intercept == pytest.approx(7.0)
    assert best.slope == pytest.approx(3.0)
    assert best.r_squared == pytest.approx(1.0)
    assert all(fit.r_squared < best.r_squared for fit in others)


def test_r_squared_is_the_share_of_variance_that_a_fit_explains():
    values = np.array([0.0, 1.0, 0.0, 1.0])
    linear = next(fit for fit in fits([1, 2, 3, 4], values) if fit.shape == "T")
    # By hand: slope 0.2, intercept 0, residual sum 0.8; the total is 4 * 0.25 = 1.
    assert linear.slope == pytest.approx(0.2)
    assert linear.r_squared == pytest.approx(1 - 0.8)
    assert linear.at([4]) == pytest.approx([0.8])


def test_three_points_are_too_few():
    with pytest.raises(DataError, match="four points"):
        fits([1, 2, 3], [1.0, 2.0, 3.0])
