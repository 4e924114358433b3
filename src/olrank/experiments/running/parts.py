"""The parts of an experiment: what runs together, and how it is run.

A part is one ranker on one fold with a few seeds; its settings, users and stop rules run together.
How seeds are grouped follows from the config and the kind of device alone, never from the machine:
the width of a compiled step can move the last bit of a number, and one flipped draw a whole run.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl

from olrank.engine import bare
from olrank.engine.buckets import shared_sizes
from olrank.engine.lockstep import Progress
from olrank.engine.measure import Curves, Line, Options
from olrank.errors import ConfigError
from olrank.experiments.rows import choice, files
from olrank.experiments.running import kept
from olrank.experiments.running.config import Config, DataConfig, RankerConfig, RunConfig
from olrank.experiments.running.kept import Finished
from olrank.experiments.running.machine import machine
from olrank.experiments.running.made_by import made_by
from olrank.experiments.running.progress import Load
from olrank.experiments.running.simulate import every_line, rows_of, simulate_task
from olrank.types import Dataset, Fold

# Replicas that make a step worth its overhead. More of them cost a killed run more of its work and
# leave a cluster fewer parts to spread.
_WORTHWHILE = {"cpu": 8}
_WORTHWHILE_ELSEWHERE = 512


@dataclass(frozen=True)
class Part:
    """One ranker on one fold with a few seeds; small enough to be sent around without its data."""

    ranker: RankerConfig
    run: RunConfig
    fold: str
    seeds: tuple[int, ...]
    sizes: tuple[int, ...] | None = None

    @property
    def title(self) -> str:
        """What progress and run.json call it."""
        seeds = f"seed {self.seeds[0]}"
        if len(self.seeds) > 1:
            seeds = f"seeds {', '.join(map(str, self.seeds))}"
            if self.seeds == tuple(range(self.seeds[0], self.seeds[-1] + 1)):
                seeds = f"seeds {self.seeds[0]} to {self.seeds[-1]}"
        return f"{self.ranker.title}, fold {self.fold}, {seeds}"

    @cached_property
    def lines(self) -> list[Line]:
        """Every combination of settings, user and stop rule."""
        return _lines(self.ranker, self.run)

    @property
    def load(self) -> Load:
        """How much work it is."""
        return Load(len(self.lines) * len(self.seeds), self.run.rounds)

    def held_out(self, fold: Fold) -> dict[str, Dataset]:
        """What is measured offline: the test part, and the one that settings are chosen on."""
        k = self.run.k
        if not _chooses(self.ranker):
            return {f"ndcg@{k}": fold.test}
        return {f"ndcg@{k}": fold.test, choice.validation_metric(k): fold.validation}


def plan(config: Config, folds: Sequence[Fold], device: str) -> list[Part]:
    """The parts of a config on this kind of device ("cpu", "gpu")."""
    run, seeds = config.run, config.run.seed_list
    sizes = shared_sizes(fold.train for fold in folds)
    parts = []
    for ranker, fold in product(config.ranker, folds):
        if _chooses(ranker) and fold.validation.n_queries == 0:
            raise ConfigError(
                f"ranker {ranker.title}: settings are chosen on the validation part, and fold "
                f"{fold.name} has none. Name validation files, or give each setting one value."
            )
        n_lines = len(_lines(ranker, run))
        at_once = run.seeds_at_once or _worthwhile(n_lines, len(seeds), device)
        groups = [tuple(seeds[i : i + at_once]) for i in range(0, len(seeds), at_once)]
        parts += [Part(ranker, run, fold.name, group, sizes) for group in groups]
    return parts


def _worthwhile(n_lines: int, n_seeds: int, device: str) -> int:
    """Seeds at once: enough replicas for the device; equal groups, which one step serves."""
    wanted = -(-_WORTHWHILE.get(device, _WORTHWHILE_ELSEWHERE) // n_lines)
    return next((n for n in range(wanted, n_seeds) if n_seeds % n == 0), n_seeds)


def _lines(ranker: RankerConfig, run: RunConfig) -> list[Line]:
    return every_line(ranker.all_settings(), run.users, run.stop)


def _chooses(ranker: RankerConfig) -> bool:
    """Whether there are several settings to choose from."""
    return any(
        isinstance(value, list) and len(value) > 1 for value in ranker.all_settings().values()
    )


def task(part: Part, fold: Fold) -> bare.Task:
    """What a part asks for."""
    options = Options(
        rounds=part.run.rounds,
        seeds=part.seeds,
        k=part.run.k,
        gamma=part.run.gamma,
        empty=part.run.empty,
        fold=fold.name,
        label=part.ranker.title,
        batch=part.run.replicas_at_once,
        sizes=part.sizes,
        per_query=part.run.per_query,
        taste_changes_after=part.run.taste_changes_after,
    )
    return bare.Task(part.ranker.name, fold.train, part.held_out(fold), part.lines, options)


def simulate_part(
    part: Part, fold: Fold, progress: Progress, unfinished: Path | None = None
) -> Finished:
    """Run a part here and now.

    Args:
        part: what to run.
        fold: on what.
        progress: told how far it is.
        unfinished: a file that holds the rows so far after every chunk of rounds, for people who do
            not want to wait; a run that was killed does not read it.
    """
    began = time.monotonic()
    widths: list[int] = []
    heard = None if unfinished is None else _SoFar(unfinished)
    rows = simulate_task(task(part, fold), progress, widths.append, heard)
    if unfinished is not None:
        unfinished.unlink(missing_ok=True)
    about = {
        "replicas_at_once": sorted(set(widths)),
        "seconds": round(time.monotonic() - began, 3),
        "machine": machine(),
    }
    return Finished(rows, {**_about(part), **about})


class _SoFar:
    """Writes the rows of an unfinished part, of all its batches."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._rows: dict[tuple[int, ...], pl.DataFrame] = {}

    def __call__(self, running: list[int], rows: pl.DataFrame) -> None:
        self._rows[tuple(running)] = rows
        whole = pl.concat(self._rows.values())
        files.atomically(self._file, whole.write_parquet)


def from_elsewhere(part: Part, fold: Fold, curves: Curves, about: dict[str, Any]) -> Finished:
    """A part that a bare machine has run."""
    return Finished(rows_of(task(part, fold), curves), {**_about(part), **about})


def _about(part: Part) -> dict[str, Any]:
    return {
        "part": part.title,
        "replicas": part.load.n_replicas,
        "seeds_at_once": len(part.seeds),
    }


def file_name(part: Part, fold: Fold, data: DataConfig, device: str) -> str:
    """A readable name that changes whenever anything does that could move the part's rows."""
    determined_by = {
        "ranker": part.ranker.model_dump(mode="json", exclude={"base"}),
        "fold": fold.name,
        "seeds": part.seeds,
        "sizes": part.sizes,
        "run": part.run.model_dump(mode="json", exclude={"seeds", "seeds_at_once"}),
        "data": data.model_dump(mode="json", exclude={"folds"}),
        "checksums": kept.checksums(fold),
        "device": device,
        "made by": made_by(part.ranker.name, "experiments/running/parts.py"),
    }
    words = "-".join((part.ranker.title, fold.name, str(part.seeds[0])))
    return f"{kept.name_for(words, determined_by)}.parquet"
