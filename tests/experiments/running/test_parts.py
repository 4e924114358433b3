from dataclasses import replace

import polars as pl
import pytest
from experiments.made_rows import FakeSimulate, tiny_fold

from olrank.engine import sweep
from olrank.errors import ConfigError
from olrank.experiments.running import parts
from olrank.experiments.running.config import Config, parse_config
from olrank.experiments.running.load import load_folds
from olrank.experiments.running.progress import Load

CONFIG = """
name = "trial"
data.synthetic = "small"
[run]
users = ["perfect", "informational"]
rounds = 50
seeds = 10
[[ranker]]
name = "olranknet"
settings = { alpha = [0.1, 0.5] }
[[ranker]]
name = "pdgd-linear"
"""


def planned(text: str = CONFIG, device: str = "cpu") -> list[parts.Part]:
    return parts.plan(parse_config(text), [tiny_fold()], device)


def seeds_of(text: str, device: str) -> list[tuple[int, ...]]:
    return [part.seeds for part in planned(text, device) if part.ranker.name == "pdgd-linear"]


def test_a_part_knows_its_work():
    first = planned()[0]
    assert first.load == Load(2 * 2 * 2, 50)  # settings, users, seeds
    assert first.title == "olranknet, fold 1, seeds 0 to 1"
    assert list(first.held_out(tiny_fold())) == ["ndcg@10", "validation_ndcg@10"]
    assert list(planned()[-1].held_out(tiny_fold())) == ["ndcg@10"]


def test_seeds_are_grouped_evenly_by_what_the_device_needs():
    # Two users: 8 replicas take 4 seeds, and groups of 5 are the next that are equal.
    assert seeds_of(CONFIG, "cpu") == [(0, 1, 2, 3, 4), (5, 6, 7, 8, 9)]
    assert seeds_of(CONFIG, "gpu") == [tuple(range(10))]
    prime = CONFIG.replace("seeds = 10", "seeds = 7")
    assert seeds_of(prime, "cpu") == [tuple(range(7))]
    one = CONFIG.replace("seeds = 10", "seeds = [4]")
    assert seeds_of(one, "cpu") == [(4,)]
    chosen = CONFIG.replace("seeds = 10", "seeds = [4, 2, 9]\nseeds_at_once = 2")
    assert seeds_of(chosen, "gpu") == [(4, 2), (9,)]
    assert planned(chosen)[0].title == "olranknet, fold 1, seeds 4, 2"


def test_every_seed_of_every_ranker_is_in_one_part():
    met = [(part.ranker.name, seed) for part in planned() for seed in part.seeds]
    assert sorted(met) == sorted(
        (name, seed) for name in ("olranknet", "pdgd-linear") for seed in range(10)
    )


def test_settings_cannot_be_chosen_without_a_validation_part():
    fold = tiny_fold()
    fold = fold._replace(validation=fold.train.select([]))
    with pytest.raises(ConfigError, match="ranker olranknet: settings are chosen on the valid"):
        parts.plan(parse_config(CONFIG), [fold], "cpu")
    parts.plan(parse_config(CONFIG.replace("[0.1, 0.5]", "[0.1]")), [fold], "cpu")


def named(config: Config, device: str = "cpu", checksum: str = "abc") -> str:
    fold = tiny_fold(checksum=checksum)
    first = parts.plan(config, [fold], device)[0]
    return parts.file_name(first, fold, config.data, device)


def test_a_part_s_file_changes_its_name_with_all_that_can_move_a_number():
    config = parse_config(CONFIG.replace("seeds = 10", "seeds = 10\nseeds_at_once = 2"))
    name = named(config)
    assert name.startswith("olranknet-1-0-")
    assert name == named(config)
    assert name != named(config, device="gpu")
    assert name != named(config, checksum="abd")
    run = config.run
    for other in (
        run.model_copy(update={"rounds": 51}),
        run.model_copy(update={"seeds_at_once": 3}),
        run.model_copy(update={"replicas_at_once": 2}),
    ):
        assert name != named(config.model_copy(update={"run": other}))
    more_seeds = run.model_copy(update={"seeds": 12})  # its first two run as they did
    assert name == named(config.model_copy(update={"run": more_seeds}))


def test_a_finished_part_says_what_ran_where_and_how_wide(monkeypatch: pytest.MonkeyPatch):
    fake = FakeSimulate()
    monkeypatch.setattr(parts, "simulate_task", fake)
    first = replace(planned()[0], run=planned()[0].run.model_copy(update={"replicas_at_once": 3}))
    about = parts.simulate_part(first, tiny_fold(), lambda done, of: None).about
    assert fake.calls[0]["options"].batch == 3
    assert (about["replicas"], about["seeds_at_once"]) == (8, 2)
    assert about["replicas_at_once"] == [4]  # what the engine told: here, all lines
    assert about["machine"]["device"] == "cpu"


STREAMED = """
name = "streamed"
data.synthetic = "small"
[run]
users = ["perfect", "informational", "random"]
rounds = 30
seeds = 1
replicas_at_once = 2
[[ranker]]
name = "pdgd-linear"
"""


def test_rows_of_an_unfinished_part_are_on_the_disk_after_every_chunk(tmp_path, monkeypatch):
    """Chunks of 10 of 30 rounds, two batches: what is there is how the finished rows begin."""
    monkeypatch.setattr(sweep.lockstep.run, "__kwdefaults__", {
        **sweep.lockstep.run.__kwdefaults__, "chunk": 10
    })  # fmt: skip
    config = parse_config(STREAMED)
    fold = load_folds(config.data)[0]
    part = parts.plan(config, [fold], "cpu")[0]
    file, seen = tmp_path / "a.unfinished", []

    def look(done: int, of: int) -> None:
        if file.is_file():
            seen.append(pl.read_parquet(file))

    finished = parts.simulate_part(part, fold, look, file)
    assert not file.exists()
    assert [(int(rows["round"].max()), rows["user"].n_unique()) for rows in seen] == [
        (10, 2), (20, 2), (20, 2), (20, 3), (20, 3)
    ]  # fmt: skip
    key = ["user", "seed", "round", "metric"]
    for rows in seen:
        both = rows.join(finished.rows, on=key, suffix="_end")
        assert both.height == rows.height
        assert (both["value"].eq_missing(both["value_end"])).all()
