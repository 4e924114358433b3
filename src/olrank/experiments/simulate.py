"""Simulate rankers on one fold, and give what was measured as rows."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl

from olrank.engine import lockstep, sweep
from olrank.errors import ConfigError
from olrank.metrics.online import GAMMA
from olrank.rankers import table
from olrank.types import Dataset
from olrank.users import presets
from olrank.users.user import User


class Line(NamedTuple):
    """One replica, in words.

    Attributes:
        settings: of the ranker; "preset" picks a named set.
        user: a name of `olrank.users.presets.names()`, or a User.
        stop: when a named user may stop.
        label: what rows say of the settings.
    """

    settings: Mapping[str, Any]
    user: str | User
    stop: str
    label: str = ""


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
    empty: Literal["skip", "zero", "one"] = "skip",
    fold: str = "",
    label: str | None = None,
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
    return simulate_lines(
        ranker,
        data,
        {f"ndcg@{k}": test},
        [Line(settings or {}, user, stop)],
        rounds=rounds,
        seeds=seeds,
        k=k,
        gamma=gamma,
        empty=empty,
        fold=fold,
        label=label,
        evaluate_after=evaluate_after,
        progress=progress,
    ).drop("settings")


def simulate_lines(
    ranker: str,
    data: Dataset,
    held_out: Mapping[str, Dataset],
    lines: Sequence[Line],
    *,
    rounds: int,
    seeds: int | Sequence[int],
    k: int = 10,
    gamma: float = GAMMA,
    empty: Literal["skip", "zero", "one"] = "skip",
    fold: str = "",
    label: str | None = None,
    evaluate_after: Sequence[int] | None = None,
    batch: int | None = None,
    progress: lockstep.Progress | None = None,
) -> pl.DataFrame:
    """Several settings, users and stop rules of one ranker at once; see `simulate`.

    Args:
        ranker: a name of the table.
        data: queries are drawn from it.
        held_out: metric name -> data set that it is the offline NDCG of.
        lines: the replicas.
        rounds: T.
        seeds: how many, or which; each meets every line with the same queries and moods.
        k: slots shown, and the cut-off of NDCG.
        gamma: discount of the cumulative online NDCG.
        empty: how held-out queries without a relevant document count.
        fold: the fold's name.
        label: what rows call the ranker.
        evaluate_after: rounds to measure after.
        batch: replicas at once; as many as fit when None.
        progress: called with (rounds done, rounds in all).

    Returns:
        Rows as in `simulate`, with the column `settings` for the label of each line.
    """
    seed_list = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    _check(data, list(held_out.values()), rounds, k, seed_list)
    for line in lines:
        if line.settings.get("k", k) != k:
            raise ConfigError(
                f"settings k = {line.settings['k']}, but the lists shown have k = {k} slots. Give "
                "k once, to the simulation."
            )
    made = [table.make(ranker, {**line.settings, "k": k}) for line in lines]
    top_grade = max(part.max_grade for part in (data, *held_out.values()))
    users = [_user(line, top_grade, k, data) for line in lines]
    measured = sweep.run(
        [sweep.Replica(m.ranker, m.numbers, u) for m, u in zip(made, users, strict=True)],
        [lockstep.shard_key(data.name, fold, seed) for seed in seed_list],
        data,
        list(held_out.values()),
        rounds=rounds,
        k=k,
        empty=empty,
        evaluate_after=evaluate_after,
        batch=batch,
        progress=progress,
    )
    certainty = made[0].entry.knows_certainty
    frames = [
        _rows(measured, r, list(held_out), seed_list, gamma, certainty).select(
            pl.lit(label or ranker).alias("ranker"),
            pl.lit(data.name).alias("dataset"),
            pl.lit(fold).alias("fold"),
            pl.lit(line.user if isinstance(line.user, str) else "custom").alias("user"),
            pl.lit(line.stop).alias("stop"),
            "seed",
            "round",
            "metric",
            "value",
            pl.lit(_conventions(made[r], data, k, gamma, empty)).alias("conventions"),
            pl.lit(line.label).alias("settings"),
        )
        for r, line in enumerate(lines)
    ]
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


def _user(line: Line, top_grade: int, k: int, data: Dataset) -> User:
    if not isinstance(line.user, str):
        someone = line.user
    else:
        someone = presets.user(line.user, top_grade, line.stop, k)
    name = line.user if isinstance(line.user, str) else "custom"
    if someone.p_click.shape[0] <= top_grade:
        raise ConfigError(
            f'user "{name}" has chances for {someone.p_click.shape[0]} grades, the data goes up to '
            f"grade {top_grade}. Give one chance for each grade from 0."
        )
    if bool(someone.from_relevance > 0) and data.relevance is None:
        raise ConfigError(
            f'user "{name}" clicks by the true relevance h, which {data.name} does not have. '
            "Use synthetic data, or another user."
        )
    return someone


def _rows(
    measured: lockstep.Measured,
    replica: int,
    held_out: list[str],
    seeds: list[int],
    gamma: float,
    certainty: bool,
) -> pl.DataFrame:
    """Long rows of a replica, a metric a line, at the evaluated rounds; sums from the first on."""
    at = measured.evaluated - 1
    discounts = gamma ** np.arange(measured.online.shape[-1])
    metrics = {name: measured.offline[h, :, replica] for h, name in enumerate(held_out)}
    metrics |= {
        "online_ndcg": np.cumsum(measured.online[:, replica] * discounts, axis=1)[:, at],
        "regret": np.cumsum(measured.regret[:, replica], axis=1)[:, at],
        "examined_regret": np.cumsum(measured.examined_regret[:, replica], axis=1)[:, at],
    }
    if certainty:
        ratios = measured.certain_ratio[:, replica]
        metrics["certain_ratio"] = _since_last(ratios, measured.evaluated)
    n_seeds, n_at = len(seeds), len(at)
    return pl.concat(
        pl.DataFrame(
            {
                "seed": np.repeat(np.asarray(seeds, np.int64), n_at),
                "round": np.tile(measured.evaluated, n_seeds),
                "metric": [name] * (n_seeds * n_at),
                "value": values.reshape(-1),
            }
        )
        for name, values in metrics.items()
    )


def _since_last(values: np.ndarray[Any, Any], evaluated: np.ndarray[Any, Any]) -> Any:
    """[S, E] means over the rounds since the evaluation before, leaving NaN out."""
    edges = np.concatenate([[0], evaluated])
    known = ~np.isnan(values)
    sums = np.concatenate([np.zeros((len(values), 1)), np.cumsum(np.nan_to_num(values), 1)], 1)
    counts = np.concatenate([np.zeros((len(values), 1)), np.cumsum(known, 1)], 1)
    n = np.diff(counts[:, edges], axis=1)
    return np.where(n > 0, np.diff(sums[:, edges], axis=1) / np.maximum(n, 1), np.nan)


def _conventions(made: table.Made, data: Dataset, k: int, gamma: float, empty: str) -> str:
    chosen = {"k": k, "gamma": gamma, "empty": empty, "normalise": data.normalise}
    chosen["preset"] = made.settings["preset"]
    for name in ("network", "pairs", "order", "update", "confidence", "interleaving"):
        if name in made.settings:
            chosen[name] = made.settings[name]
    return " ".join(f"{name}={value}" for name, value in chosen.items())


def _check(
    data: Dataset, held_out: list[Dataset], rounds: int, k: int, seeds: Sequence[int]
) -> None:
    for test in held_out:
        if data.n_features != test.n_features:
            raise ConfigError(
                f"data has {data.n_features} features, test has {test.n_features}. Read both with "
                "the same n_features."
            )
    for what, value, least in (("rounds", rounds, 1), ("k", k, 2)):
        if value < least:
            raise ConfigError(f"{what}: must be at least {least}, not {value}.")
    if not seeds:
        raise ConfigError("seeds: at least one is needed.")
