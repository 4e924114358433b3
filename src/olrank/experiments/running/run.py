"""Go through the parts of an experiment, keep what is finished, and write what came out.

The rows of a part are on the disk, in OUT/parts, as soon as it is done, and stay there until the
whole run is: a killed run goes on with the parts that are missing and ends with the same rows.
Parts run one after the other here, or at once on the workers of a cluster.
"""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

import polars as pl

from olrank.engine import bare
from olrank.engine import cluster as clusters
from olrank.errors import ClusterError, ConfigError
from olrank.experiments.rows import choice, files
from olrank.experiments.rows.summary import markdown, summarise
from olrank.experiments.running import kept, parts
from olrank.experiments.running.config import Config
from olrank.experiments.running.device import keep_compiled, use_device
from olrank.experiments.running.kept import Finished
from olrank.experiments.running.load import load_folds
from olrank.experiments.running.machine import took, versions
from olrank.experiments.running.parts import Part
from olrank.experiments.running.progress import Reporter, Silent
from olrank.types import Fold

_WRITTEN = ("rows.parquet", "queries.parquet", "summary.json", "table.md", "run.json")


@dataclass(frozen=True)
class Outcome:
    """What a run left in its folder.

    Attributes:
        out: the folder.
        rows: as in rows.parquet.
        summary: as in summary.json; see `rows.summary`.
    """

    out: Path
    rows: pl.DataFrame
    summary: pl.DataFrame


class _Job(NamedTuple):
    """A part, its data, and the file that its rows belong into."""

    part: Part
    fold: Fold
    file: Path


_Way = Callable[[list[_Job], Reporter], Iterable[tuple[_Job, Finished]]]
"""How missing jobs are run; gives each as it is done."""


def run(
    config: Config,
    out: Path,
    progress: Reporter | None = None,
    *,
    device: str | None = None,
    cluster: str | None = None,
    elsewhere: Path | None = None,
) -> Outcome:
    """Run every part of a config and fill the folder `out` with rows and their summary.

    Args:
        config: what to run.
        out: the folder; what an unfinished run left there is used.
        progress: hears how far it is.
        device: "cpu" or "gpu"; an accelerator where there is one when None.
        cluster: address of a Ray cluster, or "local", to spread the parts over; here when None.
        elsewhere: a folder for a bare machine (see engine.bare): parts that ran there are taken
            from it, the others are written into it, and the run waits for them.
    """
    started = datetime.now(UTC)
    with _alone_in(out), progress or Silent() as told:
        with _way(cluster, device, elsewhere) as (kind, way):
            folds = load_folds(config.data)
            jobs = _jobs(config, folds, out, kind)
            n_resumed = _finish(jobs, way, told)
        finished = [kept.read(job.file) for job in jobs]
        outcome = _write(out, [rows for rows, _ in finished])
        record = _record(config, folds, started, [about for _, about in finished], n_resumed)
        files.write_json(record, out / "run.json")
        shutil.rmtree(out / "parts")
    return outcome


@contextmanager
def _way(
    cluster: str | None, device: str | None, elsewhere: Path | None
) -> Iterator[tuple[str, _Way]]:
    """On what kind of device jobs are run, and how."""
    if elsewhere is not None:
        yield device or "gpu", partial(_elsewhere, elsewhere)
    elif cluster is None:
        yield use_device(device), _here
    else:
        with clusters.connect(cluster, device) as workers:
            yield workers.device, partial(_spread, workers)


def _jobs(config: Config, folds: list[Fold], out: Path, device: str) -> list[_Job]:
    by_name = {fold.name: fold for fold in folds}
    jobs = []
    for part in parts.plan(config, folds, device):
        fold = by_name[part.fold]
        name = parts.file_name(part, fold, config.data, device)
        jobs.append(_Job(part, fold, out / "parts" / name))
    return jobs


def _finish(jobs: list[_Job], way: _Way, progress: Reporter) -> int:
    """Run the jobs that no file holds yet; how many an earlier run had left."""
    progress.begin({job.part.title: job.part.load for job in jobs})
    missing = []
    for job in jobs:
        if kept.find(job.file) is None:
            missing.append(job)
        else:
            progress.finish(job.part.title, 0.0, True)
    for job, finished in way(missing, progress):
        kept.keep(finished, job.file)
        progress.finish(job.part.title, finished.about["seconds"], False)
    return len(jobs) - len(missing)


def _here(jobs: list[_Job], progress: Reporter) -> Iterator[tuple[_Job, Finished]]:
    """One job after the other, in this process."""
    for job in jobs:
        tell = partial(progress.advance, job.part.title)
        tell(0, job.part.run.rounds)
        unfinished = job.file.with_suffix(".unfinished")
        yield job, parts.simulate_part(job.part, job.fold, tell, unfinished)


def _elsewhere(
    folder: Path, jobs: list[_Job], progress: Reporter
) -> Iterator[tuple[_Job, Finished]]:
    """Take what a bare machine has measured, and leave it the rest."""
    waiting = []
    for job in jobs:
        found = bare.found(folder, job.file.stem)
        if found is None:
            bare.write(folder, job.file.stem, parts.task(job.part, job.fold))
            waiting.append(job)
        else:
            yield job, parts.from_elsewhere(job.part, job.fold, *found)
    if waiting:
        raise kept.waiting(f"{len(waiting)} of {len(jobs)}", folder)


def _spread(
    workers: clusters.Cluster, jobs: list[_Job], progress: Reporter
) -> Iterator[tuple[_Job, Finished]]:
    """All jobs at once, on the workers of a cluster."""
    orders = [(job.fold, _Order(job.part, workers.device, versions())) for job in jobs]
    for index, what, value in workers.spread(_at_worker, orders):
        job = jobs[index]
        if what == "progress":
            progress.advance(job.part.title, *value)
        elif what == "lost":
            progress.lose(job.part.title)
        else:
            yield job, value


class _Order(NamedTuple):
    """What a worker is told: the part, on what device, and by which code."""

    part: Part
    device: str
    versions: dict[str, str]


def _at_worker(fold: Fold, order: _Order, tell: Callable[[int, int], None]) -> Finished:
    """Run a part in a worker, if it is what the one who asks is."""
    mine = versions()
    other = [name for name, version in order.versions.items() if mine[name] != version]
    if other:
        name = other[0]
        raise ClusterError(
            f"worker {platform.node()} has {name} {mine[name]}, and this run needs "
            f"{order.versions[name]}: the rows would differ. Install the same on all machines."
        )
    use_device(order.device)
    keep_compiled()
    tell(0, order.part.run.rounds)
    return parts.simulate_part(order.part, fold, tell)


def _write(out: Path, frames: list[pl.DataFrame]) -> Outcome:
    rows, queries = files.apart(pl.concat(frames, how="diagonal"))
    rows = files.settle(rows)
    summary = summarise(choice.select(rows))
    files.write_rows(rows, out / "rows.parquet")
    if queries.is_empty():
        (out / "queries.parquet").unlink(missing_ok=True)  # an earlier run's
    else:
        files.write_queries(queries, out / "queries.parquet")
    files.write_json(summary.to_dicts(), out / "summary.json")
    files.write_text(markdown(summary), out / "table.md")
    return Outcome(out, rows, summary)


def _record(
    config: Config,
    folds: list[Fold],
    started: datetime,
    about: list[dict[str, Any]],
    n_resumed: int,
) -> dict[str, Any]:
    """What run.json says: all that is needed to run it again, and what it took."""
    machines: list[dict[str, Any]] = []
    for part in about:
        if part["machine"] not in machines:
            machines.append(part["machine"])
    return {
        "config": config.model_dump(mode="json", exclude_none=True),
        "versions": versions(),
        "data": {fold.name: kept.checksums(fold) for fold in folds},
        "machines": machines,
        **took(started),
        "resumed_parts": n_resumed,
        "parts": [{**part, "machine": machines.index(part["machine"])} for part in about],
    }


@contextmanager
def _alone_in(out: Path) -> Iterator[None]:
    """Keep a second run out of the folder, and clear away what a killed one left half written."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / ".lock").open("w") as lock:
        try:
            _lock(lock)
        except OSError:
            raise ConfigError(
                f"{out}: another run is writing here. Wait for it, or name another folder with "
                "--out."
            ) from None
        for name in _WRITTEN:
            for left in out.glob(f".{name}.*"):
                left.unlink(missing_ok=True)
        yield
        (out / ".lock").unlink()


def _lock(file: IO[str]) -> None:
    """Until the file is closed or the process ends, however it ends; only where POSIX is."""
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
