"""The outside skyline of a contest: what the stage writes, and what a report makes of it."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from experiments.contest.made_contest import (
    CONTEST,
    STAGES,
    finished,
    ground,
    made_by_query,
    small_files,
)

from olrank.errors import ConfigError, DataError
from olrank.experiments.contest import arena, outside
from olrank.experiments.contest.config import parse_contest
from olrank.experiments.contest.contest import next_stage, run
from olrank.experiments.reports import contest as reported
from olrank.experiments.reports.pages import fill
from olrank.experiments.reports.verdicts import LEFT_OUT
from olrank.experiments.running import lambdamart
from olrank.experiments.running.kept import checksums
from olrank.experiments.running.load import with_validation

BEST = Path(__file__).parents[3] / "experiments" / "best"


def chosen(out, text=CONTEST):
    for stage in ("search", "choose"):
        run(ground(out, text), stage)


def test_the_stage_writes_what_direct_calls_give(played, tmp_path):
    pytest.importorskip("lightgbm")
    whole = small_files(tmp_path)
    part = f', validation = ["{tmp_path / "validation"}.txt"]'
    head, tail = whole.split(part, 1)
    text = head + part + tail.replace(part, "", 1)  # the second set has none to stop by
    chosen(tmp_path / "out", text)
    run(ground(tmp_path / "out", text), "outside")
    found = pl.read_parquet(tmp_path / "out" / "outside.parquet")
    assert found.schema == pl.read_parquet_schema(BEST / "queries.parquet")
    record = json.loads((tmp_path / "out" / "outside.json").read_text())
    n_learned = []
    for data in parse_contest(text).data:
        (fold,) = (with_validation(fold) for fold in arena.folds_of(data))
        here = found.filter(ranker="lambdamart", dataset=data.name, user="-", stop="-")
        assert here["query"].to_list() == [1, 2, 3, 4, 5]  # as of all others: 0 has none relevant
        means = lambdamart.by_query(fold, (0, 1, 2)).mean(axis=0)
        np.testing.assert_allclose(here["value"], means[1:], atol=1e-6)
        assert record["data"][data.name] == {"1": checksums(fold)}
        n_learned.append(fold.train.n_queries)
    assert n_learned == [30, 24]  # a fifth was cut off
    assert "lightgbm" in record["versions"]


def test_k_and_the_rule_for_queries_without_a_relevant_one_are_the_evaluations(
    arithmetic, tmp_path, monkeypatch
):
    asked = []

    def by_query(fold, *rest):
        asked.append(rest)
        return made_by_query(fold, *rest)

    monkeypatch.setattr(lambdamart, "by_query", by_query)
    text = CONTEST.replace("[evaluate]", '[evaluate]\nk = 5\nempty = "one"')
    chosen(tmp_path, text)
    run(ground(tmp_path, text), "outside")
    assert asked == [((0, 1, 2), 5, "one")] * 2
    assert ground(tmp_path, text).is_done("outside")
    for written, instead in (("k = 5", "k = 4"), ('"one"\nusers', '"zero"\nusers')):
        assert written in text
        assert not ground(tmp_path, text.replace(written, instead)).is_done("outside")


def test_only_data_and_the_metric_make_it_run_again(arithmetic, tmp_path):
    finished(tmp_path)
    for written, instead, still in (
        ("seeds = 3", "seeds = 4", True),
        ("rounds = 30", "rounds = 40", True),
        ("learning_rate = [0.1, 0.01]", "learning_rate = [0.1, 0.02]", True),
        ("[evaluate]", "[evaluate]\nk = 5", False),
        ("queries = [20, 8, 10]", "queries = [20, 8, 11]", False),
    ):
        assert written in CONTEST
        changed = ground(tmp_path, CONTEST.replace(written, instead))
        assert changed.is_done("outside") is still, instead


def test_a_stopped_stage_goes_on_here_even_when_tasks_go_elsewhere(
    arithmetic, tmp_path, monkeypatch
):
    fitted: list[str] = []

    def by_query(fold, *rest):
        if fitted == ["one"]:
            fitted.append("stopped")
            raise KeyboardInterrupt
        fitted.append(fold.train.name)
        return made_by_query(fold, *rest)

    monkeypatch.setattr(lambdamart, "by_query", by_query)
    out = tmp_path / "out"
    for _ in STAGES[:4]:
        run(ground(out))
    there = ground(out, elsewhere=tmp_path / "tasks")
    with pytest.raises(KeyboardInterrupt):
        run(there, "outside")
    run(ground(out), "report")  # must not take what is kept for what is left over
    assert next_stage(there) == "outside"
    run(there)
    assert fitted == ["one", "stopped", "two"]
    assert not (tmp_path / "tasks").exists()
    found = pl.read_parquet(out / "outside.parquet")
    assert found["dataset"].unique(maintain_order=True).to_list() == ["one", "two"]


def test_without_lightgbm_it_is_said_and_the_report_goes_without(arithmetic, tmp_path, monkeypatch):
    monkeypatch.setattr(lambdamart, "available", lambda: False)
    said: list[str] = []
    stages = [run(ground(tmp_path), say=said.append) for _ in STAGES[1:]]
    assert stages == ["search", "choose", "evaluate", "robust", "report"]
    assert said.count(outside.MISSING) == 1
    assert "pip install lightgbm" in outside.MISSING
    assert "lambdamart" not in (tmp_path / "table.md").read_text()
    assert not (tmp_path / "parts").exists()  # nothing is left to do
    run(ground(tmp_path), "outside", said.append)
    assert said[-2:] == [outside.MISSING, "outside: done. Next: report."]
    assert not (tmp_path / "outside.parquet").exists()
    monkeypatch.setattr(lambdamart, "available", lambda: True)
    assert next_stage(ground(tmp_path)) == "outside"


def test_rows_of_another_machine_are_reported_without_lightgbm(arithmetic, tmp_path, monkeypatch):
    finished(tmp_path)
    before = (tmp_path / "table.md").read_bytes()
    monkeypatch.setattr(lambdamart, "available", lambda: False)
    said: list[str] = []
    run(ground(tmp_path), "report", said.append)
    assert outside.MISSING not in said
    assert (tmp_path / "table.md").read_bytes() == before


def test_it_opens_the_test_parts_for_one_choice_only(arithmetic, tmp_path):
    chosen(tmp_path)
    run(ground(tmp_path), "outside")
    changed = CONTEST.replace("[0.2, 0.3]", "[0.2, 0.4]")
    run(ground(tmp_path, changed), "search")
    with pytest.raises(ConfigError, match=r"opened \(outside.json\) with another choice"):
        run(ground(tmp_path, changed), "choose")


def test_a_report_measures_the_way_to_it_and_compares_nobody_with_it(arithmetic, tmp_path):
    finished(tmp_path)
    closed = fill("{{contest closed}}", tmp_path)
    # Offline the baseline is at .6, ours at .8 and LambdaMART at .9. Seeds move the first two alike
    # by .001 at most: the share is .2 / .3, and between .2 / .301 and .2 / .299.
    told = "| one | perfect | clicked | pdgd-linear | lambdamart | .300 | 67% (66% to 67%) |"
    assert told in closed
    assert "learned from all labels: one .901, two .901." in closed
    means = fill("{{contest means}}", tmp_path)
    assert means.count("| lambdamart (all labels) | .901 / - | .901 / - |") == 2
    found = reported.find(tmp_path)
    assert set(found.compared[LEFT_OUT]["rival"]) == {"pdgd-linear", "beside"}
    assert "lambdamart" not in set(found.rows["ranker"])


def test_a_report_leaves_out_what_was_asked_otherwise_than_the_rows(arithmetic, tmp_path):
    finished(tmp_path)
    assert "lambdamart" in reported.text(tmp_path)
    change(tmp_path / "outside.json", asked={"k": 5})
    assert "lambdamart" not in reported.text(tmp_path)


def test_a_report_is_of_the_files_that_are_there_now_and_of_one_choice(arithmetic, tmp_path):
    finished(tmp_path)
    assert ".901 / -" in reported.text(tmp_path)
    file = tmp_path / "outside.parquet"
    pl.read_parquet(file).with_columns(pl.col("value") - 0.1).write_parquet(file)
    assert ".801 / -" in reported.text(tmp_path)
    change(tmp_path / "outside.json", chosen_sha256="another")
    with pytest.raises(DataError, match=r"since the test parts were opened \(outside.json\)"):
        reported.text(tmp_path)


def change(file: Path, **instead) -> None:
    """Put other values into a record."""
    record = json.loads(file.read_text())
    for name, value in instead.items():
        record[name] = {**record[name], **value} if isinstance(value, dict) else value
    file.write_text(json.dumps(record))
