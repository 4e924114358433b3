"""Search, runs and longer runs as jobs: what is run, with which settings, and what is kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from olrank.engine import bare
from olrank.errors import ConfigError, WaitingError
from olrank.experiments.paper import stages
from olrank.experiments.paper.found import folds_of
from olrank.experiments.paper.protocol import GRIDS, PAPER, QUICK, Protocol
from olrank.experiments.running import jobs
from olrank.experiments.running.progress import Load, Silent
from olrank.types import Fold

GRID = {"learning_rate": [0.1, 0.01], "lambda": [1.0, 2.0, 3.0]}
SMALL = Protocol({"olranknet": GRID, "pdgd-linear": {"learning_rate": [0.1, 0.01]}}, rounds=20)


@pytest.fixture(scope="module")
def fold() -> Fold:
    return folds_of(QUICK.shapes[0])[0]


@pytest.fixture(scope="module")
def places(fold) -> list[stages.Place]:
    return [stages.Place(fold, "gpu")]


def test_the_paper_s_grid_has_the_sizes_that_its_section_5_names():
    sizes = {name: len(stages._every_line(PAPER, name)) for name in GRIDS}
    cells = 3 * 2  # users and stop rules
    assert sizes["olranknet"] == sizes["ollambdarank"] == 4 * 4 * 3 * cells
    assert sizes["pairrank"] == 4 * 4 * cells
    assert sizes["pdgd-linear"] == sizes["dbgd-neural"] == 3 * cells


def test_the_search_runs_every_setting_with_seeds_of_its_own(places):
    search, final = stages.search_jobs(SMALL, places), stages.final_jobs(SMALL, places, None)
    assert search[0].load == Load(2 * 3 * 6 * 2, 20)  # rates, lambdas, cells, seeds
    assert final[0].load == Load(6 * 10, 20)
    of_search = set(search[0].determined_by["options"]["seeds"])
    assert of_search.isdisjoint(final[0].determined_by["options"]["seeds"])


def test_the_search_never_looks_at_the_test_part(places):
    assert all(
        job.determined_by["held_out"] == ["validation_ndcg@10"]
        for job in stages.search_jobs(SMALL, places)
    )


def test_chosen_settings_are_run_for_the_user_and_stop_rule_they_were_chosen_for(places, fold):
    chosen = {
        (name, fold.train.name, "1", user, stop): label
        for name, labels in (("olranknet", 6), ("pdgd-linear", 2))
        for user in SMALL.users
        for stop in SMALL.stops
        for label in [_labels(name)[SMALL.users.index(user) % labels]]
    }
    first = stages.final_jobs(SMALL, places, chosen)[0]
    lines = first.determined_by["lines"]
    assert [(line["user"], line["label"]) for line in lines if line["stop"] == "clicked"] == [
        (user, _labels("olranknet")[i]) for i, user in enumerate(SMALL.users)
    ]
    longer = stages.longer_jobs(SMALL, places, chosen)
    assert {job.determined_by["ranker"] for job in longer} == {"pdgd-linear"}
    assert longer[0].load.rounds == 4 * 20


def _labels(name: str) -> list[str]:
    return [label for _, label in stages.grid(SMALL.grids[name])]


def test_titles_do_not_depend_on_what_is_chosen_and_none_is_there_twice(places):
    coming = [
        *stages.search_jobs(SMALL, places),
        *stages.final_jobs(SMALL, places, None),
        *stages.longer_jobs(SMALL, places, None),
    ]
    titles = [job.title for job in coming]
    assert len(set(titles)) == len(titles)


def made_job(title: str, done: list[str], **told: int) -> jobs.Job:
    def work(progress) -> pl.DataFrame:
        progress(1, 1)
        done.append(title)
        return pl.DataFrame({"value": [1.0]})

    return jobs.Job(title, Load(1, 1), dict(told), work)


def test_a_finished_job_is_not_done_again_and_a_changed_one_is(tmp_path: Path):
    done: list[str] = []
    for lines in ([made_job("a", done)], [made_job("a", done), made_job("b", done)]):
        found = jobs.Runner(tmp_path, Silent()).finish(lines)
    assert done == ["a", "b"]
    assert [rows["value"].to_list() for rows in found] == [[1.0], [1.0]]
    jobs.Runner(tmp_path, Silent()).finish([made_job("a", done, seeds=2)])
    assert done == ["a", "b", "a"]


def test_a_job_that_was_killed_leaves_those_before_it(tmp_path: Path):
    done: list[str] = []

    def killed(progress) -> pl.DataFrame:
        raise KeyboardInterrupt

    broken = jobs.Job("broken", Load(1, 1), {}, killed)
    with pytest.raises(KeyboardInterrupt):
        jobs.Runner(tmp_path, Silent()).finish([made_job("a", done), broken])
    jobs.Runner(tmp_path, Silent()).finish([made_job("a", done)])
    assert done == ["a"]


def test_tasks_for_a_bare_machine_give_the_rows_of_a_run_here(places, tmp_path: Path):
    tiny = replace(SMALL, seeds=1, rounds=4, search_seeds=None).only(("pdgd-linear",))
    coming = stages.final_jobs(tiny, places, None)
    elsewhere = tmp_path / "tasks"
    runner = jobs.Runner(tmp_path / "a", Silent(), elsewhere)
    assert runner.finish(coming) is None
    with pytest.raises(WaitingError, match="1 parts are in"):
        runner.wait()
    assert bare.tasks(elsewhere) == [coming[0].name]
    bare.run(elsewhere, coming[0].name)
    again = jobs.Runner(tmp_path / "a", Silent(), elsewhere)
    (there,) = again.finish(coming)
    again.wait()
    (here,) = jobs.Runner(tmp_path / "b", Silent()).finish(coming)
    assert there.equals(here)


def test_numbers_that_are_given_change_the_protocol_and_others_stay():
    changed = PAPER.changed(rounds=100, seeds=None, search_rounds=50)
    assert (changed.rounds, changed.seeds, changed.search_rounds) == (100, 10, 50)
    with pytest.raises(ConfigError, match="--search-rounds: must be at least 1"):
        PAPER.changed(search_rounds=0)
    with pytest.raises(ConfigError, match="--search-seeds: the quick form"):
        QUICK.changed(search_seeds=1)


def test_the_search_may_be_shorter_than_the_runs(places):
    short = SMALL.changed(search_rounds=5)
    assert {job.load.rounds for job in stages.search_jobs(short, places)} == {5}
    assert {job.load.rounds for job in stages.final_jobs(short, places, None)} == {20}
