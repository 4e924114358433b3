"""Tasks in files: what a bare machine runs is what this one would have run."""

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from olrank.data.synthetic import synthetic
from olrank.engine import bare
from olrank.engine.measure import Line, Options, measure
from olrank.errors import ConfigError, DataError, WaitingError
from olrank.experiments.rows import files
from olrank.experiments.running import run as running
from olrank.experiments.running.config import parse_config
from olrank.users import presets

CONFIG = """
name = "trial"
[data]
synthetic = "small"
queries = [30, 5, 10]
[run]
users = ["perfect", "informational"]
rounds = 20
seeds = 2
per_query = true
taste_changes_after = 10
[[ranker]]
name = "pdgd-linear"
settings = { learning_rate = [0.1, 0.01] }
[[ranker]]
name = "dbgd-linear"
"""
OPTIONS = Options(
    rounds=15, seeds=(0, 3), evaluate_after=(5, 15), fold="2", per_query=True, taste_changes_after=8
)
LINES = [Line({"learning_rate": 0.1}, "perfect", "clicked", "a"), Line({}, "random", "examined")]


@pytest.fixture
def task():
    train, test = synthetic("small", queries=20, seed=0), synthetic("small", queries=6, seed=1)
    return bare.Task("pdgd-linear", train, {"ndcg@10": test}, LINES, OPTIONS)


def test_a_task_is_read_as_it_was_written(task, tmp_path):
    bare.write(tmp_path, "one", task)
    back = bare.read(tmp_path, "one")
    assert (back.ranker, back.lines, back.options) == (task.ranker, task.lines, task.options)
    for mine, theirs in (
        (back.data, task.data),
        (back.held_out["ndcg@10"], task.held_out["ndcg@10"]),
    ):
        assert (mine.name, mine.max_grade, mine.checksum) == (
            theirs.name, theirs.max_grade, theirs.checksum
        )  # fmt: skip
        for field in ("features", "grades", "offsets", "relevance"):
            np.testing.assert_array_equal(getattr(mine, field), getattr(theirs, field))


def test_curves_from_a_file_are_those_of_a_run_here(task, tmp_path):
    bare.write(tmp_path, "one", task)
    assert bare.found(tmp_path, "one") is None
    bare.run(tmp_path, "one")
    curves, about = bare.found(tmp_path, "one")
    expected = measure(*task)
    np.testing.assert_array_equal(curves.evaluated, [5, 15])
    assert list(curves.metrics) == list(expected.metrics)
    for name, values in expected.metrics.items():
        np.testing.assert_array_equal(curves.metrics[name], values)
    assert list(curves.by_query) == ["ndcg@10"]
    np.testing.assert_array_equal(curves.by_query["ndcg@10"], expected.by_query["ndcg@10"])
    assert about["machine"]["device"] == "cpu"


def test_curves_that_were_measured_without_single_queries_are_found(task, tmp_path):
    plain = task._replace(options=Options(rounds=4, seeds=(0,)))
    bare.write(tmp_path, "one", plain)
    bare.run(tmp_path, "one")
    assert bare.found(tmp_path, "one")[0].by_query == {}


def test_an_experiment_waits_for_its_tasks_and_then_has_the_rows_of_a_run_here(tmp_path):
    config = parse_config(CONFIG)
    here = running.run(config, tmp_path / "here")
    jobs = tmp_path / "jobs"
    with pytest.raises(WaitingError, match=r"2 of 2 parts (.|\n)* python -m olrank.engine.bare"):
        running.run(config, tmp_path / "there", device="cpu", elsewhere=jobs)
    assert bare.main([str(jobs), "--only", "dbgd"]) == 0
    with pytest.raises(WaitingError, match="1 of 2 parts"):
        running.run(config, tmp_path / "there", device="cpu", elsewhere=jobs)
    assert bare.main([str(jobs)]) == 0
    there = running.run(config, tmp_path / "there", device="cpu", elsewhere=jobs)
    assert here.rows.equals(there.rows)
    queries = [files.read_queries(tmp_path / name) for name in ("here", "there")]
    assert queries[0].equals(queries[1])
    record = json.loads((tmp_path / "there" / "run.json").read_text())
    assert record["machines"][0]["device"] == "cpu"


def test_tasks_that_are_worked_on_together_measure_the_same(task, tmp_path):
    several = {f"seed {s}": task._replace(options=Options(rounds=4, seeds=(s,))) for s in range(3)}
    for name, one in several.items():
        bare.write(tmp_path, name, one)
    assert bare.main([str(tmp_path), "--at-once", "2"]) == 0
    for name, one in several.items():
        curves, _ = bare.found(tmp_path, name)
        expected = measure(*one)
        for metric, values in expected.metrics.items():
            np.testing.assert_array_equal(curves.metrics[metric], values)


def test_the_first_fold_of_every_ranker_comes_before_the_second_of_any(task, tmp_path, capsys):
    for ranker in ("dbgd-linear", "pdgd-linear"):
        for fold in ("1", "2"):
            options = Options(rounds=1, seeds=(0,), fold=fold)
            one = task._replace(ranker=ranker, lines=LINES[1:], options=options)
            bare.write(tmp_path, f"{ranker} {fold}", one)
    assert bare.main([str(tmp_path)]) == 0
    told = [line.split("] ")[1].split(" (")[0] for line in capsys.readouterr().out.split("\n")[1:5]]
    assert told == ["dbgd-linear 1", "pdgd-linear 1", "dbgd-linear 2", "pdgd-linear 2"]


def test_a_task_that_fails_keeps_those_that_wait_from_starting(task, tmp_path):
    bad = task._replace(ranker="nobody")
    for name, one in (("a", bad), *((f"b{i}", task) for i in range(6))):
        bare.write(tmp_path, name, one)
    with pytest.raises(ConfigError, match="nobody"):
        bare.main([str(tmp_path), "--at-once", "2"])
    assert bare.found(tmp_path, "b5") is None


def test_it_runs_where_only_numpy_and_jax_are(task, tmp_path):
    """Every other package is made to fail on import."""
    bare.write(tmp_path, "one", task)
    blocked = [
        "polars",
        "pydantic",
        "scipy",
        "sklearn",
        "matplotlib",
        "typer",
        "rich",
        "safetensors",
    ]
    script = (
        f"import sys\nfor name in {blocked}: sys.modules[name] = None\n"
        f"from olrank.engine import bare\nsys.exit(bare.main([{str(tmp_path)!r}]))"
    )
    source = Path(bare.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(source), "JAX_PLATFORMS": "cpu", "PATH": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "1 of 1 tasks" in done.stdout
    assert bare.found(tmp_path, "one") is not None


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_when_told_to_stop_it_stops_at_once_and_keeps_what_is_done(task, tmp_path, sign):
    endless = task._replace(options=replace(OPTIONS, rounds=10**9, evaluate_after=(10**9,)))
    for name, one in (("a", task), ("b", endless), ("c", endless)):
        bare.write(tmp_path, name, one)
    command = [sys.executable, "-m", "olrank.engine.bare", str(tmp_path), "--at-once", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as at_work:
        assert at_work.stdout is not None
        for line in at_work.stdout:
            if line.startswith("[1/3] a"):
                break
        at_work.send_signal(sign)
        # Waiting for the tasks in hand it would never end.
        assert at_work.wait() == 128 + sign
        assert "Stopped" in at_work.stdout.read()
    assert bare.found(tmp_path, "a") is not None
    assert list(tmp_path.glob("[bc]*.npz")) == []


def test_what_cannot_be_a_file_or_is_not_there_is_said(task, tmp_path, capsys):
    user = presets.user("perfect", 4)
    with pytest.raises(ConfigError, match="names its users"):
        bare.write(tmp_path, "one", task._replace(lines=[Line({}, user, "clicked")]))
    assert bare.main([str(tmp_path)]) == 2
    assert "no task here" in capsys.readouterr().out
    bare.write(tmp_path, "two", task)
    next(tmp_path.glob("*.npz")).unlink()
    with pytest.raises(DataError, match="Copy the whole folder"):
        bare.read(tmp_path, "two")
