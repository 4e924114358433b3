"""Tables of a contest: how shares of the way to a skyline are told."""

from math import inf

import numpy as np
import polars as pl
import pytest

from olrank.experiments.reports import contest_tables
from olrank.experiments.reports.contest_tables import PARTS, Found
from olrank.experiments.reports.verdicts import LEFT_OUT


@pytest.mark.parametrize(
    ("share", "low", "high", "told"),
    [
        (0.25, -0.5, 1.25, "25% (-50% to 125%)"),
        (-0.001, -0.004, 0.01, "0% (0% to 1%)"),
        (0.5, -inf, inf, "50% (no bounds: the distance may be 0)"),
    ],
)
def test_a_share_is_told_with_its_bounds_where_it_has_any(share, low, high, told):
    assert contest_tables._share({"share": share, "low": low, "high": high}) == told


def found(labels: float) -> Found:
    """Two cells: the baseline is at .6 for one user and at .7 for the other, ours at .7."""
    users = {"perfect": 0.7, "informational": 0.6}
    lines = [
        {"ranker": ranker, "role": role, "name": ranker, "user": user, "value": value}
        for user, base in users.items()
        for ranker, role, value in (("a", "baseline", base), (LEFT_OUT, "best", 0.7))
    ]
    where = {"dataset": "set", "stop": "clicked", "fold": "1", "seed": 0, "round": 30}
    rows = pl.DataFrame(lines).with_columns(
        pl.lit(value).alias(name) for name, value in {**where, "metric": "ndcg@10"}.items()
    )
    drawn = {(x["ranker"], x["user"], "clicked"): np.array([x["value"]]) for x in lines}
    drawn["labels", "-", "-"] = np.array([labels])
    return Found(rows, {"set": drawn}, {}, None, {"set": {"labels": labels}})


def test_cells_without_room_below_a_skyline_are_counted():
    told = PARTS["closed"](found(labels=0.8))
    assert told[2:5] == [
        "| set | perfect | clicked | a | labels | .100 | 0% (0% to 0%) |",
        "| set | informational | clicked | a | labels | .200 | 50% (50% to 50%) |",
        "",
    ]
    assert told[5] == "Mean over these 2 cells: 25%."
    some = PARTS["closed"](found(labels=0.71))[4]
    above = "is a skyline more than .02 above the best baseline."
    assert some == f"Mean over these 1 cells: 91%. In none of the other 1 {above}"
    assert PARTS["closed"](found(labels=0.6))[0] == f"In no cell {above}"
    last = PARTS["closed"](found(labels=0.6))[-1]
    assert "all labels: set .600. Put to the same lower bound" in last
    assert f"it keeps up in 1 of 2 cells, and {LEFT_OUT} in 2 of 2;" in last
