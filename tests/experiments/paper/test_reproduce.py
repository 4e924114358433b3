"""The reproduction end to end, with rows made by arithmetic instead of simulation."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from experiments.made_rows import made_rows
from experiments.paper.test_found import LINES

from olrank.errors import ConfigError, WaitingError
from olrank.experiments.paper import estimate, known_h, reproduce
from olrank.experiments.paper.protocol import QUICK
from olrank.experiments.running import jobs, lambdamart
from olrank.experiments.running.progress import Load, Silent

FEW = ("olranknet", "ollambdarank", "pairrank", "pdgd-linear")
PROTOCOL = replace(
    QUICK.only(FEW), rounds=100, seeds=2, gap_rankers=("olranknet",), users=("perfect",),
)  # fmt: skip
EVEN = (1, *range(20, 101, 20))


class Heard(Silent):
    def __init__(self) -> None:
        self.parts: dict[str, Load] = {}

    def begin(self, parts):
        self.parts = dict(parts)


def fake_simulate(calls: list[str]):
    def simulate_task(task, progress=None):
        ranker, data, _, lines, options = task
        calls.append(ranker)
        if len(calls) == STOP.get("at"):
            raise KeyboardInterrupt
        frames = []
        for line in lines:
            made = made_rows(
                [ranker], [line.user], [line.stop], [options.fold], options.seeds, EVEN
            )
            known = made.filter((pl.col("metric") != "certain_ratio") | (ranker == "olranknet"))
            frames.append(known.with_columns(settings=pl.lit(line.label)))
        rows = pl.concat(frames).with_columns(dataset=pl.lit(data.name))
        copies = [rows.filter(metric="ndcg@10").with_columns(metric=pl.lit("validation_ndcg@10"))]
        regret = rows.filter(metric="regret").with_columns(metric=pl.lit("examined_regret"))
        return pl.concat([rows, *copies, regret])

    return simulate_task


STOP: dict[str, int] = {}


def fake_follow(ranker, settings, data, test, *, user, rounds, seeds, label):
    rows = made_rows(["olranknet"], [user], seeds=range(seeds)).filter(metric="certain_ratio")
    metrics = ("coverage", "certain_share", "certain_right", "log_det_ratio")
    named = [rows.with_columns(metric=pl.lit(name), settings=pl.lit(label)) for name in metrics]
    return pl.concat(named)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    made: list[str] = []
    STOP.clear()
    monkeypatch.setattr(jobs, "simulate_task", fake_simulate(made))
    monkeypatch.setattr(known_h, "follow", fake_follow)
    monkeypatch.setattr(lambdamart, "available", lambda: False)
    return made


def test_all_leaves_every_figure_and_page(calls, tmp_path: Path):
    said: list[str] = []
    written = reproduce.reproduce(None, tmp_path, protocol=PROTOCOL, say=said.append)
    assert {path.stem for path in written if path.suffix == ".svg"} == {
        "learning", "online", "regret", "certainty", "ratio", "nonlinearity", "regret_fit",
        "coverage", "log_det",
    }  # fmt: skip
    assert {path.name for path in written if path.suffix == ".md"} == {
        "table.md", "tables.md", "claims.md", "theory.md",
    }  # fmt: skip
    assert any("about" in line and "parts" in line for line in said)
    assert any("pip install lightgbm" in line for line in said)
    assert not (tmp_path / "parts").exists()
    record = json.loads((tmp_path / "run.json").read_text())
    assert set(record["data"]) == {"small", "small linear"}


def test_only_what_a_figure_needs_is_run(calls, tmp_path: Path):
    reproduce.reproduce(None, tmp_path, figure="nonlinearity", protocol=PROTOCOL)
    assert calls == []
    written = reproduce.reproduce(None, tmp_path, figure="ratio", protocol=PROTOCOL)
    assert set(calls) == {"olranknet"}
    assert "ratio.svg" in [path.name for path in written]


def test_a_stopped_command_goes_on_and_ends_with_the_same_rows(calls, tmp_path: Path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    reproduce.reproduce(None, whole, figure="offline", protocol=PROTOCOL)
    n_all = len(calls)
    calls.clear()
    STOP["at"] = 7
    with pytest.raises(KeyboardInterrupt):
        reproduce.reproduce(None, broken, figure="offline", protocol=PROTOCOL)
    STOP.clear()
    reproduce.reproduce(None, broken, figure="offline", protocol=PROTOCOL)
    assert len(calls) == n_all + 1  # the one that was stopped, again
    assert (whole / "rows.parquet").read_bytes() == (broken / "rows.parquet").read_bytes()


def test_a_search_runs_before_the_seeds_that_are_reported(calls, tmp_path: Path):
    searched = replace(PROTOCOL, search_seeds=1).only(("olranknet", "pdgd-linear"))
    reproduce.reproduce(None, tmp_path, figure="offline", protocol=searched)
    search = pl.read_parquet(tmp_path / "search.parquet")
    rows = pl.read_parquet(tmp_path / "rows.parquet")
    assert search["seed"].unique().to_list() == [1000]
    assert rows["seed"].unique().sort().to_list() == [0, 1]
    assert search.filter(ranker="olranknet")["settings"].n_unique() == 2
    assert rows.filter(ranker="olranknet")["settings"].n_unique() == 1


def test_an_empty_folder_falls_back_on_made_up_shapes(calls, tmp_path: Path):
    said: list[str] = []
    empty = tmp_path / "data"
    empty.mkdir()
    reproduce.reproduce(empty, tmp_path / "out", figure="nonlinearity", quick=True, say=said.append)
    assert any("falling back on made-up shapes" in line for line in said)


@pytest.fixture
def later_set(tmp_path: Path) -> Path:
    """A folder with two sets, "early" and "late", each in a folder of its own."""
    for name in ("early", "late"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "queries.txt").write_text(LINES)
    return tmp_path


def test_a_set_that_comes_later_is_added_to_those_of_before(calls, later_set: Path):
    out, said = later_set / "out", []
    add = partial(reproduce.reproduce, out=out, protocol=PROTOCOL, say=said.append)
    add(later_set / "late")
    before = {file.name: pl.read_parquet(file) for file in out.glob("*.parquet")}
    calls.clear()
    add(later_set / "early")
    assert any("keeps late from before" in line for line in said)
    for name, old in before.items():
        now = pl.read_parquet(out / name)
        kept = now.filter(dataset="late")
        assert kept.equals(old.filter(dataset="late").select(kept.columns))
        if not kept.is_empty():
            assert now["dataset"].unique(maintain_order=True).to_list() == ["early", "late"]
    assert "### late, stop rule clicked" in (out / "tables.md").read_text()
    record = json.loads((out / "run.json").read_text())
    assert list(record["data"]) == ["early"]
    assert [list(one["data"]) for one in record["earlier"]] == [["late"]]

    add(later_set / "late")  # again: it takes the place of what was there
    record = json.loads((out / "run.json").read_text())
    assert list(record["data"]) == ["late"]
    assert [list(one["data"]) for one in record["earlier"]] == [["early"]]
    rows = pl.read_parquet(out / "rows.parquet")
    assert rows.equals(rows.unique(maintain_order=True))


def test_sets_that_were_run_otherwise_are_not_mixed(calls, later_set: Path):
    out = later_set / "out"
    reproduce.reproduce(later_set / "late", out, protocol=PROTOCOL)
    with pytest.raises(ConfigError, match="holds late, run with other seeds. Give the same"):
        reproduce.reproduce(later_set / "early", out, protocol=replace(PROTOCOL, seeds=3))
    reproduce.reproduce(later_set / "late", out, protocol=replace(PROTOCOL, seeds=3))  # all anew
    assert pl.read_parquet(out / "rows.parquet")["seed"].n_unique() == 3


def test_a_folder_of_another_experiment_is_left_alone(calls, tmp_path: Path):
    (tmp_path / "run.json").write_text('{"config": {"name": "default"}, "data": {"made": {}}}')
    with pytest.raises(ConfigError, match="holds another experiment.*Give another --out"):
        reproduce.reproduce(None, tmp_path, protocol=PROTOCOL)
    assert not calls


def test_an_unknown_figure_is_told(tmp_path: Path):
    with pytest.raises(ConfigError, match='no figure is called "beauty"'):
        reproduce.reproduce(None, tmp_path, figure="beauty")


def test_the_estimate_grows_with_rounds_and_replicas_and_shrinks_on_an_accelerator(monkeypatch):
    monkeypatch.setattr(estimate, "machine_factor", lambda: 1.0)
    data = reproduce.folds_of(QUICK.shapes[0])[0].train

    def seconds(load: Load, device: str = "cpu") -> float:
        task: Any = object()  # a simulation: what an accelerator makes faster
        job = reproduce.Job("a", load, {}, lambda progress: pl.DataFrame(), task)
        return estimate.estimate_s([estimate.Costed(job, "olranknet", data)], device)

    compiling = seconds(Load(0, 0))
    assert seconds(Load(2, 1000)) - compiling == pytest.approx(
        2 * (seconds(Load(1, 1000)) - compiling)
    )
    assert seconds(Load(100, 5000), "gpu") < seconds(Load(100, 5000))


def test_progress_weighs_parts_by_what_they_take_here(calls, tmp_path: Path):
    heard = Heard()
    reproduce.reproduce(None, tmp_path / "here", quick=True, protocol=PROTOCOL, progress=heard)
    here = heard.parts
    assert all(load.round_s > 0 for load in here.values())
    table = next(load for title, load in here.items() if title.startswith("dimensions"))
    run = next(load for title, load in here.items() if "run: pdgd-linear" in title)
    assert table.round_s > 1000 * run.round_s  # a table is a second, a round next to nothing

    with pytest.raises(WaitingError):
        reproduce.reproduce(
            None, tmp_path / "there", protocol=PROTOCOL, elsewhere=tmp_path / "b", progress=heard
        )
    assert {title for title, load in heard.parts.items() if load.round_s > 0} == {
        title for title in here if title.startswith(("separation", "dimensions", "known h"))
    }


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(5, "under a minute"), (60 * 12, "12 min"), (3600 * 3 + 600, "3 h 10 min")],
)
def test_durations_are_rough_words(seconds, words):
    assert estimate.in_words(seconds) == words
