"""Drift by hand, and logs that machines can read."""

from __future__ import annotations

import json
import logging
import sys

import numpy as np
import pytest

from olrank.service.telemetry import Drift, JsonLines, Metrics


def test_drift_is_the_shift_of_a_mean_in_its_own_deviations():
    drift = Drift(2, reference=4, memory=1)
    for first in (1.0, 3.0, 1.0, 3.0):  # mean 2, deviation 1; the second feature stands still
        drift.see(np.array([[first, 5.0], [first, 5.0]]))
    assert drift.largest() is None  # the reference is not complete
    drift.see(np.array([[2.0, 5.0]]))
    assert drift.largest() == (0.0, 0)
    drift.see(np.array([[7.0, 5.0]]))
    found = drift.largest()
    assert found is not None
    assert found == (pytest.approx((7 - 2) / 1), 0)


def test_drift_forgets_slowly_and_survives_absurd_values():
    drift = Drift(1, reference=2, memory=10)
    for value in (0.0, 2.0):
        drift.see(np.array([[value]]))
    drift.see(np.array([[11.0]]))
    found = drift.largest()
    assert found is not None
    assert found[0] == pytest.approx((11 - 1) / 10)  # a tenth of the way from 1 to 11
    drift.see(np.array([[3e38]]))
    found = drift.largest()
    assert found is not None
    assert np.isfinite(found[0])


def test_a_log_line_is_one_json_object_with_its_facts():
    record = logging.LogRecord("olrank", logging.ERROR, "f", 1, "it %s", ("broke",), None)
    record.facts = {"ranker": "a\nb"}
    line = JsonLines().format(record)
    assert "\n" not in line
    found = json.loads(line)
    assert (found["level"], found["message"], found["ranker"]) == ("error", "it broke", "a\nb")
    try:
        raise ValueError("why")
    except ValueError:
        record.exc_info = sys.exc_info()
    assert "ValueError: why" in json.loads(JsonLines().format(record))["trace"]


def test_shares_are_counted_by_hand():
    metrics = Metrics()
    metrics.ranked("a", "explore", [3, 2, 1], certain=1, uncertain=2)
    metrics.ranked("a", "greedy", [1, 1, 1], certain=3, uncertain=0)
    read = metrics.registry.get_sample_value
    assert read("olrank_explored_slot_ratio", {"ranker": "a"}) == pytest.approx(2 / 6)
    assert read("olrank_certain_pair_ratio", {"ranker": "a"}) == pytest.approx(4 / 6)
    tally = {"closed": {"client": 3, "unshown": 1}, "trained": 3, "shown": {0: 3}, "clicked": {}}
    metrics.learned("a", {**tally, "oldest_ms": 1000, "at_ms": 3500})
    assert read("olrank_join_ratio", {"ranker": "a"}) == pytest.approx(3 / 4)
    assert read("olrank_learner_lag_seconds") == pytest.approx(2.5)
