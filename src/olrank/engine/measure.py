"""From words to curves: replicas named by settings, user and stop rule, measured over rounds.

What a simulation is asked for in words (`Line`, `Options`) becomes replicas of the engine, and what
comes out of the engine becomes curves at the evaluated rounds. NumPy and JAX alone, so that a bare
GPU machine can do it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from olrank.data.taste import with_other_taste
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
        sizes: that queries are padded to; chosen for the data when None. Folds that are given the
            same ones (`olrank.engine.buckets.shared_sizes`) share a compiled step.
        per_query: also keep the NDCG of each held-out query at the end.
        taste_changes_after: the last round before users and judges want something else of the same
            documents (see `olrank.data.taste`); they never do when None.
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
    sizes: tuple[int, ...] | None = None
    per_query: bool = False
    taste_changes_after: int | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be simulated."""
        for what, value, least in (("rounds", self.rounds, 1), ("k", self.k, 2)):
            if value < least:
                raise ConfigError(f"{what}: must be at least {least}, not {value}.")
        if not self.seeds:
            raise ConfigError("seeds: at least one is needed.")
        after = self.taste_changes_after
        if after is not None and not 1 <= after < self.rounds:
            raise ConfigError(
                f"taste_changes_after: must lie between 1 and {self.rounds - 1}, a round before "
                f"the last, not {after}."
            )


class Curves(NamedTuple):
    """What was measured.

    Attributes:
        evaluated: [E] rounds.
        metrics: metric name -> [S, R, E] by seed, line and round; sums run from the first round on.
        by_query: held-out metric name -> [S, R, n_queries] of each query after the last evaluated
            round, NaN where the metric leaves a query out; {} unless `Options.per_query`.
    """

    evaluated: npt.NDArray[np.int64]
    metrics: dict[str, npt.NDArray[np.float64]]
    by_query: dict[str, npt.NDArray[np.float32]] = {}


def measure(
    ranker: str,
    data: Dataset,
    held_out: Mapping[str, Dataset],
    lines: Sequence[Line],
    options: Options,
    progress: lockstep.Progress | None = None,
    batched: Callable[[int], None] | None = None,
    so_far: Callable[[list[int], Curves], None] | None = None,
) -> Curves:
    """Simulate several settings, users and stop rules of one ranker at once.

    Args:
        ranker: a name of the table.
        data: queries are drawn from it.
        held_out: metric name -> data set that it is the offline NDCG of.
        lines: the replicas.
        options: what they share.
        progress: called with (rounds done, rounds in all).
        batched: called with the padded width of every batch.
        so_far: called after every chunk of rounds with the lines that are running, by index, and
            their curves up to there.
    """
    _check(data, held_out.values(), lines, options.k)
    made = [table.make(ranker, {**line.settings, "k": options.k}) for line in lines]
    top_grade = max(part.max_grade for part in (data, *held_out.values()))
    users = [_user(line, top_grade, options.k, data) for line in lines]
    certainty = made[0].entry.knows_certainty

    def tell(running: list[int], measured: lockstep.Measured) -> None:
        if so_far is not None:
            so_far(running, curves(measured, list(held_out), options.gamma, certainty))

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
        sizes=options.sizes,
        per_query=options.per_query,
        change=_change(data, list(held_out.values()), options),
        progress=progress,
        batched=batched,
        so_far=None if so_far is None else tell,
    )
    return curves(measured, list(held_out), options.gamma, certainty)


def curves(
    measured: lockstep.Measured, held_out: Sequence[str], gamma: float, certainty: bool
) -> Curves:
    """What the engine measured, at the evaluated rounds."""
    at = measured.evaluated - 1
    discounts = gamma ** np.arange(measured.online.shape[-1])
    metrics = {name: measured.offline[h] for h, name in enumerate(held_out)}
    metrics |= {
        "online_ndcg": np.cumsum(measured.online * discounts, axis=-1)[..., at],
        "regret": np.cumsum(measured.regret, axis=-1)[..., at],
        "examined_regret": np.cumsum(measured.examined_regret, axis=-1)[..., at],
    }
    if certainty:
        metrics["certain_ratio"] = since_last(measured.certain_ratio, measured.evaluated)
    by_query = dict(zip(held_out, measured.by_query, strict=bool(measured.by_query)))
    return Curves(measured.evaluated, metrics, by_query)


def since_last(
    values: npt.NDArray[np.float64], evaluated: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """[..., E] means of [..., T] over the rounds since the evaluation before, leaving NaN out."""
    edges = np.concatenate([[0], evaluated])
    none = np.zeros((*values.shape[:-1], 1))
    sums = np.concatenate([none, np.cumsum(np.nan_to_num(values), -1)], -1)
    counts = np.concatenate([none, np.cumsum(~np.isnan(values), -1)], -1)
    n = np.diff(counts[..., edges], axis=-1)
    total = np.diff(sums[..., edges], axis=-1)
    return np.where(n > 0, total / np.maximum(n, 1), np.nan)


def _change(data: Dataset, held_out: Sequence[Dataset], options: Options) -> lockstep.Change | None:
    """The other taste: one for all parts of a fold, for all rankers and seeds."""
    if options.taste_changes_after is None:
        return None
    seed = lockstep.fold_number(data.name, options.fold)
    others = [with_other_taste(part, seed) for part in (data, *held_out)]
    return lockstep.Change(options.taste_changes_after, others[0], others[1:])


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
