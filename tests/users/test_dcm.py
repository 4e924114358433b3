import pytest

from olrank.errors import ConfigError
from olrank.users.dcm import STOP_RULES, dcm


def test_the_two_stop_rules_differ_only_after_an_unclicked_document():
    p_click, p_stop = [0.25, 0.5], [0.125, 0.75]
    paper, released = dcm(p_click, p_stop, "clicked", 3), dcm(p_click, p_stop, "examined", 3)
    for shopper in (paper, released):
        assert shopper.p_click.tolist() == p_click
        assert shopper.p_stop_clicked.tolist() == p_stop
        assert shopper.p_examine.tolist() == [1, 1, 1]
        assert shopper.from_relevance == 0
    assert paper.p_stop_unclicked.tolist() == [0, 0]
    assert released.p_stop_unclicked.tolist() == p_stop


def test_an_unknown_stop_rule_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match='"examind".*clicked, examined.*mean "examined"'):
        dcm([0.0], [0.0], "examind", 10)
    assert STOP_RULES == ("clicked", "examined")


def test_chances_that_are_no_probabilities_or_do_not_match_are_refused():
    with pytest.raises(ConfigError, match="p_click"):
        dcm([0.0, 1.01], [0.0, 0.0], "clicked", 10)
    with pytest.raises(ConfigError, match="p_stop_clicked"):
        dcm([0.0, 1.0], [0.0], "clicked", 10)
    with pytest.raises(ConfigError, match="at least one slot"):
        dcm([0.0, 1.0], [0.0, 0.0], "clicked", 0)
