"""The parts of the reproduction that need a known h, as jobs: coverage, log det A, regret's growth.

They run on made-up data in the small shape, whose h no linear ranker can learn, with the user that
the theory assumes.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from olrank.data.synthetic import synthetic_folds
from olrank.engine import bare
from olrank.engine.lockstep import Progress
from olrank.engine.measure import Line, Options
from olrank.experiments.paper.gap import with_gap
from olrank.experiments.paper.protocol import Protocol
from olrank.experiments.paper.theory import follow
from olrank.experiments.running.jobs import Job, simulation
from olrank.experiments.running.kept import checksums
from olrank.experiments.running.progress import Load
from olrank.types import Fold

_QUERIES = (200, 1, 20)
_USER = "well-specified"
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "lemma full": ("alpha of Lemma 1, full A", {"alpha_rule": "lemma", "confidence": "full"}),
    "constant full": ("alpha = 0.1, full A", {"alpha": 0.1, "confidence": "full"}),
    "constant diagonal": ("alpha = 0.1, diagonal A", {"alpha": 0.1}),
    "wide diagonal": ("alpha = 1, diagonal A", {"alpha": 1.0}),
}
"""Widths to hold against h: what rows call them, and their settings.

The paper's experiments use a constant alpha and the diagonal.
"""


def _fold() -> Fold:
    return synthetic_folds("small", queries=_QUERIES, seed=0, noise=0.0)


def _gap_fold() -> Fold:
    fold = _fold()
    return fold._replace(train=with_gap(fold.train), test=with_gap(fold.test))


def coverage_jobs(protocol: Protocol, device: str) -> list[Job]:
    """Coverage and log det A for each kind of width."""
    fold = _fold()
    rounds, seeds = protocol.theory_rounds, protocol.theory_seeds

    def job(kind: str) -> Job:
        label, settings = KINDS[kind]
        settings = {**settings, "width": protocol.theory_width}

        def work(progress: Progress) -> pl.DataFrame:
            return follow(
                "olranknet", settings, fold.train, fold.test,
                user=_USER, rounds=rounds, seeds=seeds, label=label,
            )  # fmt: skip

        told = {"settings": settings, "data": checksums(fold), "device": device}
        load = Load(seeds, rounds)
        return Job(f"known h: {label}", load, {**told, "rounds": rounds}, work, file="known_h")

    return [job(kind) for kind in protocol.kinds]


def gap_jobs(protocol: Protocol, device: str) -> list[Job]:
    """Cumulative regret on data with a gap between grades, over as many rounds as the others."""
    fold = _gap_fold()
    options = Options(rounds=protocol.rounds, seeds=protocol.seed_list, fold="1")
    held_out = {f"ndcg@{options.k}": fold.test}
    lines = [Line({}, _USER, "clicked", "")]
    return [
        simulation(
            f"a gap: {ranker}",
            bare.Task(ranker, fold.train, held_out, lines, options),
            fold,
            device,
            file="gap",
        )
        for ranker in protocol.gap_rankers
    ]
