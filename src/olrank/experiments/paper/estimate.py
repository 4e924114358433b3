"""How long a set of jobs will take, before the first of them has run.

A replica's round costs a little by itself and the rest by the size of the data; the constants are
rounded from runs on two cores of a Xeon and are scaled by what a matrix product takes here and now,
so that a busy machine counts as a slow one. It is an estimate: right within a factor of two or
three. Progress knows better as soon as something is done.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from olrank.experiments.running.jobs import Job
from olrank.experiments.running.progress import in_minutes
from olrank.types import Dataset

_REFERENCE_S = 0.0115  # a product of two 1,000 x 1,000 matrices in 32 bits, on that machine
_GPU_FASTER = 100.0  # an H200 against two cores, when its replicas are many
_GPU_STEP_S = 1e-3  # the least that a round of all replicas takes there, however few they are


class Cost(NamedTuple):
    """Microseconds of a replica's round.

    Attributes:
        fixed: whatever the data.
        feature: for each feature.
        document: for each document times feature.
        square: for each pair of features.
    """

    fixed: float
    feature: float
    document: float
    square: float = 0.0


COSTS: dict[str, Cost] = {
    "olranknet": Cost(300.0, 30.0, 0.12),
    "ollambdarank": Cost(2500.0, 75.0, 0.12),
    "pairrank": Cost(300.0, 15.0, 0.05, 0.05),
    "epsilon-greedy": Cost(250.0, 30.0, 0.02),
    "dbgd-linear": Cost(25.0, 0.2, 0.02),
    "dbgd-neural": Cost(60.0, 1.0, 0.1),
    "pdgd-linear": Cost(100.0, 0.2, 0.02),
    "pdgd-neural": Cost(120.0, 3.0, 0.1),
    "skyline": Cost(400.0, 5.0, 0.8),
    # Of the jobs beside the comparison, by the file of their rows; most play no rounds.
    "known_h": Cost(3000.0, 0.0, 0.0),
    "separation": Cost(2e5, 0.0, 0.0),
    "dimensions": Cost(1.5e6, 0.0, 0.0),
    "outside": Cost(3e6, 0.0, 0.0),
}
_COMPILE_S = 8.0  # a ranker on a data set, once for each stage


class Costed(NamedTuple):
    """A job, what of `COSTS` it costs, and the data that it runs on."""

    job: Job
    cost: str
    data: Dataset


def estimate_s(jobs: Iterable[Costed], device: str) -> float:
    """Seconds that these jobs will take."""
    slower = machine_factor() if device == "cpu" else 1.0
    jobs = list(jobs)
    programs = {(one.cost, one.data.name, one.job.load) for one in jobs}
    return slower * (sum(job_s(one, device) for one in jobs) + _COMPILE_S * len(programs))


def job_s(costed: Costed, device: str) -> float:
    """Seconds of one job on the machine that the costs were measured on, compiled."""
    load, data, cost = costed.job.load, costed.data, COSTS[costed.cost]
    mean_docs = data.n_rows / max(data.n_queries, 1)
    a_feature = cost.feature + cost.document * mean_docs + cost.square * data.n_features
    round_s = 1e-6 * (cost.fixed + data.n_features * a_feature)
    seconds = load.n_replicas * load.rounds * round_s
    if device == "cpu" or costed.job.task is None:
        return seconds
    return max(seconds / _GPU_FASTER, _GPU_STEP_S * load.rounds)


def machine_factor() -> float:
    """How much slower this machine is now than the one that the costs were measured on."""
    a = np.ones((1000, 1000), np.float32)
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        a @ a
        seconds.append(time.perf_counter() - began)
    return max(float(np.median(seconds)) / _REFERENCE_S, 0.1)


def in_words(seconds: float) -> str:
    """A rough duration for a person: "under a minute", "12 min", "3 h 10 min"."""
    minutes = round(seconds / 60)
    return "under a minute" if minutes < 1 else in_minutes(minutes)
