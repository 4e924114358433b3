"""The parts of an experiment: what runs together, and how a finished part is kept.

A part is one ranker on one fold with a few seeds; its settings, users and stop rules run together.
How seeds are grouped follows from the config and the kind of device alone, never from the machine:
the width of a compiled step can move the last bit of a number, and one flipped draw a whole run.

A finished part is one file, found again by a checksum of all that determines its rows: config,
data, code, versions and kind of device.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from olrank.engine import bare
from olrank.engine.lockstep import Progress
from olrank.engine.measure import Curves, Line, Options
from olrank.errors import ConfigError
from olrank.experiments import results
from olrank.experiments.config import Config, DataConfig, RankerConfig, RunConfig
from olrank.experiments.machine import machine, versions
from olrank.experiments.progress import Load
from olrank.experiments.simulate import grid, rows_of, simulate_lines
from olrank.types import Dataset, Fold

# Replicas that make a step worth its overhead. More of them cost a killed run more of its work and
# leave a cluster fewer parts to spread.
_WORTHWHILE = {"cpu": 8}
_WORTHWHILE_ELSEWHERE = 512

_METADATA = "olrank"


@dataclass(frozen=True)
class Part:
    """One ranker on one fold with a few seeds; small enough to be sent around without its data."""

    ranker: RankerConfig
    run: RunConfig
    fold: str
    seeds: tuple[int, ...]

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
        return {f"ndcg@{k}": fold.test, results.validation_metric(k): fold.validation}


class Finished(NamedTuple):
    """The rows of a part, and what run.json says of it."""

    rows: pl.DataFrame
    about: dict[str, Any]


def plan(config: Config, folds: Sequence[Fold], device: str) -> list[Part]:
    """The parts of a config on this kind of device ("cpu", "gpu")."""
    run, seeds = config.run, config.run.seed_list
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
        parts += [Part(ranker, run, fold.name, group) for group in groups]
    return parts


def _worthwhile(n_lines: int, n_seeds: int, device: str) -> int:
    """Seeds at once: enough replicas for the device; equal groups, which one step serves."""
    wanted = -(-_WORTHWHILE.get(device, _WORTHWHILE_ELSEWHERE) // n_lines)
    return next((n for n in range(wanted, n_seeds) if n_seeds % n == 0), n_seeds)


def _lines(ranker: RankerConfig, run: RunConfig) -> list[Line]:
    points = grid(ranker.all_settings())
    return [
        Line(settings, user, stop, label)
        for (settings, label), user, stop in product(points, run.users, run.stop)
    ]


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
    rows = simulate_lines(*task(part, fold), progress, widths.append, heard)
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
        results.atomically(self._file, whole.write_parquet)


def from_elsewhere(part: Part, fold: Fold, curves: Curves, about: dict[str, Any]) -> Finished:
    """A part that a bare machine has run."""
    asked = task(part, fold)
    rows = rows_of(asked.ranker, asked.data, asked.lines, asked.options, curves)
    return Finished(rows, {**_about(part), **about})


def _about(part: Part) -> dict[str, Any]:
    return {
        "part": part.title,
        "replicas": part.load.n_replicas,
        "seeds_at_once": len(part.seeds),
    }


def file_name(part: Part, fold: Fold, data: DataConfig, device: str) -> str:
    """A readable name that changes whenever anything does that could move the part's rows."""
    determined_by = {
        "ranker": part.ranker.model_dump(mode="json"),
        "fold": fold.name,
        "seeds": part.seeds,
        "run": part.run.model_dump(mode="json", exclude={"seeds", "seeds_at_once"}),
        "data": data.model_dump(mode="json", exclude={"folds"}),
        "checksums": checksums(fold),
        "device": device,
        "versions": versions(),
    }
    text = json.dumps(determined_by, sort_keys=True, default=str)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    words = "-".join((part.ranker.title, fold.name, str(part.seeds[0])))
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '_', words)}-{digest}.parquet"


def checksums(fold: Fold) -> dict[str, str]:
    """Of the three parts of a fold."""
    return {name: getattr(fold, name).checksum for name in ("train", "validation", "test")}


def keep(finished: Finished, file: Path) -> None:
    """Write a finished part: all of it, or nothing."""
    about = {_METADATA: json.dumps(finished.about)}
    results.atomically(file, lambda partial: finished.rows.write_parquet(partial, metadata=about))


def find(file: Path) -> Finished | None:
    """A part that was kept; None when it was not, or the file is damaged."""
    try:
        about = json.loads(pl.read_parquet_metadata(file)[_METADATA])
        return Finished(pl.read_parquet(file), about)
    except (OSError, KeyError, ValueError, pl.exceptions.PolarsError):
        return None
