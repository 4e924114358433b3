"""Pieces of work that are kept as soon as they are done, so that a killed command goes on."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import Any

import polars as pl

from olrank.engine import bare
from olrank.engine.lockstep import Progress
from olrank.errors import DataError, WaitingError
from olrank.experiments import parts as kept
from olrank.experiments.machine import versions
from olrank.experiments.progress import Load, Reporter
from olrank.experiments.simulate import rows_of

# Code that rows follow from. What draws and writes may change while a long run waits.
_MOVES_ROWS = (
    "types.py",
    "data",
    "nets",
    "explore",
    "feedback",
    "rankers",
    "users",
    "metrics",
    "engine",
    "experiments/simulate.py",
    "experiments/theory.py",
    "experiments/gap.py",
    "experiments/separation.py",
    "experiments/lambdamart.py",
)


@dataclass(frozen=True)
class Job:
    """One piece of work.

    Attributes:
        title: what progress calls it; no two are called the same.
        load: how much work it is.
        determined_by: everything that its rows follow from besides code and versions.
        work: gives the rows; told how to report (rounds done, rounds in all).
        task: the same work for a machine with only NumPy and JAX, where that can do it.
    """

    title: str
    load: Load
    determined_by: dict[str, Any]
    work: Callable[[Progress], pl.DataFrame]
    task: bare.Task | None = None

    @property
    def name(self) -> str:
        """A file name that changes whenever anything does that could move its rows."""
        whole = {"title": self.title, "made by": _made_by(), **self.determined_by}
        text = json.dumps(whole, sort_keys=True, default=str)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return f"{re.sub(r'[^A-Za-z0-9._-]+', '_', self.title)[:80]}-{digest}"


@cache
def _made_by() -> dict[str, str]:
    """Versions of the packages that can move a number, and a checksum of our code that can."""
    root = Path(str(resources.files("olrank")))
    digest = hashlib.sha256()
    for place in _MOVES_ROWS:
        found = root / place
        for file in sorted(found.rglob("*.py")) if found.is_dir() else [found]:
            digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    packages = {name: told for name, told in versions().items() if name != "olrank_code"}
    return {**packages, "code": digest.hexdigest()}


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
        if self._n_waiting:
            raise WaitingError(
                f"{self._n_waiting} parts are in {self._elsewhere} and have not run yet.\n"
                "  Run them where the accelerator is: PYTHONPATH=src python -m olrank.engine.bare "
                f"{self._elsewhere}\n  Then give the same command again."
            )

    def _one(self, job: Job) -> kept.Finished | None:
        file = self._out / "parts" / f"{job.name}.parquet"
        if (found := kept.find(file)) is not None:
            self._progress.finish(job.title, 0.0, True)
            return found
        fresh = self._from_elsewhere(job) if self._elsewhere and job.task else self._here(job)
        if fresh is None:
            return None
        kept.keep(fresh, file)
        self._progress.finish(job.title, fresh.about["seconds"], False)
        # Read back also when fresh: a resumed command and an unbroken one go the same way.
        if (found := kept.find(file)) is None:
            raise DataError(f"{file}: was written and cannot be read back. Look at the disk.")
        return found

    def _here(self, job: Job) -> kept.Finished:
        began = time.monotonic()
        self._progress.advance(job.title, 0, job.load.rounds)
        rows = job.work(partial(self._progress.advance, job.title))
        return kept.Finished(rows, _about(job, seconds=round(time.monotonic() - began, 3)))

    def _from_elsewhere(self, job: Job) -> kept.Finished | None:
        assert self._elsewhere is not None
        assert job.task is not None
        found = bare.found(self._elsewhere, job.name)
        if found is None:
            bare.write(self._elsewhere, job.name, job.task)
            return None
        curves, about = found
        task = job.task
        rows = rows_of(task.ranker, task.data, task.lines, task.options, curves)
        return kept.Finished(rows, _about(job, **about))


def _about(job: Job, **told: Any) -> dict[str, Any]:
    return {"part": job.title, "replicas": job.load.n_replicas, **told}
