"""Effects of choices, on rows whose differences are written out."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from olrank.errors import ConfigError
from olrank.experiments.reports import effects
from olrank.experiments.rows import files
from olrank.metrics.compare import holm

USERS, STOPS, SEEDS = ("perfect", "informational"), ("clicked", "examined"), range(6)
SHIFTS = {"base": 0.0, "pairs": 0.02, "order": -0.10}
VARIANTS = {"base": ["pairs", "order"]}


def value(label: str, user: str, stop: str, seed: int) -> float:
    harm = 2 * SHIFTS[label] if user == "informational" else SHIFTS[label]
    return 0.5 + 0.01 * seed + harm - (0.05 if stop == "examined" else 0.0)


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    lines = [
        (label, "", "made", "1", user, stop, seed, at, "ndcg@10", value(label, user, stop, seed))
        for label in SHIFTS
        for user in USERS
        for stop in STOPS
        for seed in SEEDS
        for at in (1, 10)
    ]
    keys = ["ranker", "settings", "dataset", "fold", "user", "stop", "seed", "round", "metric"]
    return pl.DataFrame(lines, [*keys, "value"], orient="row")


def test_users_and_stop_rules_are_averaged_before_seeds_are_paired(rows):
    found = effects.effects(rows, VARIANTS).filter(user="all", choice="order").row(0, named=True)
    assert found["n"] == len(SEEDS)
    assert found["difference"] == pytest.approx((-0.10 - 0.20) / 2)


def test_each_user_has_its_own_effect(rows):
    found = effects.effects(rows, VARIANTS).filter(choice="pairs", user="informational")
    assert found["difference"].item() == pytest.approx(0.04)


def test_the_stop_rule_is_a_choice_of_the_base(rows):
    found = effects.effects(rows, VARIANTS).filter(choice="stop rule: examined", user="all")
    assert found["difference"].item() == pytest.approx(-0.05)


def test_p_values_are_corrected_over_the_choices(rows):
    found = effects.effects(rows, VARIANTS).filter(user="all")
    exact = 2 / 2**6  # all six signs agree
    assert found["p"].to_list() == pytest.approx(holm([exact] * 3).tolist())


def test_the_largest_effect_stands_first(rows):
    page = effects.markdown(effects.effects(rows, VARIANTS)).splitlines()
    body = [line for line in page if line.startswith("| ") and "choice" not in line]
    assert [line.split(" | ")[0] for line in body] == [
        "| order",
        "| stop rule: examined",
        "| pairs",
    ]


def test_each_base_has_its_own_variants_and_is_corrected_for_those_alone(rows):
    found = effects.effects(rows, {"base": ["pairs"], "order": ["base", "pairs"]})
    pairs = found.filter(user="all", choice="pairs")
    assert pairs["base"].to_list() == ["base", "order"]
    assert pairs["difference"].to_list() == pytest.approx([0.03, 0.03 + 0.15])
    exact = 2 / 2**6
    assert pairs["p"].to_list() == pytest.approx([2 * exact, 3 * exact])  # the stop rule is one too
    assert "### ndcg@10, against order" in effects.markdown(found)


@pytest.mark.parametrize("variants", [{"bass": ["pairs"]}, {"base": ["bass"]}])
def test_an_unknown_label_is_told(rows, variants):
    with pytest.raises(ConfigError, match='"bass"'):
        effects.effects(rows, variants)


def test_run_json_says_what_is_a_variant_of_what(tmp_path: Path):
    assert effects.variants_in(tmp_path) == {}
    rankers = [
        {"name": "olranknet", "label": "paper"},
        {"name": "olranknet", "label": "order", "base": "paper"},
        {"name": "pdgd-linear", "label": "", "base": "paper"},
        {"name": "olcascade", "label": "best", "base": "order"},
    ]
    files.write_json({"config": {"ranker": rankers}}, tmp_path / "run.json")
    assert effects.variants_in(tmp_path) == {"paper": ["order", "pdgd-linear"], "order": ["best"]}
