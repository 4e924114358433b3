import numpy as np
import pytest

from olrank.errors import ConfigError
from olrank.users.pbm import examination_curve, pbm


def test_the_curve_is_one_over_rank_to_the_power_eta():
    np.testing.assert_allclose(examination_curve(1.0, 4), [1, 1 / 2, 1 / 3, 1 / 4], rtol=1e-6)
    np.testing.assert_allclose(examination_curve(2.0, 3), [1, 1 / 4, 1 / 9], rtol=1e-6)
    assert examination_curve(0.0, 3).tolist() == [1, 1, 1]


def test_a_position_based_user_has_the_curve_it_was_given_and_never_stops():
    shopper = pbm([0.25, 0.75], [1.0, 0.5, 0.125])
    assert shopper.p_examine.tolist() == [1.0, 0.5, 0.125]
    assert shopper.p_click.tolist() == [0.25, 0.75]
    assert not shopper.p_stop_clicked.any()
    assert not shopper.p_stop_unclicked.any()


def test_a_curve_that_is_no_probability_is_refused():
    with pytest.raises(ConfigError, match="p_examine"):
        pbm([0.0, 1.0], [1.0, 1.5])
    with pytest.raises(ConfigError, match="eta"):
        examination_curve(-1.0, 3)
    with pytest.raises(ConfigError, match="at least one slot"):
        examination_curve(1.0, 0)
