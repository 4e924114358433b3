"""Simulate rankers on one fold, and give what was measured as rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from olrank.engine import lockstep
from olrank.engine.bare import Task
from olrank.engine.measure import Curves, Line, Options, measure
from olrank.metrics.ndcg import EmptyRule
from olrank.metrics.online import GAMMA
from olrank.rankers import table
from olrank.types import Dataset
from olrank.users.user import User


def simulate(
    ranker: str,
    data: Dataset,
    test: Dataset,
    *,
    user: str | User = "informational",
    stop: str = "clicked",
    rounds: int = 1000,
    seeds: int | Sequence[int] = 5,
    settings: Mapping[str, Any] | None = None,
    k: int = 10,
    gamma: float = GAMMA,
    empty: EmptyRule = "skip",
    fold: str = "",
    label: str = "",
    evaluate_after: Sequence[int] | None = None,
    progress: lockstep.Progress | None = None,
) -> pl.DataFrame:
    """Let a ranker learn from simulated clicks, and measure it on the way.

    Args:
        ranker: a name of the table, `olrank.rankers.names()`.
        data: queries are drawn from it, uniformly with replacement.
        test: held out; its grades give the offline NDCG.
        user: a name of `olrank.users.presets.names()`, or a User of your own.
        stop: when a named user may stop: "clicked" (the paper) or "examined" (the released code).
        rounds: T, queries served.
        seeds: how many, or which.
        settings: of the ranker; "preset" picks a named set.
        k: slots shown, and the cut-off of NDCG.
        gamma: discount of the cumulative online NDCG.
        empty: how test queries without a relevant document count offline; online they count as 0.
        fold: the fold's name; it is in the rows and in the random keys.
        label: what rows call the ranker, its name by default.
        evaluate_after: rounds to measure after; log-spaced and even ones by default.
        progress: called with (rounds done, rounds in all).

    Returns:
        Rows with columns ranker, dataset, fold, user, stop, seed, round, metric, value, and
        `conventions`, the choices that can move a number.
    """
    options = Options(
        rounds=rounds,
        seeds=tuple(range(seeds) if isinstance(seeds, int) else seeds),
        k=k,
        gamma=gamma,
        empty=empty,
        fold=fold,
        label=label,
        evaluate_after=None if evaluate_after is None else tuple(evaluate_after),
    )
    line = Line(settings or {}, user, stop)
    task = Task(ranker, data, {f"ndcg@{k}": test}, [line], options)
    return simulate_task(task, progress).drop("settings")


def simulate_task(
    task: Task,
    progress: lockstep.Progress | None = None,
    batched: Callable[[int], None] | None = None,
    so_far: Callable[[list[int], pl.DataFrame], None] | None = None,
) -> pl.DataFrame:
    """Several settings, users and stop rules of one ranker at once: `measure`, as rows.

    Returns:
        Rows as in `simulate`, with the column `settings` for the label of each line. Where the
        options ask for it, also rows of single held-out queries, which have a `query`: its index
        in the held-out set, null in all other rows.
    """

    def tell(running: list[int], found: Curves) -> None:
        if so_far is not None:
            some = task._replace(lines=[task.lines[i] for i in running])
            so_far(running, rows_of(some, found))

    found = measure(*task, progress, batched, None if so_far is None else tell)
    return rows_of(task, found)


def rows_of(task: Task, found: Curves) -> pl.DataFrame:
    """Curves as long rows, a metric a line; see `simulate_task`."""
    ranker, data, _, lines, options = task
    frames = []
    for r, line in enumerate(lines):
        made = table.make(ranker, {**line.settings, "k": options.k})
        frames.append(
            _rows(found, r, options).select(
                pl.lit(options.label or ranker).alias("ranker"),
                pl.lit(data.name).alias("dataset"),
                pl.lit(options.fold).alias("fold"),
                pl.lit(line.user if isinstance(line.user, str) else "custom").alias("user"),
                pl.lit(line.stop).alias("stop"),
                "seed",
                "round",
                "metric",
                "value",
                pl.lit(_conventions(made, data, options)).alias("conventions"),
                pl.lit(line.label).alias("settings"),
                *(["query"] if found.by_query else []),
            )
        )
    return pl.concat(frames)


def grid(settings: Mapping[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """Every combination of the settings that are lists, with a label that tells them apart."""
    varied = {name: value for name, value in settings.items() if isinstance(value, list)}
    fixed = {name: value for name, value in settings.items() if name not in varied}
    points = []
    for values in itertools.product(*varied.values()):
        point = dict(zip(varied, values, strict=True))
        label = " ".join(f"{name}={value}" for name, value in point.items())
        points.append(({**fixed, **point}, label))
    return points


def every_line(
    settings: Mapping[str, Any], users: Sequence[str], stops: Sequence[str]
) -> list[Line]:
    """Every combination of settings, user and stop rule."""
    return [
        Line(point, user, stop, label)
        for (point, label), user, stop in itertools.product(grid(settings), users, stops)
    ]


def _rows(found: Curves, replica: int, options: Options) -> pl.DataFrame:
    curves = (
        _long(options, {"round": found.evaluated}, name, values[:, replica])
        for name, values in found.metrics.items()
    )
    last = found.evaluated[-1:]
    queries = (
        _long(
            options,
            {"round": np.repeat(last, values.shape[-1]), "query": np.arange(values.shape[-1])},
            name,
            values[:, replica].astype(np.float64),
        )
        for name, values in found.by_query.items()
    )
    return pl.concat([*curves, *queries], how="diagonal")


def _long(
    options: Options,
    at: Mapping[str, npt.NDArray[np.int64]],
    metric: str,
    values: npt.NDArray[np.float64],
) -> pl.DataFrame:
    """[S, n] values by seed, and where the n of them were measured, a value a line."""
    n_seeds, n = values.shape
    return pl.DataFrame(
        {
            "seed": np.repeat(np.asarray(options.seeds, np.int64), n),
            **{name: np.tile(places, n_seeds) for name, places in at.items()},
            "metric": [metric] * (n_seeds * n),
            "value": values.reshape(-1),
        }
    )


def _conventions(made: table.Made, data: Dataset, options: Options) -> str:
    chosen: dict[str, Any] = {"k": options.k, "gamma": options.gamma, "empty": options.empty}
    chosen |= {"normalise": data.normalise, "preset": made.settings["preset"]}
    if options.taste_changes_after is not None:
        chosen["taste_changes_after"] = options.taste_changes_after
    for name in ("network", "pairs", "order", "update", "confidence", "interleaving"):
        if name in made.settings:
            chosen[name] = made.settings[name]
    return " ".join(f"{name}={value}" for name, value in chosen.items())
