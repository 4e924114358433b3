import numpy as np
import pytest

from olrank.errors import ConfigError
from olrank.users.presets import names, user
from olrank.users.user import validate

# (name, max_grade): chances to click, chances to stop, as published.
TABLES = {
    ("perfect", 4): ([0, 0.2, 0.4, 0.8, 1], [0, 0, 0, 0, 0]),
    ("navigational", 4): ([0.05, 0.3, 0.5, 0.7, 0.95], [0.2, 0.3, 0.5, 0.7, 0.9]),
    ("informational", 4): ([0.4, 0.6, 0.7, 0.8, 0.9], [0.1, 0.2, 0.3, 0.4, 0.5]),
    ("perfect", 2): ([0, 0.5, 1], [0, 0, 0]),
    ("navigational", 2): ([0.05, 0.5, 0.95], [0.2, 0.5, 0.9]),
    ("informational", 2): ([0.4, 0.7, 0.9], [0.1, 0.3, 0.5]),
    ("perfect", 1): ([0, 1], [0, 0]),
    ("navigational", 1): ([0.05, 0.95], [0.2, 0.9]),
    ("informational", 1): ([0.4, 0.9], [0.1, 0.5]),
    # Ours: clicks that say little.
    ("near-random", 4): ([0.4, 0.45, 0.5, 0.55, 0.6], [0.1] * 5),
    ("near-random", 2): ([0.4, 0.5, 0.6], [0.1] * 3),
    ("near-random", 1): ([0.4, 0.6], [0.1] * 2),
}


@pytest.mark.parametrize(("name", "max_grade"), TABLES)
def test_the_presets_are_the_tables(name, max_grade):
    p_click, p_stop = TABLES[name, max_grade]
    paper, released = user(name, max_grade), user(name, max_grade, stop="examined")
    np.testing.assert_allclose(paper.p_click, p_click, rtol=1e-6)
    np.testing.assert_allclose(paper.p_stop_clicked, p_stop, rtol=1e-6)
    assert not paper.p_stop_unclicked.any()
    np.testing.assert_allclose(released.p_stop_unclicked, p_stop, rtol=1e-6)
    assert paper.p_examine.tolist() == [1] * 10


def test_the_names_are_all_there():
    assert names() == (
        "informational",
        "informational-flipped",
        "navigational",
        "navigational-flipped",
        "near-random",
        "perfect",
        "perfect-flipped",
        "position-based",
        "random",
        "well-specified",
    )


@pytest.mark.parametrize("max_grade", [1, 2, 4])
@pytest.mark.parametrize("name", names())
def test_every_user_is_valid_and_has_the_shape_that_stacks(name, max_grade):
    shopper = validate(user(name, max_grade, k=7))
    shapes = [leaf.shape for leaf in shopper]
    assert shapes == [(max_grade + 1,), (max_grade + 1,), (max_grade + 1,), (7,), ()]


@pytest.mark.parametrize("max_grade", [1, 2, 4])
@pytest.mark.parametrize("name", ["perfect", "navigational", "informational"])
def test_a_flipped_user_turns_one_click_decision_in_ten_round_and_stops_as_before(name, max_grade):
    p_click, p_stop = TABLES[name, max_grade]
    flipped = user(f"{name}-flipped", max_grade, stop="examined")
    expected = [p * 0.9 + (1 - p) * 0.1 for p in p_click]
    np.testing.assert_allclose(flipped.p_click, expected, rtol=1e-6)
    np.testing.assert_allclose(flipped.p_stop_clicked, p_stop, rtol=1e-6)
    np.testing.assert_allclose(flipped.p_stop_unclicked, p_stop, rtol=1e-6)
    assert not user(f"{name}-flipped", max_grade).p_stop_unclicked.any()


def test_the_random_user_does_not_care_about_grades_and_never_stops():
    shopper = user("random", 3, stop="examined")
    assert len(set(shopper.p_click.tolist())) == 1
    assert 0 < shopper.p_click[0] < 1
    assert not shopper.p_stop_clicked.any()
    assert not shopper.p_stop_unclicked.any()


def test_the_position_based_user_clicks_like_perfect_and_examines_one_over_rank():
    shopper = user("position-based", 2, k=3)
    assert shopper.p_click.tolist() == [0, 0.5, 1]
    np.testing.assert_allclose(shopper.p_examine, [1, 1 / 2, 1 / 3], rtol=1e-6)


def test_the_well_specified_user_examines_everything_and_never_stops():
    shopper = user("well-specified", 7, k=3)
    assert shopper.from_relevance == 1
    assert shopper.p_examine.tolist() == [1, 1, 1]
    assert not shopper.p_stop_clicked.any()


def test_unknown_names_rules_and_scales_are_refused_with_what_is_known():
    with pytest.raises(ConfigError, match='"navigationl".*Did you mean "navigational"'):
        user("navigationl", 4)
    with pytest.raises(ConfigError, match='no stop rule is called "never"'):
        user("random", 4, stop="never")
    with pytest.raises(ConfigError, match="grades 0 to 3.*1, 2, 4"):
        user("perfect", 3)
    with pytest.raises(ConfigError, match="max_grade"):
        user("random", -1)
