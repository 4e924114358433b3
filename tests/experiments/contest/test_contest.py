"""From stage to stage, with a measure that is arithmetic and once with the engine."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from experiments.contest.made_contest import CONTEST, STAGES, finished, ground, small_files
from typer.testing import CliRunner

from olrank.cli import app
from olrank.engine import bare
from olrank.errors import ConfigError, DataError, WaitingError
from olrank.experiments.contest import arena, entrants, stages, tasks
from olrank.experiments.contest.config import parse_contest
from olrank.experiments.contest.contest import next_stage, run
from olrank.experiments.reports.pages import fill
from olrank.experiments.reports.verdicts import BEST, LEFT_OUT


def test_the_stages_follow_each_other_and_leave_what_they_say(arithmetic, tmp_path):
    said: list[str] = []
    for stage in STAGES:
        assert run(ground(tmp_path), say=said.append) == stage
    assert {path.name for path in tmp_path.iterdir()} == {
        "search.parquet", "search.json", "chosen.json", "chosen.md", "rows.parquet",
        "curves.parquet", "queries.parquet", "run.json", "robust.parquet", "robust.json",
        "outside.parquet", "outside.json", "table.md", "figures",
    }  # fmt: skip
    assert "search: done. Next: choose." in said
    chosen = json.loads((tmp_path / "chosen.json").read_text())
    # Higher rates are better in the arithmetic, for whoever has them.
    assert chosen["final"]["settings"] == {"learning_rate": 0.3}
    assert {one["settings"]["learning_rate"] for one in chosen["tuned"]} == {0.1}
    rows = pl.read_parquet(tmp_path / "rows.parquet")
    assert rows["ranker"].unique(maintain_order=True).to_list() == [
        "pdgd-linear", "beside", LEFT_OUT, BEST
    ]  # fmt: skip
    assert rows["round"].unique().to_list() == [30]
    robust = pl.read_parquet(tmp_path / "robust.parquet")
    assert robust["condition"].unique(maintain_order=True).to_list() == ["taste", "flips"]
    assert set(robust["role"]) == {"baseline", "best"}


def test_a_rival_that_stays_away_from_a_set_is_named_in_the_report(arithmetic, tmp_path):
    away = '[[baseline]]\nname = "pdgd-neural"\nlabel = "away"\nnot_on = ["two"]\n'
    away += "settings = { learning_rate = [0.03, 0.02] }\n"
    text = CONTEST.replace("[[candidate]]", f"{away}[[candidate]]")
    for _ in STAGES:
        run(ground(tmp_path, text))
    for name in ("rows", "robust"):
        rows = pl.read_parquet(tmp_path / f"{name}.parquet")
        assert set(rows.filter(ranker="away")["dataset"]) == {"one"}
    assert "Did not run: away on two." in (tmp_path / "table.md").read_text()


def test_only_what_a_stage_runs_makes_it_run_again(arithmetic, tmp_path):
    finished(tmp_path)
    slower = CONTEST.replace("learning_rate = 0.05", "learning_rate = 0.04")
    assert next_stage(ground(tmp_path, slower)) == "evaluate"
    assert ground(tmp_path, slower).is_done("robust")
    assert ground(tmp_path, slower).is_done("outside")
    two = CONTEST.replace("learning_rate = 0.05", "learning_rate = [0.05, 0.04]")
    assert next_stage(ground(tmp_path, two)) == "search"


def test_a_search_never_holds_the_test_part_and_an_evaluation_never_the_validation_part(
    arithmetic, tmp_path
):
    contest = parse_contest(CONTEST)
    folds = [fold for data in contest.data for fold in arena.folds_of(data)]
    tests = {fold.test.checksum for fold in folds}
    validations = {fold.validation.checksum for fold in folds}
    run(ground(tmp_path), "search")
    searched = {
        part.checksum for task in arithmetic for part in (task.data, *task.held_out.values())
    }
    assert not searched & tests
    assert searched >= validations
    run(ground(tmp_path), "choose")
    arithmetic.clear()
    run(ground(tmp_path), "evaluate")
    used = {part.checksum for task in arithmetic for part in (task.data, *task.held_out.values())}
    assert used >= tests
    assert not used & validations


def test_tasks_of_a_search_in_files_hold_no_test_part(tmp_path):
    with pytest.raises(WaitingError):
        run(ground(tmp_path / "out", elsewhere=tmp_path / "tasks"), "search")
    contest = parse_contest(CONTEST)
    held = {
        json.loads(str(np.load(file, allow_pickle=False)["about"]))["checksum"]
        for file in (tmp_path / "tasks").glob("*.npz")
    }
    folds = [fold for data in contest.data for fold in arena.folds_of(data)]
    assert held == {part.checksum for fold in folds for part in (fold.train, fold.validation)}


def test_a_set_without_a_validation_part_gives_a_fifth_of_its_train_queries_to_the_search(
    monkeypatch,
):
    whole = arena.folds_of(parse_contest(CONTEST).data[0])[0]
    without = whole._replace(validation=whole.train.select([]))
    monkeypatch.setattr(arena, "folds_of", lambda data: [without])
    contest = parse_contest(CONTEST)
    searched, evaluated = arena.search_arenas(contest)[0], arena.evaluate_arenas(contest)[0]
    assert (searched.train.n_queries, searched.judged.n_queries) == (16, 4)
    assert evaluated.train.n_queries == 20


def test_the_test_parts_stay_closed_until_settings_are_chosen(arithmetic, tmp_path):
    run(ground(tmp_path), "search")
    for stage in ("evaluate", "robust", "outside"):
        with pytest.raises(ConfigError, match="stay closed until settings are chosen"):
            run(ground(tmp_path), stage)


def test_another_choice_is_refused_once_the_test_parts_were_opened(arithmetic, tmp_path):
    finished(tmp_path)
    changed = CONTEST.replace("[0.2, 0.3]", "[0.2, 0.4]")
    assert next_stage(ground(tmp_path, changed)) == "search"
    run(ground(tmp_path, changed), "search")
    before = (tmp_path / "chosen.json").read_bytes()
    with pytest.raises(ConfigError, match=r"opened \(run.json\) with another choice"):
        run(ground(tmp_path, changed), "choose")
    assert (tmp_path / "chosen.json").read_bytes() == before
    with pytest.raises(ConfigError, match="chosen from another search"):
        run(ground(tmp_path, changed), "evaluate")


def test_a_report_of_a_changed_choice_is_refused(arithmetic, tmp_path):
    finished(tmp_path)
    file = tmp_path / "chosen.json"
    file.write_text(file.read_text().replace("0.3", "0.30"))
    with pytest.raises(DataError, match="has changed since the test parts were opened"):
        run(ground(tmp_path), "report")


def test_choosing_again_gives_the_same_bytes(arithmetic, tmp_path):
    finished(tmp_path)
    before = (tmp_path / "chosen.json").read_bytes()
    run(ground(tmp_path), "choose")
    assert (tmp_path / "chosen.json").read_bytes() == before


def test_a_stopped_stage_goes_on_with_what_is_missing(arithmetic, tmp_path, monkeypatch):
    measure = tasks.measure

    def stops(*asked):
        if len(arithmetic) == 1:
            raise KeyboardInterrupt
        return measure(*asked)

    monkeypatch.setattr(tasks, "measure", stops)
    with pytest.raises(KeyboardInterrupt):
        run(ground(tmp_path), "search")
    monkeypatch.setattr(tasks, "measure", measure)
    run(ground(tmp_path), "search")
    assert len(arithmetic) == 2 * 2  # data sets; the candidate, and all others


def test_more_candidates_are_searched_without_repeating_what_was(arithmetic, tmp_path):
    run(ground(tmp_path), "search")
    arithmetic.clear()
    more = '[[candidate]]\nname = "pdgd-linear"\nlabel = "more"\n'
    more += "settings = { learning_rate = 0.4 }\n"
    run(ground(tmp_path, CONTEST + more), "search")
    assert [task.lines[0].settings for task in arithmetic] == [{"learning_rate": 0.4}] * 2


def test_other_conditions_may_be_held_to_the_first_folds_of_each_set():
    contest = parse_contest(CONTEST)
    arenas = arena.evaluate_arenas(contest)
    several = [one._replace(fold=fold) for one in arenas for fold in "123"]
    assert [(one.dataset, one.fold) for one in arena.first_folds(several, 2)] == [
        ("one", "1"), ("one", "2"), ("two", "1"), ("two", "2")
    ]  # fmt: skip
    assert arena.first_folds(several, None) == several


def test_seeds_may_take_turns_among_the_folds_of_a_set():
    one, two = arena.evaluate_arenas(parse_contest(CONTEST))
    arenas = [one, one._replace(fold="2"), two]
    every = arena.with_seeds(arenas, (7, 8, 9), one_fold_a_seed=False)
    assert [seeds for _, seeds in every] == [(7, 8, 9)] * 3
    turns = arena.with_seeds(arenas, (7, 8, 9), one_fold_a_seed=True)
    assert [(where.dataset, where.fold, seeds) for where, seeds in turns] == [
        ("one", "1", (7, 9)), ("one", "2", (8,)), ("two", "1", (7, 8, 9))
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="one has 2 folds, and there are only 1 seeds"):
        arena.with_seeds(arenas, (7,), one_fold_a_seed=True)


def test_an_evaluation_gives_each_fold_the_seeds_whose_turn_it_is(
    arithmetic, tmp_path, monkeypatch
):
    def two_folds(contest):
        first, *others = arena.evaluate_arenas(contest)
        return [first, first._replace(fold="2"), *others]

    monkeypatch.setattr(stages, "evaluate_arenas", two_folds)
    text = CONTEST.replace("[evaluate]", "[evaluate]\none_fold_a_seed = true")
    assert text != CONTEST
    for _ in STAGES[:2]:
        run(ground(tmp_path, text))
    arithmetic.clear()
    run(ground(tmp_path, text))
    ran = {(task.data.name, task.options.fold, task.options.seeds) for task in arithmetic}
    assert ran == {("one", "1", (0, 2)), ("one", "2", (1,)), ("two", "1", (0, 1, 2))}


def test_the_command_says_what_it_did_and_what_comes_next(arithmetic, tmp_path):
    config = tmp_path / "contest.toml"
    config.write_text(CONTEST)
    said = []
    for _ in range(2):
        done = CliRunner().invoke(app, ["contest", str(config), "--device", "cpu"])
        assert done.exit_code == 0, done.output
        said.append(done.output)
    assert "search: done. Next: choose." in said[0]
    assert "choose: done. Next: evaluate." in said[1]
    assert (tmp_path / "chosen.md").is_file()  # in the config's own folder
    wrong = CliRunner().invoke(app, ["contest", str(config), "--stage", "win"])
    assert wrong.exit_code == 2


@pytest.mark.parametrize(
    ("user", "like"),
    [
        ("informational", "informational"),
        ("informational-flipped", "informational"),
        ("position-based", "perfect"),
        ("near-random", "informational"),
        ("navigational-flipped", "informational"),  # navigational was not searched: the last
    ],
)
def test_a_condition_takes_the_settings_of_the_nearest_cell(user, like):
    assert entrants.nearest(parse_contest(CONTEST), user, "examined") == (like, "clicked")


def test_a_page_holds_the_verdict_of_the_rows_and_lists_what_fails(arithmetic, tmp_path):
    finished(tmp_path)
    filled = fill("{{contest verdict}}\n{{contest chosen}}", tmp_path)
    # Ours is ahead by .2 in every run, and by 10 * 30 * .2 online.
    assert f"**{LEFT_OUT}**: 4 of 4 cells pass" in filled
    assert "online it is ahead in 4, behind in 0 of 4; offline it is ahead in 4" in filled
    assert f"No cell of {LEFT_OUT} fails." in filled
    assert "`learning_rate` = `0.3`" in filled
    table = (tmp_path / "table.md").read_text()
    assert "+60.0 (+60.0 to +60.0)" in table
    assert "+0.200 (+0.200 to +0.200)" in table


def test_other_conditions_can_be_reported_before_the_evaluation(arithmetic, tmp_path):
    for stage in ("search", "choose", "robust", "report"):
        run(ground(tmp_path), stage)
    table = (tmp_path / "table.md").read_text()
    assert not (tmp_path / "rows.parquet").exists()
    assert table.count("\n## ") == 1
    assert "## Other conditions" in table
    # The arithmetic is as much ahead under every condition, online and offline.
    assert "| taste | 2 of 2 | 2 of 2 |" in table
    assert fill("{{contest robust}}", tmp_path) in table
    with pytest.raises(DataError, match=r"rows\.parquet: not there"):
        fill("{{contest verdict}}", tmp_path)
    file = tmp_path / "chosen.json"
    file.write_text(file.read_text().replace("0.3", "0.30"))
    with pytest.raises(DataError, match="has changed since the test parts were opened"):
        fill("{{contest robust}}", tmp_path)


def test_stages_run_on_a_bare_machine_and_queries_average_to_the_rows(tmp_path):
    """The engine itself, once."""
    text, jobs, there = small_files(tmp_path), tmp_path / "jobs", tmp_path / "there"
    for stage in ("search", "evaluate"):
        with pytest.raises(WaitingError, match="python -m olrank.engine.bare"):
            run(ground(there, text, elsewhere=jobs), stage)
        _run_bare(jobs)
        run(ground(there, text, elsewhere=jobs), stage)
        if stage == "search":
            run(ground(there, text), "choose")
    queries, rows = (pl.read_parquet(there / f"{x}.parquet") for x in ("queries", "rows"))
    key = ["ranker", "dataset", "fold", "user", "stop"]
    means = queries.group_by(key).agg(pl.col("value").mean().alias("by_query"))
    runs = rows.filter(metric="ndcg@10").group_by(key).agg(pl.col("value").mean())
    both = means.join(runs, on=key)
    assert len(both) == 2 * 2 * 4  # data sets, users, rankers
    assert both["by_query"].to_numpy() == pytest.approx(both["value"].to_numpy(), abs=1e-6)
    assert queries["query"].unique().sort().to_list() == [1, 2, 3, 4, 5]  # 0 has nothing relevant
    record = json.loads((there / "run.json").read_text())
    assert record["parts"][0]["machine"]["device"] == "cpu"


def _run_bare(folder: Path) -> None:
    """In a process of its own where every package but NumPy and JAX fails on import."""
    blocked = ["polars", "pydantic", "scipy", "sklearn", "matplotlib", "typer", "rich"]
    script = (
        f"import sys\nfor name in {blocked}: sys.modules[name] = None\n"
        f"from olrank.engine import bare\nsys.exit(bare.main([{str(folder)!r}]))"
    )
    source = Path(bare.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(source), "JAX_PLATFORMS": "cpu", "PATH": "",
             "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
