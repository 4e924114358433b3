"""Rivals of an earlier contest stand for ours: the rows are those of running all of them."""

import json

import polars as pl
import pytest
from experiments.contest.made_contest import CONTEST, STAGES, finished, ground
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

from olrank.cli import app
from olrank.errors import ConfigError
from olrank.experiments.contest import arena
from olrank.experiments.contest.config import parse_contest, read_contest, rivals_folder
from olrank.experiments.contest.contest import run
from olrank.experiments.reports.verdicts import BEST, LEFT_OUT
from olrank.experiments.running import lambdamart

OTHERS = CONTEST.replace("learning_rate = [0.2, 0.3]", "learning_rate = [0.25, 0.35]")
ROWS = ("search", "rows", "curves", "queries", "robust")


def test_rows_are_those_of_running_everybody(arithmetic, tmp_path):
    first, whole, taken = (tmp_path / name for name in ("first", "whole", "taken"))
    finished(first)
    for _ in STAGES:
        run(ground(whole, OTHERS))
    arithmetic.clear()
    assert [run(ground(taken, OTHERS, rivals=first)) for _ in STAGES] == STAGES
    rates = {line.settings["learning_rate"] for task in arithmetic for line in task.lines}
    assert rates == {0.25, 0.35}
    for name in ROWS:
        both = [pl.read_parquet(folder / f"{name}.parquet") for folder in (taken, whole)]
        assert_frame_equal(*both, check_row_order=False)
        assert both[0]["ranker"].unique(maintain_order=True)[0] == "pdgd-linear"
    assert (taken / "table.md").read_text().split("\n", 1)[1] == (
        whole / "table.md"
    ).read_text().split("\n", 1)[1]
    for record in ("search", "run", "robust"):
        said = json.loads((taken / f"{record}.json").read_text())
        assert said["rivals"] == "first"
        assert len(said["rivals_sha256"]) == 64
        assert "rivals" not in json.loads((whole / f"{record}.json").read_text())


def test_the_final_preset_can_stay_away(arithmetic, tmp_path):
    finished(tmp_path / "first")
    text = OTHERS.replace("name = ", "final = false\nname = ", 1)
    with_it, without = tmp_path / "with", tmp_path / "without"
    for _ in STAGES:
        run(ground(with_it, OTHERS, rivals=tmp_path / "first"))
        run(ground(without, text, rivals=tmp_path / "first"))
    for name in ("rows", "curves", "queries", "robust"):
        both = [pl.read_parquet(folder / f"{name}.parquet") for folder in (with_it, without)]
        rest = both[0].filter(pl.col("ranker") != BEST)
        assert rest.height < both[0].height
        assert_frame_equal(rest, both[1], check_row_order=False)
    said = (without / "table.md").read_text()
    assert f"**{LEFT_OUT}**" in said
    assert f"**{BEST}**" not in said
    assert not ground(without, OTHERS).holds("evaluate")


def test_under_other_conditions_it_can_run_on_fewer_folds_than_rivals_and_says_so(
    arithmetic, tmp_path, monkeypatch
):
    folds_of = arena.folds_of

    def two_of_the_first(data):
        (fold,) = folds_of(data)
        return [fold, fold._replace(name="2")] if data.name == "one" else [fold]

    monkeypatch.setattr(arena, "folds_of", two_of_the_first)
    monkeypatch.setattr(lambdamart, "available", lambda: False)
    stages = [stage for stage in STAGES if stage != "outside"]
    taking_turns = "seeds = 4\none_fold_a_seed = true\ntaste_changes_after"
    first, ours = (
        text.replace("seeds = 2\ntaste_changes_after", taking_turns) for text in (CONTEST, OTHERS)
    )
    assert [run(ground(tmp_path / "first", first)) for _ in stages] == stages
    ours = ours.replace("name = ", "robust_folds = 1\nname = ", 1)
    for _ in stages:
        run(ground(tmp_path / "ours", ours, rivals=tmp_path / "first"))
    rows = pl.read_parquet(tmp_path / "ours" / "robust.parquet").filter(condition="taste")
    ran = {
        role: rows.filter(role=role, dataset="one").select("fold", "seed").unique().sort("fold")
        for role in ("baseline", "best")
    }
    assert sorted(ran["baseline"].rows()) == [("1", 0), ("1", 2), ("2", 1), ("2", 3)]
    assert sorted(ran["best"].rows()) == [("1", 0), ("1", 2)]
    told = (tmp_path / "ours" / "table.md").read_text()
    assert "Pairs of (fold, seed): 2 on one; 4 on the other sets." in told
    assert "Pairs of" not in (tmp_path / "first" / "table.md").read_text()
    assert not ground(tmp_path / "ours", OTHERS).holds("robust")


@pytest.mark.parametrize(
    ("stage", "old", "new", "message"),
    [
        (
            "search",
            "learning_rate = [0.1, 0.01]",
            "learning_rate = [0.1, 0.02]",
            "another baseline",
        ),
        ("search", "queries = [20, 8, 10]", "queries = [20, 9, 10]", "data, content of the data"),
        ("evaluate", "seeds = 3", "seeds = 4", "another evaluate"),
        ("robust", "taste_changes_after = 15", "taste_changes_after = 10", "another robust"),
    ],
)
def test_rivals_that_were_asked_something_else_are_refused(
    arithmetic, tmp_path, stage, old, new, message
):
    finished(tmp_path / "first")
    text = OTHERS.replace(old, new)
    for one in STAGES[: STAGES.index(stage)]:
        run(ground(tmp_path / "out", text, rivals=tmp_path / "first"), one)
    with pytest.raises(ConfigError, match=message):
        run(ground(tmp_path / "out", text, rivals=tmp_path / "first"), stage)


def test_a_folder_without_the_stage_is_refused(arithmetic, tmp_path):
    with pytest.raises(ConfigError, match="holds no finished search"):
        run(ground(tmp_path / "out", rivals=tmp_path / "nothing"))


def test_rivals_that_were_tuned_otherwise_are_refused(arithmetic, tmp_path):
    finished(tmp_path / "first")
    run(ground(tmp_path / "out", OTHERS, rivals=tmp_path / "first"), "search")
    run(ground(tmp_path / "out", OTHERS), "choose")
    file = tmp_path / "first" / "chosen.json"
    chosen = json.loads(file.read_text())
    chosen["tuned"][0]["settings"]["learning_rate"] = 0.01
    file.write_text(json.dumps(chosen))
    with pytest.raises(ConfigError, match="choice of rivals' settings"):
        run(ground(tmp_path / "out", OTHERS, rivals=tmp_path / "first"), "evaluate")


def test_a_config_names_the_contest_that_it_takes_rivals_from(tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    (tmp_path / "first" / "contest.toml").write_text(CONTEST)
    file = tmp_path / "second" / "contest.toml"
    candidate = CONTEST[CONTEST.index("[[candidate]]") : CONTEST.index("[[reference]]")]
    text = f'name = "second"\nrivals_of = "../first/contest.toml"\n{candidate}'
    file.write_text(text.replace("[0.2, 0.3]", "[0.25, 0.35]"))
    contest = read_contest(file)
    assert rivals_folder(contest, file) == tmp_path / "second" / ".." / "first"
    whole, later = (one.model_dump() for one in (parse_contest(OTHERS), contest))
    differing = {key for key in whole if whole[key] != later[key]}
    assert differing == {"name", "rivals_of"}
    assert rivals_folder(parse_contest(OTHERS), file) is None
    own = "final = false\nrobust_folds = 1\n[[candidate]]"
    file.write_text(text.replace("[[candidate]]", own, 1))
    assert (read_contest(file).final, read_contest(file).robust_folds) == (False, 1)
    file.write_text(text + "[evaluate]\nseeds = 4\n")
    with pytest.raises(ConfigError, match="evaluate: asked as in"):
        read_contest(file)


def test_the_command_takes_rivals_from_where_the_config_says(arithmetic, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    finished(first)
    (first / "contest.toml").write_text(CONTEST)
    second.mkdir()
    candidate = OTHERS[OTHERS.index("[[candidate]]") : OTHERS.index("[[reference]]")]
    text = f'name = "second"\nrivals_of = "../first/contest.toml"\n{candidate}'
    (second / "contest.toml").write_text(text)
    arithmetic.clear()
    told = CliRunner().invoke(app, ["contest", str(second / "contest.toml"), "--device", "cpu"])
    assert told.exit_code == 0, told.output
    rates = {line.settings["learning_rate"] for task in arithmetic for line in task.lines}
    assert rates == {0.25, 0.35}
    searched = pl.read_parquet(second / "search.parquet")
    assert set(searched["role"]) == {"baseline", "candidate"}
