"""Which files a module reaches."""

from pathlib import Path

import pytest

import olrank
from olrank.experiments.running.code import checksum, reached
from olrank.experiments.running.made_by import made_by
from olrank.rankers import table

ROOT = Path(olrank.__file__).parent


def names(*modules: str) -> set[str]:
    return {file.relative_to(ROOT).as_posix() for file in reached(ROOT, modules)}


def test_a_ranker_reaches_what_it_is_made_of_and_no_other_ranker():
    found = names("olrank.rankers.pdgd")
    assert {"rankers/pdgd.py", "explore/plackett_luce.py", "types.py"} <= found
    assert "rankers/olranknet.py" not in found


def test_the_engine_is_reached_through_everything_between():
    assert {"engine/measure.py", "engine/lockstep.py", "metrics/ndcg.py", "users/presets.py"} <= (
        names("olrank.engine.bare")
    )


@pytest.mark.parametrize("ranker", table.names())
def test_every_ranker_is_found_by_its_own_file(ranker):
    module = table.entry(ranker).factory.__module__
    assert module.startswith("olrank.rankers.")
    assert names(module)


def test_a_checksum_follows_names_and_contents(tmp_path):
    (tmp_path / "a.py").write_text("1")
    (tmp_path / "b.py").write_text("2")
    files = [tmp_path / "a.py", tmp_path / "b.py"]
    before = checksum(tmp_path, files)
    assert checksum(tmp_path, reversed(files)) == before
    (tmp_path / "b.py").write_text("3")
    assert checksum(tmp_path, files) != before


def test_a_job_of_one_ranker_does_not_follow_the_code_of_another():
    made = {name: made_by(name)["code"] for name in ("pdgd-linear", "olranknet")}
    assert made["pdgd-linear"] != made["olranknet"]
    assert made["pdgd-linear"] == made_by("pdgd-neural")["code"]  # of the same file
    assert made_by("olranknet", "experiments/running/parts.py")["code"] != made["olranknet"]


def test_what_draws_and_writes_moves_no_part(monkeypatch):
    seen: list[set[str]] = []

    def noted(root, files):
        seen.append({file.relative_to(root).as_posix() for file in files})
        return "code"

    monkeypatch.setattr("olrank.experiments.running.made_by.checksum", noted)
    made_by.cache_clear()
    made_by("olranknet", "experiments/running/parts.py")
    made_by(None)
    made_by.cache_clear()
    part, everything = seen
    assert {"rankers/olranknet.py", "engine/bare.py", "experiments/running/parts.py"} <= part
    for file in part | everything:
        assert not file.startswith(("figures", "service", "cli", "experiments/reports"))
