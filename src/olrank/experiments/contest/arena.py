"""Where entrants meet: a fold's train part, and the one part that they are judged on.

A search is judged on the validation part, and its arenas do not hold the test part at all. Where a
set comes without a validation part, a fifth of its train queries is cut off for the search, by a
fixed seed; the evaluation learns from all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from olrank.engine.buckets import shared_sizes
from olrank.errors import ConfigError
from olrank.experiments.contest.config import Contest, ContestData
from olrank.experiments.rows.choice import validation_metric
from olrank.experiments.running.load import load_folds, with_validation
from olrank.types import Dataset, Fold

_BUCKETS = 3  # each is compiled for every ranker, which takes longer here than some more padding


Used = tuple[str, str, dict[str, str]]
"""Data set, fold, and checksums of its parts."""


class Arena(NamedTuple):
    """One fold as one stage sees it.

    Attributes:
        fold: its name.
        train: queries are drawn from it.
        judged: how well they did is measured on it.
        metric: what rows call that.
        sizes: that queries are padded to, the same for all folds of a set.
    """

    fold: str
    train: Dataset
    judged: Dataset
    metric: str
    sizes: tuple[int, ...] | None = None

    @property
    def dataset(self) -> str:
        """The data set's name."""
        return self.train.name

    @property
    def checksums(self) -> dict[str, str]:
        """Of both parts."""
        return {"train": self.train.checksum, self.metric: self.judged.checksum}

    @property
    def used(self) -> Used:
        """What a record says of it: data set, fold, checksums."""
        return self.dataset, self.fold, self.checksums


def search_arenas(contest: Contest) -> list[Arena]:
    """The first folds of every set, judged on their validation parts."""
    k = contest.evaluate.k
    arenas = []
    for index, data in enumerate(contest.data):
        folds = [with_validation(fold) for fold in folds_of(data)[: contest.n_folds(index)]]
        sizes = shared_sizes((fold.train for fold in folds), _BUCKETS)
        for fold in folds:
            name, metric = fold.name, validation_metric(k)
            arenas.append(Arena(name, fold.train, fold.validation, metric, sizes))
    return arenas


def evaluate_arenas(contest: Contest) -> list[Arena]:
    """Every fold of every set, judged on its test part."""
    metric = f"ndcg@{contest.evaluate.k}"
    arenas = []
    for data in contest.data:
        folds = folds_of(data)
        sizes = shared_sizes((fold.train for fold in folds), _BUCKETS)
        arenas += [Arena(fold.name, fold.train, fold.test, metric, sizes) for fold in folds]
    return arenas


def first_folds(arenas: list[Arena], n: int | None) -> list[Arena]:
    """The first n of every set; all when None."""
    found: dict[str, list[Arena]] = {}
    for arena in arenas:
        found.setdefault(arena.dataset, []).append(arena)
    return [arena for several in found.values() for arena in several[:n]]


def with_seeds(
    arenas: list[Arena], seeds: Sequence[int], *, one_fold_a_seed: bool
) -> list[tuple[Arena, tuple[int, ...]]]:
    """Each arena with its seeds: all of them, or those whose turn it is among the set's folds."""
    if not one_fold_a_seed:
        return [(arena, tuple(seeds)) for arena in arenas]
    found = []
    for arena in arenas:
        folds = [one.fold for one in arenas if one.dataset == arena.dataset]
        own = tuple(seeds[folds.index(arena.fold) :: len(folds)])
        if not own:
            raise ConfigError(
                f"one_fold_a_seed: {arena.dataset} has {len(folds)} folds, and there are only "
                f"{len(seeds)} seeds. Give at least one a fold."
            )
        found.append((arena, own))
    return found


def folds_of(data: ContestData) -> list[Fold]:
    """The folds of a set, under the name that the contest gives it."""
    return [
        Fold(fold.name, *(replace(part, name=data.name) for part in fold[1:]))
        for fold in load_folds(data)
    ]
