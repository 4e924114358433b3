"""The paper's Section 5 end to end: find data, search settings, run, draw, check the claims.

Everything that takes time is a job whose rows are kept when it is done; the same command goes on
where it was stopped. Sets that the folder holds from earlier commands stay beside those that are
run now. What comes out is drawn from the rows in the folder alone (`report`).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from olrank.engine.buckets import shared_sizes
from olrank.errors import ConfigError, unknown_name
from olrank.experiments.paper import stages
from olrank.experiments.paper.earlier import Earlier, find_earlier
from olrank.experiments.paper.estimate import Costed, estimate_s, in_words, job_s
from olrank.experiments.paper.found import Found, find_sets, folds_of, made_up
from olrank.experiments.paper.protocol import PAPER, QUICK, Protocol
from olrank.experiments.paper.side import by_file, side_jobs
from olrank.experiments.reports import report
from olrank.experiments.rows import choice, files
from olrank.experiments.running.device import use_device
from olrank.experiments.running.jobs import Job, Runner
from olrank.experiments.running.kept import checksums
from olrank.experiments.running.machine import machine, took, versions
from olrank.experiments.running.progress import Load, Reporter, Silent
from olrank.types import Fold

FIGURES = {
    "nonlinearity": {"separation"},
    "offline": {"runs"},
    "online": {"runs"},
    "ratio": {"olranknet"},
    "regret": {"gap"},
    "coverage": {"known_h"},
    "all": {"separation", "runs", "longer", "outside", "gap", "known_h", "dimensions"},
}
"""What can be asked for, and which parts of the work it takes."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Sets:
    """The data sets of a reproduction: what was found, and the folds of each."""

    found: list[Found]
    folds: list[list[Fold]]

    @property
    def names(self) -> list[str]:
        """What rows call them."""
        return [folds[0].train.name for folds in self.folds]

    def places(self, device: str) -> list[stages.Place]:
        """Every fold that is run."""
        return [
            stages.Place(fold, device, sizes)
            for folds in self.folds
            for sizes in [shared_sizes(fold.train for fold in folds)]
            for fold in folds
        ]


class Results(NamedTuple):
    """The folder that results go into, and what it holds from before."""

    out: Path
    earlier: Earlier

    def save(self, rows: pl.DataFrame, name: str) -> None:
        """Rows of this command into NAME.parquet."""
        file = self.out / f"{name}.parquet"
        rows = self.earlier.beside(rows, file)
        files.atomically(file, lambda partial: rows.write_parquet(partial, compression="zstd"))


def reproduce(
    data: Path | None,
    out: Path,
    *,
    figure: str = "all",
    quick: bool = False,
    protocol: Protocol | None = None,
    device: str | None = None,
    elsewhere: Path | None = None,
    progress: Reporter | None = None,
    say: Say = lambda line: None,
) -> list[Path]:
    """Run what a figure needs and draw it.

    Args:
        data: a folder with public sets; made-up shapes when None, or when nothing is found there.
        out: the folder to fill; what an earlier run left there is used, and its other sets stay.
        figure: a name of `FIGURES`.
        quick: the smallest form.
        protocol: how to compare; the paper's, or the quick one, when None.
        device: "cpu" or "gpu"; an accelerator where there is one when None.
        elsewhere: a folder for a bare machine (see engine.bare): simulations that ran there are
            taken from it, the others are written into it, and the command waits for them.
        progress: hears how far it is.
        say: hears sentences for a person.

    Returns:
        The figures and pages that were written.
    """
    if figure not in FIGURES:
        raise unknown_name("figure", figure, FIGURES, "--figure")
    protocol = protocol or (QUICK if quick else PAPER)
    needs = FIGURES[figure]
    if needs == {"olranknet"}:
        protocol, needs = protocol.only(("olranknet",)), {"runs"}
    started = datetime.now(UTC)
    kind = use_device(device) if elsewhere is None else device or "gpu"
    sets = find_data(data, protocol, say)
    out.mkdir(parents=True, exist_ok=True)
    earlier = find_earlier(out, sets.names, _told(protocol))
    if earlier.sets:
        say(f"{out}: keeps {', '.join(sorted(earlier.sets))} from before.")
    places = sets.places(kind)
    side = side_jobs(needs, protocol, sets.folds, kind, say)
    coming = [*_main_jobs(needs, protocol, places), *side]
    costed = _costed(coming, places)
    where = f"on this machine ({kind})" if elsewhere is None else f"in all ({kind})"
    say(f"{len(coming)} parts, about {in_words(estimate_s(costed, kind))} {where}.")
    loads = {one.job.title: _load(one, kind, elsewhere) for one in costed}
    with progress or Silent() as told:
        told.begin(loads)
        runner = Runner(out, told, elsewhere)
        _run(needs, protocol, places, side, Results(out, earlier), runner)
    record = _record(protocol, sets, started, runner.about, figure, quick)
    files.write_json(
        record | ({"earlier": earlier.records} if earlier.records else {}), out / "run.json"
    )
    written = report.report(out)
    shutil.rmtree(out / "parts", ignore_errors=True)
    return written


def find_data(data: Path | None, protocol: Protocol, say: Say) -> Sets:
    """The sets to run on, with what each is said to a person."""
    found: list[Found] = []
    if data is not None:
        looked = find_sets(data)
        found = looked.found
        for line in looked.passed_over:
            say(f"passed over {line}")
        if not found:
            say(f"{data}: no data set found; falling back on made-up shapes.")
    found = found or made_up(protocol.shapes)
    folds = [folds_of(one.source)[: protocol.folds] for one in found]
    for one, parts in zip(found, folds, strict=True):
        n_folds = f"{len(parts)} fold{'s' * (len(parts) > 1)}"
        say(f"{parts[0].train.name}: {one.told} {n_folds}.")
    sets = Sets(found, folds)
    if len(set(sets.names)) < len(sets.names):
        raise ConfigError(
            f"two data sets are called the same: {', '.join(sets.names)}. Rename one."
        )
    return sets


def _main_jobs(needs: set[str], protocol: Protocol, places: list[stages.Place]) -> list[Job]:
    """Titles and loads of the runs, before settings are chosen."""
    if "runs" not in needs:
        return []
    longer = stages.longer_jobs(protocol, places, None) if "longer" in needs else []
    final = stages.final_jobs(protocol, places, None)
    return [*stages.search_jobs(protocol, places), *final, *longer]


def _run(
    needs: set[str],
    protocol: Protocol,
    places: list[stages.Place],
    side: list[Job],
    results: Results,
    runner: Runner,
) -> None:
    """Work through all jobs, and write their rows into the folder."""
    if "runs" in needs:
        _compare(protocol, places, results, runner, "longer" in needs)
    for name, jobs in by_file(side).items():
        if (found := runner.finish(jobs)) is not None:
            results.save(pl.concat(found, how="diagonal"), name)
    runner.wait()


def _compare(
    protocol: Protocol, places: list[stages.Place], results: Results, runner: Runner, longer: bool
) -> None:
    """Search, run what was chosen, run PDGD longer; each stage needs the one before it."""
    chosen = None
    if protocol.search_seeds is not None:
        searched = runner.finish(stages.search_jobs(protocol, places))
        if searched is None:
            return
        judged = pl.concat(searched) if searched else None
        chosen = choice.choose(judged) if judged is not None else {}
        if judged is not None:
            results.save(files.settle(judged), "search")
    final = runner.finish(stages.final_jobs(protocol, places, chosen))
    if final is None and chosen is None:
        return
    if final is not None:
        rows = pl.concat(final)
        chosen = choice.choose(rows) if chosen is None else chosen
        results.save(files.settle(choice.keep_chosen(rows, chosen)), "rows")
    more = runner.finish(stages.longer_jobs(protocol, places, chosen)) if longer else None
    if more:
        results.save(files.settle(pl.concat(more)), "longer")


def _costed(jobs: Iterable[Job], places: list[stages.Place]) -> list[Costed]:
    """Each job with what it costs."""
    by_name = {place.dataset: place.fold.train for place in places}
    first = places[0].fold.train
    return [
        Costed(job, job.determined_by.get("ranker", job.file), by_name.get(name, first))
        for job in jobs
        for name in [job.title.split(",")[0]]
    ]


def _load(one: Costed, device: str, elsewhere: Path | None) -> Load:
    """A job's load by what its rounds cost here."""
    load = one.job.load
    away = elsewhere is not None and one.job.task is not None
    seconds = 0.0 if away else job_s(one, device)
    return load._replace(round_s=seconds / (load.n_replicas * load.rounds))


def _record(
    protocol: Protocol,
    sets: Sets,
    started: datetime,
    parts: list[dict[str, Any]],
    figure: str,
    quick: bool,
) -> dict[str, Any]:
    return {
        "command": {"figure": figure, "quick": quick},
        "protocol": _told(protocol),
        "data": {
            folds[0].train.name: {
                "told": one.told,
                "folds": {fold.name: checksums(fold) for fold in folds},
            }
            for one, folds in zip(sets.found, sets.folds, strict=True)
        },
        "versions": versions(),
        "machine": machine(),
        **took(started),
        "parts": parts,
    }


def _told(protocol: Protocol) -> dict[str, Any]:
    return {**vars(protocol), "grids": {k: dict(v) for k, v in protocol.grids.items()}}
