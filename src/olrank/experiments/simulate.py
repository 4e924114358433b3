"""Simulate one ranker on one data set, and give what was measured as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import polars as pl

from olrank.engine import lockstep
from olrank.errors import ConfigError
from olrank.metrics.online import GAMMA
from olrank.rankers import table
from olrank.types import Dataset
from olrank.users import presets
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
    _check(data, test, rounds, k)
    made = table.make(ranker, {"k": k, **(settings or {})})
    seed_list = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    if not seed_list:
        raise ConfigError("seeds: at least one is needed.")
    top_grade = max(data.max_grade, test.max_grade)
    user_name = user if isinstance(user, str) else "custom"
    someone = presets.user(user, top_grade, stop, k) if isinstance(user, str) else user
    if bool(someone.from_relevance > 0) and data.relevance is None:
        raise ConfigError(
            f'user "{user_name}" clicks by the true relevance h, which {data.name} does not have. '
            "Use synthetic data, or another user."
        )
    measured = lockstep.run(
        made.ranker,
        made.numbers,
        [lockstep.replica_key(data.name, fold, seed) for seed in seed_list],
        data,
        test,
        someone,
        rounds=rounds,
        k=k,
        empty=empty,
        evaluate_after=evaluate_after,
        progress=progress,
    )
    frame = _rows(measured, seed_list, k, gamma, made.entry.knows_certainty)
    return frame.select(
        pl.lit(label or ranker).alias("ranker"),
        pl.lit(data.name).alias("dataset"),
        pl.lit(fold).alias("fold"),
        pl.lit(user_name).alias("user"),
        pl.lit(stop).alias("stop"),
        "seed",
        "round",
        "metric",
        "value",
        pl.lit(_conventions(made, data, k, gamma, empty)).alias("conventions"),
    )


def _rows(
    measured: lockstep.Measured, seeds: list[int], k: int, gamma: float, certainty: bool
) -> pl.DataFrame:
    """Long rows, a metric a line, at the evaluated rounds; sums run from the first round."""
    at = measured.evaluated - 1
    discounts = gamma ** np.arange(measured.online.shape[1])
    metrics = {
        f"ndcg@{k}": measured.offline,
        "online_ndcg": np.cumsum(measured.online * discounts, axis=1)[:, at],
        "regret": np.cumsum(measured.regret, axis=1)[:, at],
        "examined_regret": np.cumsum(measured.examined_regret, axis=1)[:, at],
    }
    if certainty:
        metrics["certain_ratio"] = _since_last(measured.certain_ratio, measured.evaluated)
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
    """[R, E] means over the rounds since the evaluation before, leaving NaN out."""
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


def _check(data: Dataset, test: Dataset, rounds: int, k: int) -> None:
    if data.n_features != test.n_features:
        raise ConfigError(
            f"data has {data.n_features} features, test has {test.n_features}. Read both with the "
            "same n_features."
        )
    for what, value, least in (("rounds", rounds, 1), ("k", k, 2)):
        if value < least:
            raise ConfigError(f"{what}: must be at least {least}, not {value}.")
