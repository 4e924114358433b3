"""kill -9 at every named point of the real processes: the short form of crashtest.py.

About three seconds a kill; OLRANK_KILLS changes how many.
"""

import os
from pathlib import Path

import pytest
from service import crashtest


def test_kills_at_every_point_lose_nothing_and_teach_nothing_twice(tmp_path: Path) -> None:
    n_kills = int(os.environ.get("OLRANK_KILLS", "50"))
    figures = crashtest.crashtest(tmp_path, n_kills, seed=3)
    assert figures["kills"] >= n_kills
    assert figures["events_lost"] == 0
    assert figures["events_accepted_twice"] == 0
    assert figures["digests_equal"]
    if n_kills >= 50:
        assert set(figures["kills_by_point"]) == {*crashtest.crashpoints.POINTS, "anywhere"}


def test_a_service_that_acknowledges_before_it_commits_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutant that the test above must kill.

    It loses a ranking, whose events are then unknown, or events, which are then never learned.
    """
    monkeypatch.setattr(crashtest, "POINTS", ["store.acknowledged"])
    monkeypatch.setattr(crashtest, "_PATIENCE_S", 120.0)  # what is lost does not come
    with pytest.raises(AssertionError, match=r"unknown_ranking|\d+ of \d+ learned"):
        crashtest.crashtest(tmp_path, 20, seed=3, mutant="early")
