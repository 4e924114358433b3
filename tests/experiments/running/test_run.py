import json
from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pytest
from experiments.made_rows import FakeSimulate, tiny_fold

import olrank
from olrank.engine.measure import Options
from olrank.errors import ClusterError, ConfigError
from olrank.experiments.running import parts
from olrank.experiments.running import run as running
from olrank.experiments.running.config import Config, parse_config
from olrank.experiments.running.progress import Load, Silent

CONFIG = """
name = "trial"
[data]
synthetic = "small"
[run]
users = ["perfect", "informational"]
rounds = 100
seeds = 2
[[ranker]]
name = "olranknet"
preset = "paper"
settings = { alpha = 0.5 }
[[ranker]]
name = "pdgd-linear"
label = "pdgd"
"""

CONFIG_OF_ONE = """
name = "one"
data.synthetic = "small"
ranker.name = "pdgd-linear"
"""


class Told(Silent):
    def __init__(self) -> None:
        self.parts: dict[str, Load] = {}
        self.shares: list[float] = []
        self.finished: list[tuple[str, bool]] = []

    def begin(self, parts: Mapping[str, Load]) -> None:
        self.parts = dict(parts)

    def advance(self, part: str, done: int, total: int) -> None:
        self.shares.append(done / total)

    def finish(self, part: str, seconds: float, resumed: bool) -> None:
        self.finished.append((part, resumed))


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setattr(running, "load_folds", lambda data: [tiny_fold("1"), tiny_fold("2")])
    return parse_config(CONFIG)


@pytest.fixture
def simulate(monkeypatch: pytest.MonkeyPatch) -> FakeSimulate:
    fake = FakeSimulate()
    monkeypatch.setattr(parts, "simulate_task", fake)
    return fake


def test_every_ranker_meets_every_fold_and_user(
    config: Config, simulate: FakeSimulate, tmp_path: Path
):
    running.run(config, tmp_path)
    met = [
        (call["options"].label, call["options"].fold, line.user, line.stop)
        for call in simulate.calls
        for line in call["lines"]
    ]
    assert len(met) == len(set(met)) == 2 * 2 * 2
    assert ("pdgd", "2", "informational", "clicked") in met


def test_a_ranker_gets_its_settings_and_the_run_s_conventions(
    config: Config, simulate: FakeSimulate, tmp_path: Path
):
    running.run(config, tmp_path)
    first = simulate.calls[0]
    assert first["ranker"] == "olranknet"
    assert first["lines"][0].settings == {"preset": "paper", "alpha": 0.5}
    assert list(first["held_out"]) == ["ndcg@10"]
    assert first["options"] == Options(
        rounds=100, seeds=(0, 1), k=10, gamma=0.9995, empty="skip", fold="1", label="olranknet",
        sizes=(16,),
    )  # fmt: skip


def test_a_run_leaves_rows_summary_and_record_and_no_parts(
    config: Config, simulate: FakeSimulate, tmp_path: Path
):
    outcome = running.run(config, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "rows.parquet",
        "run.json",
        "summary.json",
        "table.md",
    ]
    assert pl.read_parquet(outcome.out / "rows.parquet").equals(outcome.rows)
    assert json.loads((outcome.out / "summary.json").read_text()) == outcome.summary.to_dicts()


def test_the_record_says_what_the_run_was_made_of(
    config: Config, simulate: FakeSimulate, tmp_path: Path
):
    running.run(config, tmp_path)
    record = json.loads((tmp_path / "run.json").read_text())
    assert parse_config(CONFIG) == Config.model_validate(record["config"])
    assert record["versions"]["olrank"] == olrank.__version__
    assert record["data"]["1"] == {"train": "abc", "validation": "abc", "test": "abc"}
    assert record["machines"][0]["cores"] >= 1
    assert [part["part"] for part in record["parts"]] == [
        f"{name}, fold {fold}, seeds 0 to 1" for name in ("olranknet", "pdgd") for fold in "12"
    ]
    assert record["parts"][0].items() >= {
        "replicas": 2 * 2, "seeds_at_once": 2, "replicas_at_once": [2], "machine": 0,
    }.items()  # fmt: skip
    assert record["started"] <= record["ended"]
    assert record["seconds"] >= 0


def test_a_run_asks_for_single_queries_and_a_change_of_taste_as_its_config_does(
    config: Config, simulate: FakeSimulate, tmp_path: Path
):
    more = "rounds = 100\nper_query = true\ntaste_changes_after = 40"
    running.run(parse_config(CONFIG.replace("rounds = 100", more)), tmp_path)
    for call in simulate.calls:
        assert call["options"].per_query
        assert call["options"].taste_changes_after == 40


def test_queries_of_an_earlier_run_do_not_stay_beside_rows_that_are_not_theirs(
    config: Config, simulate: FakeSimulate, tmp_path: Path
):
    (tmp_path / "queries.parquet").write_bytes(b"of an earlier run")
    running.run(config, tmp_path)
    assert not (tmp_path / "queries.parquet").exists()


def test_the_same_config_gives_the_same_rows_file(
    config: Config, simulate: FakeSimulate, tmp_path: Path
):
    running.run(config, tmp_path / "a")
    running.run(config, tmp_path / "b")
    written = [(tmp_path / name / "rows.parquet").read_bytes() for name in ("a", "b")]
    assert written[0] == written[1]


def test_a_killed_run_goes_on_and_ends_as_if_it_had_never_stopped(
    config: Config, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    unbroken, killed, again = FakeSimulate(), FakeSimulate(fails_at=1), FakeSimulate()
    monkeypatch.setattr(parts, "simulate_task", unbroken)
    running.run(config, tmp_path / "unbroken")
    monkeypatch.setattr(parts, "simulate_task", killed)
    with pytest.raises(KeyboardInterrupt):
        running.run(config, tmp_path / "killed")
    assert not (tmp_path / "killed" / "rows.parquet").exists()
    monkeypatch.setattr(parts, "simulate_task", again)
    told = Told()
    running.run(config, tmp_path / "killed", told)
    assert len(again.calls) == 4 - 1
    assert [resumed for _, resumed in told.finished] == [True] * 1 + [False] * 3
    written = [(tmp_path / name / "rows.parquet").read_bytes() for name in ("unbroken", "killed")]
    assert written[0] == written[1]


@pytest.mark.parametrize("change", ["config", "data"])
def test_parts_of_another_config_or_other_data_are_not_taken_over(
    change: str, config: Config, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(parts, "simulate_task", FakeSimulate(fails_at=1))
    with pytest.raises(KeyboardInterrupt):
        running.run(config, tmp_path)
    again = FakeSimulate()
    monkeypatch.setattr(parts, "simulate_task", again)
    if change == "data":
        changed = [tiny_fold("1", "other"), tiny_fold("2", "other")]
        monkeypatch.setattr(running, "load_folds", lambda data: changed)
    else:
        config = parse_config(CONFIG.replace("rounds = 100", "rounds = 99"))
    running.run(config, tmp_path)
    assert len(again.calls) == 4


def test_progress_hears_of_every_part_and_of_rounds_inside_them(
    config: Config, simulate: FakeSimulate, tmp_path: Path
):
    told = Told()
    running.run(config, tmp_path, told)
    assert told.parts == dict.fromkeys([title for title, _ in told.finished], Load(2 * 2, 100))
    assert len(told.finished) == 4
    assert told.shares == [0.0, 50 / 100] * 4
    assert told.finished[0] == ("olranknet, fold 1, seeds 0 to 1", False)


def test_seeds_can_be_run_a_few_at_a_time(config: Config, simulate: FakeSimulate, tmp_path: Path):
    few = parse_config(CONFIG.replace("seeds = 2", "seeds = 3\nseeds_at_once = 2"))
    running.run(few, tmp_path)
    assert [call["options"].seeds for call in simulate.calls[:2]] == [(0, 1), (2,)]


def test_lists_of_settings_are_run_in_every_combination_and_judged_on_validation_data(
    config: Config, simulate: FakeSimulate, tmp_path: Path
):
    many = CONFIG.replace("alpha = 0.5", "alpha = [0.5, 0.1], lambda = [1, 2, 3], width = 4")
    running.run(parse_config(many), tmp_path)
    first = simulate.calls[0]
    assert len(first["lines"]) == 2 * 3 * 2  # and two users
    assert first["lines"][2].label == "alpha=0.5 lambda=2"
    assert first["lines"][2].settings == {
        "preset": "paper", "alpha": 0.5, "lambda": 2, "width": 4,
    }  # fmt: skip
    assert list(first["held_out"]) == ["ndcg@10", "validation_ndcg@10"]


def test_two_runs_cannot_write_into_one_folder(
    config: Config, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    inner = FakeSimulate()

    def second_run(*given: object) -> None:
        monkeypatch.setattr(parts, "simulate_task", inner)
        running.run(config, tmp_path)

    monkeypatch.setattr(parts, "simulate_task", second_run)
    with pytest.raises(ConfigError, match="another run is writing here"):
        running.run(config, tmp_path)
    assert inner.calls == []
    running.run(config, tmp_path)  # the first is over, and so is its lock


def test_a_damaged_part_is_run_again(
    config: Config, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(parts, "simulate_task", FakeSimulate(fails_at=2))
    with pytest.raises(KeyboardInterrupt):
        running.run(config, tmp_path)
    one, _ = sorted((tmp_path / "parts").glob("*.parquet"))
    one.write_bytes(one.read_bytes()[:100])
    again = FakeSimulate()
    monkeypatch.setattr(parts, "simulate_task", again)
    running.run(config, tmp_path)
    assert len(again.calls) == 4 - 1


def test_a_worker_with_other_code_is_refused():
    other = {**running.versions(), "olrank_code": "0" * 64}
    (part,) = parts.plan(parse_config(CONFIG_OF_ONE), [tiny_fold()], "cpu")
    with pytest.raises(ClusterError, match=r"has olrank_code .*needs 0000.*Install the same"):
        running._at_worker(tiny_fold(), running._Order(part, "cpu", other), lambda done, of: None)
