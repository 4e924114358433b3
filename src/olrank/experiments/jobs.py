"""Pieces of work that are kept as soon as they are done, so that a killed command goes on."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from olrank.engine.lockstep import Progress
from olrank.experiments import parts as kept
from olrank.experiments.machine import versions
from olrank.experiments.progress import Load, Reporter


@dataclass(frozen=True)
class Job:
    """One piece of work.

    Attributes:
        title: what progress calls it; no two are called the same.
        load: how much work it is.
        determined_by: everything that its rows follow from besides code and versions.
        work: gives the rows; told how to report (rounds done, rounds in all).
    """

    title: str
    load: Load
    determined_by: dict[str, Any]
    work: Callable[[Progress], pl.DataFrame]

    def file(self, out: Path) -> Path:
        """Where its rows are kept; changes whenever anything does that could move them."""
        whole = {"title": self.title, "versions": versions(), **self.determined_by}
        text = json.dumps(whole, sort_keys=True, default=str)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        slug = re.sub(r"[^A-Za-z0-9._-]+", "_", self.title)[:80]
        return out / "parts" / f"{slug}-{digest}.parquet"


def finish(jobs: Iterable[Job], out: Path, progress: Reporter) -> list[kept.Finished]:
    """Every job's rows: found where an earlier command left them, worked out elsewhere."""
    done = []
    for job in jobs:
        file = job.file(out)
        found = kept.find(file)
        if found is None:
            began = time.monotonic()
            rows = job.work(lambda at, of, title=job.title: progress.advance(title, at, of))  # type: ignore[misc]
            seconds = round(time.monotonic() - began, 3)
            about = {"part": job.title, "replicas": job.load.n_replicas, "seconds": seconds}
            kept.keep(kept.Finished(rows, about), file)
            progress.finish(job.title, seconds, False)
            # Read back also when fresh: a resumed command and an unbroken one go the same way.
            found = kept.find(file)
            assert found is not None
        else:
            progress.finish(job.title, 0.0, True)
        done.append(found)
    return done
