"""Contests without rankers: runs, and LambdaMART, are arithmetic."""

import pytest
from experiments.contest.made_contest import made_by_query, made_measure

from olrank.engine import bare
from olrank.experiments.contest import tasks
from olrank.experiments.running import lambdamart


@pytest.fixture
def played(monkeypatch):
    """Runs are arithmetic, LambdaMART is itself; gives the tasks that were run."""
    ran: list[bare.Task] = []

    def measure(*asked):
        ran.append(bare.Task(*asked[:5]))
        return made_measure(*asked)

    monkeypatch.setattr(tasks, "measure", measure)
    return ran


@pytest.fixture
def arithmetic(played, monkeypatch):
    """Runs and LambdaMART are arithmetic; gives the tasks that were run."""
    monkeypatch.setattr(lambdamart, "available", lambda: True)
    monkeypatch.setattr(lambdamart, "version", lambda: "made up")
    monkeypatch.setattr(lambdamart, "by_query", made_by_query)
    return played
