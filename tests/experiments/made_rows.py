"""Rows whose every value is arithmetic, and a simulate that makes them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl

from olrank.engine.bare import Task
from olrank.types import Dataset, Fold

ROUNDS = (1, 10, 100)


def made_value(metric: str, ranker: str, seed: int, at: int) -> float:
    """Longer names rank better, later rounds too; seeds differ by a hundredth."""
    scale = {"ndcg@10": 0.01, "online_ndcg": 1.0, "regret": 5.0, "certain_ratio": 0.02}[metric]
    return scale * (len(ranker) + np.log10(at)) + 0.01 * seed


def made_rows(
    rankers: Sequence[str] = ("olranknet", "pdgd-linear"),
    users: Sequence[str] = ("perfect",),
    stops: Sequence[str] = ("clicked",),
    folds: Sequence[str] = ("1",),
    seeds: Sequence[int] = (0, 1),
    rounds: Sequence[int] = ROUNDS,
) -> pl.DataFrame:
    """One value for everything asked for; only olranknet has a certain ratio."""
    lines = [
        {
            "ranker": ranker,
            "settings": "",
            "dataset": "made",
            "fold": fold,
            "user": user,
            "stop": stop,
            "seed": seed,
            "round": at,
            "metric": metric,
            "value": made_value(metric, ranker, seed, at),
            "conventions": f"k=10 empty=skip settings={ranker}",
        }
        for ranker in rankers
        for fold in folds
        for user in users
        for stop in stops
        for seed in seeds
        for at in rounds
        for metric in ("ndcg@10", "online_ndcg", "regret", "certain_ratio")
        if metric != "certain_ratio" or ranker == "olranknet"
    ]
    return pl.DataFrame(lines)


class FakeSimulate:
    """Stands in for `simulate_task`: remembers its calls, and may fail at one of them."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.calls: list[dict[str, Any]] = []
        self.fails_at = fails_at

    def __call__(
        self,
        task: Task,
        progress: Callable[[int, int], None],
        batched: Callable[[int], None],
        so_far: Callable[[list[int], pl.DataFrame], None] | None = None,
    ) -> pl.DataFrame:
        if len(self.calls) == self.fails_at:
            raise KeyboardInterrupt
        self.calls.append(task._asdict())
        lines, options = task.lines, task.options
        progress(options.rounds // 2, options.rounds)
        batched(len(lines))
        return made_rows(
            rankers=[options.label],
            users=list(dict.fromkeys(line.user for line in lines)),
            stops=list(dict.fromkeys(line.stop for line in lines)),
            folds=[options.fold],
            seeds=options.seeds,
        )


def tiny_dataset(name: str = "tiny", checksum: str = "abc") -> Dataset:
    """Two queries of two documents, two features."""
    return Dataset(
        name=name,
        features=np.eye(4, 2, dtype=np.float32),
        grades=np.array([0, 1, 2, 0], dtype=np.int32),
        offsets=np.array([0, 2, 4], dtype=np.int64),
        query_ids=["1", "2"],
        max_grade=2,
        checksum=checksum,
    )


def tiny_fold(name: str = "1", checksum: str = "abc") -> Fold:
    """A fold whose three parts are the same two queries."""
    part = tiny_dataset(checksum=checksum)
    return Fold(name, part, part, part)
