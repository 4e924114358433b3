import pytest
from users.enumerate_clicks import action_patterns, click_patterns

from olrank.users.dcm import dcm
from olrank.users.pbm import pbm
from olrank.users.presets import names, user


@pytest.mark.parametrize("stop", ["clicked", "examined"])
@pytest.mark.parametrize("name", names())
def test_the_probabilities_of_all_patterns_sum_to_one(name, stop):
    found = action_patterns(user(name, 4, stop), [0, 3, 1, 4], [-1.0, 0.5, 2.0, 0.0])
    assert sum(found.values()) == pytest.approx(1, abs=1e-12)


def test_two_documents_under_the_stop_rule_clicked_are_as_by_hand():
    shopper = dcm([0.25, 0.5], [0.5, 0.75], "clicked", 2)
    # Slot 0 has grade 1, slot 1 grade 0. Only a click at the top can hide slot 1.
    expected = {
        (0, 0): 0.5 * 0.75,
        (0, 1): 0.5 * 0.25,
        (1, 0): 0.5 * 0.75 + 0.5 * 0.25 * 0.75,
        (1, 1): 0.5 * 0.25 * 0.25,
    }
    assert click_patterns(shopper, [1, 0]) == pytest.approx(expected)


def test_two_documents_under_the_stop_rule_examined_are_as_by_hand():
    shopper = dcm([0.25, 0.5], [0.5, 0.75], "examined", 2)
    # The top hides slot 1 with .75, clicked or not.
    expected = {
        (0, 0): 0.5 * 0.75 + 0.5 * 0.25 * 0.75,
        (0, 1): 0.5 * 0.25 * 0.25,
        (1, 0): 0.5 * 0.75 + 0.5 * 0.25 * 0.75,
        (1, 1): 0.5 * 0.25 * 0.25,
    }
    assert click_patterns(shopper, [1, 0]) == pytest.approx(expected)


def test_a_position_based_user_clicks_slots_independently():
    shopper = pbm([0.25, 0.5], [1.0, 0.5])
    p_top, p_second = 0.5 * 1.0, 0.25 * 0.5
    expected = {
        (0, 0): (1 - p_top) * (1 - p_second),
        (0, 1): (1 - p_top) * p_second,
        (1, 0): p_top * (1 - p_second),
        (1, 1): p_top * p_second,
    }
    assert click_patterns(shopper, [1, 0]) == pytest.approx(expected)
