"""Simulate rankers on one fold, and give what was measured as rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from olrank.engine import lockstep, sweep
from olrank.errors import ConfigError
from olrank.metrics.ndcg import EmptyRule
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


@dataclass(frozen=True)
class Options:
    """What all lines of a simulation share.

    Attributes:
        rounds: T, queries served.
        seeds: each meets every line with the same queries and moods.
        k: slots shown, and the cut-off of NDCG.
        gamma: discount of the cumulative online NDCG.
        empty: how test queries without a relevant document count offline; online they count as 0.
        fold: the fold's name; it is in the rows and in the random keys.
        label: what rows call the ranker, its name when empty.
        evaluate_after: rounds to measure after; log-spaced and even ones when None.
        batch: replicas at once; as many as fit when None.
    """

    rounds: int = 1000
    seeds: tuple[int, ...] = tuple(range(5))
    k: int = 10
    gamma: float = GAMMA
    empty: EmptyRule = "skip"
    fold: str = ""
    label: str = ""
    evaluate_after: tuple[int, ...] | None = None
    batch: int | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be simulated."""
        for what, value, least in (("rounds", self.rounds, 1), ("k", self.k, 2)):
            if value < least:
                raise ConfigError(f"{what}: must be at least {least}, not {value}.")
        if not self.seeds:
            raise ConfigError("seeds: at least one is needed.")


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
) -> pl.DataFrame:
    """Several settings, users and stop rules of one ranker at once; see `simulate`.

    Args:
        ranker: a name of the table.
        data: queries are drawn from it.
        held_out: metric name -> data set that it is the offline NDCG of.
        lines: the replicas.
        options: what they share.
        progress: called with (rounds done, rounds in all).
        batched: called with the padded width of every batch.

    Returns:
        Rows as in `simulate`, with the column `settings` for the label of each line.
    """
    _check(data, held_out.values(), lines, options.k)
    made = [table.make(ranker, {**line.settings, "k": options.k}) for line in lines]
    top_grade = max(part.max_grade for part in (data, *held_out.values()))
    users = [_user(line, top_grade, options.k, data) for line in lines]
    measured = sweep.run(
        [sweep.Replica(m.ranker, m.numbers, u) for m, u in zip(made, users, strict=True)],
        [lockstep.shard_key(data.name, options.fold, seed) for seed in options.seeds],
        data,
        list(held_out.values()),
        rounds=options.rounds,
        k=options.k,
        empty=options.empty,
        evaluate_after=options.evaluate_after,
        batch=options.batch,
        progress=progress,
        batched=batched,
    )
    certainty = made[0].entry.knows_certainty
    frames = [
        _rows(measured, r, list(held_out), options, certainty).select(
            pl.lit(options.label or ranker).alias("ranker"),
            pl.lit(data.name).alias("dataset"),
            pl.lit(options.fold).alias("fold"),
            pl.lit(line.user if isinstance(line.user, str) else "custom").alias("user"),
            pl.lit(line.stop).alias("stop"),
            "seed",
            "round",
            "metric",
            "value",
            pl.lit(_conventions(made[r], data, options)).alias("conventions"),
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
    options: Options,
    certainty: bool,
) -> pl.DataFrame:
    """Long rows of a replica, a metric a line, at the evaluated rounds; sums from the first on."""
    at = measured.evaluated - 1
    discounts = options.gamma ** np.arange(measured.online.shape[-1])
    metrics = {name: measured.offline[h, :, replica] for h, name in enumerate(held_out)}
    metrics |= {
        "online_ndcg": np.cumsum(measured.online[:, replica] * discounts, axis=1)[:, at],
        "regret": np.cumsum(measured.regret[:, replica], axis=1)[:, at],
        "examined_regret": np.cumsum(measured.examined_regret[:, replica], axis=1)[:, at],
    }
    if certainty:
        ratios = measured.certain_ratio[:, replica]
        metrics["certain_ratio"] = _since_last(ratios, measured.evaluated)
    n_seeds, n_at = len(options.seeds), len(at)
    return pl.concat(
        pl.DataFrame(
            {
                "seed": np.repeat(np.asarray(options.seeds, np.int64), n_at),
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


def _conventions(made: table.Made, data: Dataset, options: Options) -> str:
    chosen: dict[str, Any] = {"k": options.k, "gamma": options.gamma, "empty": options.empty}
    chosen |= {"normalise": data.normalise, "preset": made.settings["preset"]}
    for name in ("network", "pairs", "order", "update", "confidence", "interleaving"):
        if name in made.settings:
            chosen[name] = made.settings[name]
    return " ".join(f"{name}={value}" for name, value in chosen.items())


def _check(data: Dataset, held_out: Iterable[Dataset], lines: Sequence[Line], k: int) -> None:
    for test in held_out:
        if data.n_features != test.n_features:
            raise ConfigError(
                f"data has {data.n_features} features, test has {test.n_features}. Read both with "
                "the same n_features."
            )
    for line in lines:
        if line.settings.get("k", k) != k:
            raise ConfigError(
                f"settings k = {line.settings['k']}, but the lists shown have k = {k} slots. Give "
                "k once, to the simulation."
            )
