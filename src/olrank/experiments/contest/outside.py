"""The outside skyline of a contest: LambdaMART, which learns from labels and meets no user.

It learns from a fold's train part and stops by the validation part, which is cut off the train part
where a set comes without one. The test part judges it, query by query like everyone.
"""

from __future__ import annotations

import polars as pl

from olrank.experiments.contest.arena import Used, folds_of
from olrank.experiments.contest.config import Contest, EvaluateConfig
from olrank.experiments.contest.tasks import query_means
from olrank.experiments.running import lambdamart
from olrank.experiments.running.jobs import Job
from olrank.experiments.running.kept import checksums
from olrank.experiments.running.load import with_validation
from olrank.experiments.running.progress import Load
from olrank.types import Fold

MISSING = "outside: LambdaMART is left out. pip install lightgbm to have it as a skyline."
SEEDS = (0, 1, 2)  # trees differ by what they are grown on, and little by seed


def labelled_folds(contest: Contest) -> list[Fold]:
    """Every fold of every set, with a validation part to stop by."""
    return [with_validation(fold) for data in contest.data for fold in folds_of(data)]


def make_jobs(folds: list[Fold], measured: EvaluateConfig) -> list[Job]:
    """A job a fold, without a task: a bare machine has no LightGBM."""
    return [_job(fold, measured) for fold in folds]


def _job(fold: Fold, measured: EvaluateConfig) -> Job:
    return Job(
        title=f"outside: LambdaMART, {fold.train.name}, fold {fold.name}",
        load=Load(len(SEEDS), 1),  # no rounds are played
        determined_by={
            "data": checksums(fold),
            "normalise": fold.train.normalise,
            "seeds": SEEDS,
            "k": measured.k,
            "empty": measured.empty,
            "lightgbm": lambdamart.version(),
        },
        work=lambda progress: _rows(fold, measured),
    )


def _rows(fold: Fold, measured: EvaluateConfig) -> pl.DataFrame:
    """Rows of single queries, means over seeds, for user and stop rule "-"."""
    values = lambdamart.by_query(fold, SEEDS, measured.k, measured.empty)
    who = {"ranker": "lambdamart", "dataset": fold.train.name, "fold": fold.name}
    told = [pl.lit(value).alias(name) for name, value in {**who, "user": "-", "stop": "-"}.items()]
    return query_means(values, f"ndcg@{measured.k}").with_columns(told)


def used(fold: Fold) -> Used:
    """What a record says of a fold: data set, fold, checksums."""
    return fold.train.name, fold.name, checksums(fold)
