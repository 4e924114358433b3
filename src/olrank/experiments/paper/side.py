"""What a reproduction measures beside the comparison of rankers, as jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import polars as pl

from olrank.data.folds import concatenate
from olrank.experiments.paper import known_h
from olrank.experiments.paper.protocol import Protocol
from olrank.experiments.paper.separation import separate
from olrank.experiments.paper.theory import dimensions
from olrank.experiments.running import lambdamart
from olrank.experiments.running.jobs import Job
from olrank.experiments.running.kept import checksums
from olrank.experiments.running.progress import Load
from olrank.types import Dataset, Fold

_ONE = Load(1, 1)  # no rounds are played


def side_jobs(
    needs: set[str],
    protocol: Protocol,
    data: Sequence[Sequence[Fold]],
    device: str,
    say: Callable[[str], None],
) -> list[Job]:
    """Everything beside the comparison of rankers."""
    jobs: list[Job] = []
    wholes = [_whole(folds[0]) for folds in data]
    if "separation" in needs:
        jobs += [_table_job("separation", whole, separate) for whole in wholes]
    if "dimensions" in needs:
        jobs += [_table_job("dimensions", whole, dimensions) for whole in wholes]
    if "known_h" in needs:
        jobs += known_h.coverage_jobs(protocol, device)
    if "gap" in needs:
        jobs += known_h.gap_jobs(protocol, device)
    if "outside" in needs and lambdamart.available():
        jobs += [_lambdamart_job(fold, protocol) for folds in data for fold in folds]
    elif "outside" in needs:
        say("LambdaMART is left out: pip install lightgbm to have it as a skyline.")
    return jobs


def by_file(jobs: Iterable[Job]) -> dict[str, list[Job]]:
    """Jobs by the file that their rows go into."""
    found: dict[str, list[Job]] = {}
    for job in jobs:
        found.setdefault(job.file, []).append(job)
    return found


def _table_job(what: str, data: Dataset, make: Callable[[Dataset], pl.DataFrame]) -> Job:
    told = {"data": data.checksum, "normalise": data.normalise}
    return Job(f"{what}: {data.name}", _ONE, told, lambda progress: make(data), file=what)


def _lambdamart_job(fold: Fold, protocol: Protocol) -> Job:
    seeds = protocol.seed_list[:3]  # trees differ by what they are grown on, and little by seed
    told = {"data": checksums(fold), "seeds": seeds, "k": protocol.k}
    title = f"outside: LambdaMART, {fold.train.name}, fold {fold.name}"
    return Job(
        title,
        _ONE,
        told,
        lambda progress: lambdamart.lambdamart(fold, seeds, protocol.k),
        file="outside",
    )


def _whole(fold: Fold) -> Dataset:
    """All labelled documents of a set."""
    parts = [part for part in (fold.train, fold.validation, fold.test) if part.n_queries]
    return concatenate(parts)
