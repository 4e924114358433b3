"""Entrants as jobs: what runs together, and whose rows come out."""

import numpy as np
import pytest
from experiments.contest.made_contest import made_measure
from experiments.made_rows import tiny_dataset

from olrank.engine.measure import Options
from olrank.experiments.contest import tasks
from olrank.experiments.contest.arena import Arena
from olrank.experiments.contest.tasks import Entrant, make_jobs

OPTIONS = Options(rounds=20, seeds=(0, 3), evaluate_after=(10, 20), per_query=True)
ARENA = Arena("2", tiny_dataset("set", "train"), tiny_dataset("set", "judged"), "ndcg@10")


@pytest.fixture(autouse=True)
def _arithmetic(monkeypatch):
    monkeypatch.setattr(tasks, "measure", made_measure)


def entrant(title="a", name="pdgd-linear", user="perfect", **settings):
    settings = {"learning_rate": 0.1, **settings}
    return Entrant("baseline", title, name, settings, str(settings), user, "clicked")


def jobs(*entrants, **rest):
    return make_jobs("search", ARENA, entrants, OPTIONS, "cpu", **rest)


def test_settings_and_users_of_one_design_are_one_task_and_designs_are_apart():
    numbers = [entrant(learning_rate=rate, user=u) for rate in (0.1, 0.2) for u in ("a", "b")]
    found = jobs(*numbers, entrant(title="wide", name="pdgd-neural"), entrant(update_every=2))
    assert [(job.task.ranker, len(job.task.lines)) for job in found] == [
        ("pdgd-linear", 4),
        ("pdgd-linear", 1),
        ("pdgd-neural", 1),
    ]
    assert len({job.title for job in found}) == len({job.name for job in found}) == 3


def test_the_same_entrant_under_two_names_runs_once_and_has_rows_under_both():
    (job,) = jobs(entrant("best"), entrant("best (leave-one-out)"))
    assert len(job.task.lines) == 1
    rows = job.work(lambda done, of: None).filter(metric="ndcg@10")
    one, other = (rows.filter(ranker=name).drop("ranker") for name in rows["ranker"].unique())
    assert not one.is_empty()
    assert one.equals(other)


def test_tasks_are_of_one_width_and_what_fills_them_has_no_rows():
    rates = [0.1, 0.2, 0.3, 0.4, 0.5]
    found = jobs(*(entrant(learning_rate=rate) for rate in rates), at_once=3)
    assert [len(job.task.lines) for job in found] == [3, 3]
    rows = [job.work(lambda done, of: None) for job in found]
    last = [part.filter(metric="online_ndcg", round=20, seed=0)["value"].to_list() for part in rows]
    assert sum(last, []) == pytest.approx([10 * 20 * (0.5 + rate) for rate in rates])


def test_rows_say_who_they_are_of_and_queries_are_means_over_seeds():
    (job,) = jobs(entrant(learning_rate=0.2))
    rows = job.work(lambda done, of: None)
    curves = made_measure(*job.task)
    assert rows.equals(job.rows(curves))  # as from a bare machine
    assert rows["given"].unique().to_list() == ['{"learning_rate": 0.2}']
    assert rows["name"].unique().to_list() == ["pdgd-linear"]
    of_queries = rows.filter(rows["query"].is_not_null())
    # 0.5 + rate, seeds 0 and 3 a thousandth apart, two queries half a hundredth off the middle.
    middle = 0.5 + 0.2 + 0.001 * (0 + 3) / 2
    assert of_queries["query"].to_list() == [0, 1]
    np.testing.assert_allclose(of_queries["value"], [middle - 0.005, middle + 0.005], atol=1e-6)


def test_another_part_to_judge_on_is_another_job():
    other = ARENA._replace(judged=tiny_dataset("set", "another"))
    (here,), (there,) = jobs(entrant()), make_jobs("search", other, [entrant()], OPTIONS, "cpu")
    assert here.title == there.title
    assert here.name != there.name
