"""The table: names, presets and settings, and what it says when they are wrong."""

from __future__ import annotations

import pytest

from olrank import rankers
from olrank.errors import ConfigError
from olrank.rankers import table

NAMES = [
    "olranknet", "ollambdarank", "pairrank", "epsilon-greedy", "dbgd-linear", "dbgd-neural",
    "pdgd-linear", "pdgd-neural", "skyline",
]  # fmt: skip


def test_the_paper_s_rankers_are_all_there():
    assert set(NAMES) <= set(table.names())
    assert rankers.names() == table.names()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("preset", ["paper", "released"])
def test_every_ranker_of_the_paper_has_both_presets_and_they_build(name, preset):
    made = table.make(name, {"preset": preset})
    assert made.settings["preset"] == preset
    for key, value in table.entry(name).presets[preset].items():
        assert key == "lambda" or made.settings[key] == value
    assert all(isinstance(value, float) for value in made.numbers)


@pytest.mark.parametrize("name", table.names())
def test_the_first_preset_is_taken_when_none_is_named(name):
    first = next(iter(table.entry(name).presets))
    assert table.make(name).settings == table.make(name, {"preset": first}).settings
    assert first == "paper" or name not in NAMES


def test_the_presets_say_what_the_paper_and_the_released_code_do():
    paper, released = table.make("olranknet"), table.make("olranknet", {"preset": "released"})
    choices = ("network", "order", "pairs", "update")
    assert [paper.settings[key] for key in choices] == [
        "paper", "topological", "independent", "continue",
    ]  # fmt: skip
    assert [released.settings[key] for key in choices] == ["plain", "blocks", "matched", "restart"]
    for name in ("pdgd-linear", "pdgd-neural", "dbgd-linear", "dbgd-neural"):
        assert table.make(name).numbers.decay == 0.999977
        assert table.make(name, {"preset": "released"}).numbers.decay == 0.9999977
    assert table.make("pdgd-neural").settings["width"] == 100
    assert table.make("pdgd-neural", {"preset": "released"}).settings["width"] == 64


def test_lambda_sets_the_pull_and_the_prior():
    numbers = table.make("olranknet", {"lambda": 7}).numbers
    assert (numbers.pull, numbers.prior) == (7.0, 7.0)
    assert "lambda" not in table.make("olranknet", {"lambda": 7}).settings
    assert table.make("skyline", {"lambda": 3.0}).numbers.pull == 3.0  # it has no prior


def test_what_is_given_wins_over_lambda_and_both_over_the_preset():
    numbers = table.make("olranknet", {"pull": 2.0, "lambda": 7.0}).numbers
    assert (numbers.pull, numbers.prior) == (2.0, 7.0)
    assert table.entry("pairrank").presets["paper"]["lambda"] == 0.1
    numbers = table.make("pairrank", {"prior": 5.0}).numbers
    assert (numbers.pull, numbers.prior) == (0.1, 5.0)
    released = table.make("olranknet", {"preset": "released", "learning_rate": 0.5})
    assert released.numbers.learning_rate == 0.5
    assert released.settings["network"] == "plain"


def test_unknown_names_are_refused_with_the_nearest_known_one():
    with pytest.raises(ConfigError, match='no ranker is called "pdgd-liner".*"pdgd-linear"'):
        table.make("pdgd-liner")
    with pytest.raises(ConfigError, match="no ranker is called"):
        table.entry("nobody")
    with pytest.raises(
        ConfigError, match='ranker olranknet: no preset is called "papr".*mean "paper"'
    ):
        table.make("olranknet", {"preset": "papr"})
    with pytest.raises(
        ConfigError, match='ranker olranknet: no setting is called "widht".*mean "width"'
    ):
        table.make("olranknet", {"widht": 3})
    with pytest.raises(ConfigError, match='"lamda".*Did you mean "lambda"'):
        table.make("olranknet", {"lamda": 3})
    with pytest.raises(ConfigError, match='no setting is called "lambda"'):
        table.make("dbgd-linear", {"lambda": 3})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("width", 8.0),
        ("width", True),
        ("width", None),
        ("width", 0),
        ("steps", -1),
        ("history_batch", "all"),
        ("history_batch", 0),
        ("epochs", 0),
        ("epochs", -2),
        ("epochs", 1.5),
        ("network", 3),
        ("only_uncertain", 1),
        ("alpha", "0.1"),
        ("alpha", True),
        ("alpha", None),
        ("alpha", float("nan")),
        ("alpha", float("inf")),
        ("lambda", "x"),
    ],
)
def test_a_value_of_another_kind_is_refused(key, value):
    with pytest.raises(ConfigError, match="ranker olranknet, .*: expected"):
        table.make("olranknet", {key: value})


def test_whole_numbers_are_numbers_and_none_is_the_whole_history():
    made = table.make("olranknet", {"alpha": 1, "history_batch": None, "epochs": 2})
    assert made.numbers.alpha == 1.0
    assert made.settings["history_batch"] is None
    released = table.make("olranknet", {"preset": "released", "epochs": None})
    assert released.settings["epochs"] is None


def test_the_same_design_is_the_same_ranker_whatever_the_numbers():
    one = table.make("olranknet", {"width": 8, "alpha": 0.1})
    assert table.make("olranknet", {"width": 8, "alpha": 0.2}).ranker is one.ranker
    assert table.make("olranknet", {"width": 10}).ranker is not one.ranker


def test_settings_that_are_handed_in_stay_as_they_are():
    given = {"preset": "released", "lambda": 0.5}
    table.make("olranknet", given)
    assert given == {"preset": "released", "lambda": 0.5}
    assert table.entry("pairrank").presets["paper"] == {"lambda": 0.1}


def test_flags_say_what_a_ranker_can_do():
    knows = {name for name in NAMES if table.entry(name).knows_certainty}
    assert knows == {"olranknet", "ollambdarank", "pairrank"}
    assert {name for name in NAMES if table.entry(name).sees_grades} == {"skyline"}
    own_lists = {name for name in NAMES if not table.entry(name).learns_from_others}
    assert own_lists == {"dbgd-linear", "dbgd-neural", "pdgd-linear", "pdgd-neural"}
