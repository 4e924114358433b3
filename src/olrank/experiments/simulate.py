"""Simulate rankers on one fold, and give what was measured as rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from olrank.engine import lockstep
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
    rows = simulate_lines(ranker, data, {f"ndcg@{k}": test}, [line], options, progress)
    return rows.drop("settings")


def simulate_lines(
    ranker: str,
    data: Dataset,
    held_out: Mapping[str, Dataset],
    lines: Sequence[Line],
    options: Options,
    progress: lockstep.Progress | None = None,
    batched: Callable[[int], None] | None = None,
    so_far: Callable[[list[int], pl.DataFrame], None] | None = None,
) -> pl.DataFrame:
    """Several settings, users and stop rules of one ranker at once: `measure`, as rows.

    Returns:
        Rows as in `simulate`, with the column `settings` for the label of each line.
    """

    def tell(running: list[int], found: Curves) -> None:
        if so_far is not None:
            some = [lines[i] for i in running]
            so_far(running, rows_of(ranker, data, some, options, found))

    heard = None if so_far is None else tell
    found = measure(ranker, data, held_out, lines, options, progress, batched, heard)
    return rows_of(ranker, data, lines, options, found)


def rows_of(
    ranker: str, data: Dataset, lines: Sequence[Line], options: Options, found: Curves
) -> pl.DataFrame:
    """Curves as long rows, a metric a line; see `simulate_lines`."""
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


def _rows(found: Curves, replica: int, options: Options) -> pl.DataFrame:
    n_seeds, n_at = len(options.seeds), len(found.evaluated)
    return pl.concat(
        pl.DataFrame(
            {
                "seed": np.repeat(np.asarray(options.seeds, np.int64), n_at),
                "round": np.tile(found.evaluated, n_seeds),
                "metric": [name] * (n_seeds * n_at),
                "value": values[:, replica].reshape(-1),
            }
        )
        for name, values in found.metrics.items()
    )


def _conventions(made: table.Made, data: Dataset, options: Options) -> str:
    chosen: dict[str, Any] = {"k": options.k, "gamma": options.gamma, "empty": options.empty}
    chosen |= {"normalise": data.normalise, "preset": made.settings["preset"]}
    for name in ("network", "pairs", "order", "update", "confidence", "interleaving"):
        if name in made.settings:
            chosen[name] = made.settings[name]
    return " ".join(f"{name}={value}" for name, value in chosen.items())
