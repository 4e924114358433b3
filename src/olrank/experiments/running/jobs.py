"""Pieces of work that are kept as soon as they are done, so that a killed command goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from olrank.engine import bare
from olrank.engine.lockstep import Progress
from olrank.engine.measure import Curves
from olrank.experiments.running import kept
from olrank.experiments.running.made_by import made_by
from olrank.experiments.running.progress import Load, Reporter
from olrank.experiments.running.simulate import rows_of, simulate_task
from olrank.types import Fold


@dataclass(frozen=True)
class Job:
    """One piece of work.

    Attributes:
        title: what progress calls it; no two are called the same.
        load: how much work it is.
        determined_by: everything that its rows follow from besides code and versions.
        work: gives the rows; told how to report (rounds done, rounds in all).
        task: the same work for a machine with only NumPy and JAX, where that can do it.
        rows: how what the task measured becomes rows; `simulate.rows_of` when None.
        file: what its rows are called in the folder, where they are not a run's.
    """

    title: str
    load: Load
    determined_by: dict[str, Any]
    work: Callable[[Progress], pl.DataFrame]
    task: bare.Task | None = None
    rows: Callable[[Curves], pl.DataFrame] | None = None
    file: str = ""

    @property
    def name(self) -> str:
        """A file name that changes whenever anything does that could move its rows."""
        made = made_by(None if self.task is None else self.task.ranker)
        whole = {"title": self.title, "made by": made, **self.determined_by}
        return kept.name_for(self.title, whole)


def simulation(title: str, task: bare.Task, fold: Fold, device: str, file: str = "") -> Job:
    """A task of the engine on this fold and kind of device, as a job."""
    options = task.options
    return Job(
        title=title,
        load=Load(len(task.lines) * len(options.seeds), options.rounds),
        determined_by={
            "ranker": task.ranker,
            "lines": [line._asdict() for line in task.lines],
            "options": vars(options),
            "held_out": list(task.held_out),
            "data": kept.checksums(fold),
            "normalise": fold.train.normalise,
            "device": device,
        },
        work=lambda progress: simulate_task(task, progress),
        task=task,
        file=file,
    )


class Runner:
    """Finishes jobs: takes what an earlier command or another machine left, works out the rest."""

    def __init__(self, out: Path, progress: Reporter, elsewhere: Path | None = None) -> None:
        """Keep rows under `out`; leave tasks for a bare machine in the folder `elsewhere`."""
        self._out, self._progress, self._elsewhere = out, progress, elsewhere
        self._n_waiting = 0
        self.about: list[dict[str, Any]] = []

    def finish(self, jobs: Sequence[Job]) -> list[pl.DataFrame] | None:
        """The rows of every job; None while one of them waits for another machine."""
        found = [self._one(job) for job in jobs]
        waiting = sum(one is None for one in found)
        self._n_waiting += waiting
        done = [one for one in found if one is not None]
        self.about += [one.about for one in done]
        return None if waiting else [one.rows for one in done]

    def wait(self) -> None:
        """Raise a WaitingError when a job waits for another machine."""
        if self._n_waiting and self._elsewhere is not None:
            raise kept.waiting(str(self._n_waiting), self._elsewhere)

    def _one(self, job: Job) -> kept.Finished | None:
        file = self._out / "parts" / f"{job.name}.parquet"
        if (found := kept.find(file)) is not None:
            self._progress.finish(job.title, 0.0, True)
            return found
        if self._elsewhere is not None and job.task is not None:
            fresh = self._from_elsewhere(job, job.task, self._elsewhere)
        else:
            fresh = self._here(job)
        if fresh is None:
            return None
        kept.keep(fresh, file)
        self._progress.finish(job.title, fresh.about["seconds"], False)
        return kept.read(file)

    def _here(self, job: Job) -> kept.Finished:
        began = time.monotonic()
        self._progress.advance(job.title, 0, job.load.rounds)
        rows = job.work(partial(self._progress.advance, job.title))
        return kept.Finished(rows, _about(job, seconds=round(time.monotonic() - began, 3)))

    def _from_elsewhere(self, job: Job, task: bare.Task, folder: Path) -> kept.Finished | None:
        found = bare.found(folder, job.name)
        if found is None:
            bare.write(folder, job.name, task)
            return None
        curves, about = found
        rows = rows_of(task, curves) if job.rows is None else job.rows(curves)
        return kept.Finished(rows, _about(job, **about))


def _about(job: Job, **told: Any) -> dict[str, Any]:
    return {"part": job.title, "replicas": job.load.n_replicas, **told}
