from pathlib import Path

import pytest

from olrank.errors import ConfigError
from olrank.experiments.running.config import parse_config, read_config
from olrank.rankers import table

GOOD = """
name = "trial"
[data]
synthetic = "small"
[run]
users = ["perfect", "informational"]
rounds = 50
seeds = 3
[[ranker]]
name = "olranknet"
preset = "paper"
settings = { alpha = 0.1 }
[[ranker]]
name = "olranknet"
label = "wide"
"""


def complaint(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_config(text)
    return str(caught.value)


def test_a_config_reads_as_it_is_written():
    config = parse_config(GOOD)
    assert config.name == "trial"
    assert config.run.users == ["perfect", "informational"]
    assert config.run.rounds == 50
    assert [ranker.title for ranker in config.ranker] == ["olranknet", "wide"]
    assert config.ranker[0].all_settings() == {"preset": "paper", "alpha": 0.1}


def test_a_number_of_seeds_stands_for_as_many_seeds_from_zero():
    assert parse_config(GOOD).run.seed_list == [0, 1, 2]
    assert parse_config(GOOD.replace("seeds = 3", "seeds = [7, 9]")).run.seed_list == [7, 9]


def test_what_is_left_out_has_the_documented_default():
    run = parse_config('name = "a"\ndata.synthetic = "small"\nranker.name = "pairrank"').run
    assert (run.stop, run.k, run.gamma, run.empty) == (["clicked"], 10, 0.9995, "skip")


def test_single_queries_and_a_change_of_taste_are_asked_for_under_run():
    run = parse_config(GOOD).run
    assert (run.per_query, run.taste_changes_after) == (False, None)
    more = "rounds = 50\nper_query = true\ntaste_changes_after = 49"
    run = parse_config(GOOD.replace("rounds = 50", more)).run
    assert (run.per_query, run.taste_changes_after) == (True, 49)
    said = complaint(GOOD.replace("rounds = 50", more.replace("49", "50")))
    assert "taste_changes_after: must be less than the 50 rounds; found 50" in said


def test_the_embedded_default_runs_the_best_and_every_ranker_of_the_paper_on_built_in_data():
    config = read_config()
    assert config.data.synthetic is not None
    assert (config.ranker[0].name, config.ranker[0].preset) == ("olcascade", "best")
    assert {ranker.name for ranker in config.ranker} == {
        "olcascade",
        "olranknet",
        "ollambdarank",
        "pairrank",
        "epsilon-greedy",
        "dbgd-linear",
        "dbgd-neural",
        "pdgd-linear",
        "pdgd-neural",
        "skyline",
    }


def test_one_ranker_may_be_written_as_a_plain_table():
    config = parse_config('name = "a"\n[data]\nsynthetic = "small"\n[ranker]\nname = "pairrank"\n')
    assert [ranker.name for ranker in config.ranker] == ["pairrank"]


def test_a_misspelt_ranker_is_named_with_its_place_and_the_nearest_one():
    said = complaint('name = "a"\ndata.synthetic = "small"\n[ranker]\nname = "pdgd-liner"\n')
    assert said.startswith('config.toml, [ranker] name: no ranker is called "pdgd-liner". Known: ')
    assert all(name in said for name in table.names())
    assert said.endswith('Did you mean "pdgd-linear"?')


def test_the_second_ranker_of_several_is_found_by_its_number():
    said = complaint(GOOD.replace('name = "olranknet"\nlabel', 'name = "olranknett"\nlabel'))
    assert said.startswith('config.toml, [ranker 2] name: no ranker is called "olranknett".')


def test_a_misspelt_setting_of_a_ranker_is_found_before_anything_runs():
    said = complaint(GOOD.replace("alpha", "alhpa"))
    assert said.startswith("config.toml, [ranker 1]: ")
    assert 'no setting is called "alhpa"' in said
    assert said.endswith('Did you mean "alpha"?')


@pytest.mark.parametrize(
    ("written", "instead", "said"),
    [
        ("rounds = 50", "ronds = 50", '[run] ronds: no setting is called "ronds". Known: '),
        ("[run]", "[runn]", 'runn: no setting is called "runn". Known: '),
        ('label = "wide"', 'lable = "wide"', '[ranker 2] lable: no setting is called "lable".'),
        ('"informational"', '"informal"', '[run] users: no user is called "informal". Known: '),
        ('"small"', '"smal"', '[data] synthetic: no preset is called "smal". Known: '),
        ("rounds = 50", "rounds = 0", "[run] rounds: input should be greater than or equal to 1"),
        (
            "rounds = 50",
            'rounds = "50"',
            "[run] rounds: input should be a valid integer; found '50'",
        ),
        ("seeds = 3", "seeds = [1, 1]", "[run] seeds: the same value stands there twice: [1, 1]."),
        (
            "rounds = 50",
            'stop = ["never"]',
            "[run] stop 1: input should be 'clicked' or 'examined'",
        ),
        ('name = "trial"', 'name = "a/b"', "name: string should match pattern"),
        ('name = "trial"', "", "name: is missing."),
        (
            'synthetic = "small"',
            "",
            "[data]: give exactly one of synthetic, path, parts; found none",
        ),
        (
            'synthetic = "small"',
            'synthetic = "small"\npath = "MQ2008"',
            "[data]: give exactly one of synthetic, path, parts; found synthetic and path.",
        ),
        (
            'synthetic = "small"',
            'path = "MQ2008"\nqueries = [1, 2, 3]',
            '[data]: "queries" belongs to "synthetic", and the data is "path".',
        ),
        (
            'synthetic = "small"',
            'parts = { train = ["a"], tests = ["b"] }',
            '[data] parts tests: no setting is called "tests". Known: test, train, validation.',
        ),
        ("alpha = 0.1", "alpha = []", "[ranker 1] alpha: a list holds each of its values once"),
        ("alpha = 0.1", "alpha = [0.1, 0.1]", "[ranker 1] alpha: a list holds each of its values"),
        ("alpha = 0.1", "alpha = [[0.1]]", "[ranker 1]: ranker olranknet, alpha: expected a num"),
        ("rounds = 50", "replicas_at_once = 0", "[run] replicas_at_once: input should be greater"),
        ('label = "wide"', "", '[ranker]: two rankers are called "olranknet". Give each its own'),
        (
            'label = "wide"',
            'label = "wide"\nbase = "wide"',
            '[ranker]: base: no other ranker is called "wide". Known: olranknet.',
        ),
    ],
)
def test_a_mistake_is_told_with_its_place(written: str, instead: str, said: str):
    assert f"config.toml, {said}" in complaint(GOOD.replace(written, instead, 1))


def test_every_mistake_is_told_at_once():
    said = complaint(GOOD.replace("rounds = 50", "rounds = 0").replace("seeds = 3", "seeds = 0"))
    assert "[run] rounds" in said
    assert "[run] seeds" in said


def test_broken_toml_is_told_with_its_line():
    assert "config.toml: not valid TOML" in complaint('name = "a"\n[data\n')
    assert "line 2" in complaint('name = "a"\n[data\n')


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"absent\.toml: cannot be read"):
        read_config(tmp_path / "absent.toml")


def test_a_file_is_called_by_its_name_in_errors(tmp_path: Path):
    (tmp_path / "mine.toml").write_text("nmae = 1")
    with pytest.raises(ConfigError, match=r"^mine\.toml, nmae: no setting"):
        read_config(tmp_path / "mine.toml")
