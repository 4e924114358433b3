"""Go through the parts of an experiment, keep what is finished, and write what came out.

A part is one ranker on one fold with a few seeds; its settings, users and stop rules run together.
Its rows are kept in OUT/parts until the whole run is done, so that a killed run goes on where it
was. A part is found again by a checksum of all that determines it: config, data, code and versions.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl

from olrank.experiments import results
from olrank.experiments.config import Config, RankerConfig
from olrank.experiments.load import load_folds
from olrank.experiments.machine import machine, versions
from olrank.experiments.progress import Reporter, Silent
from olrank.experiments.simulate import Line, grid, simulate_lines
from olrank.figures.all import draw_all
from olrank.types import Fold


@dataclass(frozen=True)
class Outcome:
    """What a run left in its folder.

    Attributes:
        out: the folder.
        rows: as in rows.parquet.
        summary: as in summary.json; see `results.summarise`.
        figures: the files that were drawn.
    """

    out: Path
    rows: pl.DataFrame
    summary: pl.DataFrame
    figures: list[Path]


@dataclass(frozen=True)
class _Part:
    ranker: RankerConfig
    fold: Fold
    seeds: tuple[int, ...]

    @property
    def title(self) -> str:
        seeds = f"seed {self.seeds[0]}"
        if len(self.seeds) > 1:
            seeds = f"seeds {self.seeds[0]} to {self.seeds[-1]}"
        return f"{self.ranker.title}, fold {self.fold.name}, {seeds}"


def run(config: Config, out: Path, progress: Reporter | None = None) -> Outcome:
    """Run every part of a config and fill the folder `out` with rows, summary and figures."""
    started = datetime.now(UTC)
    folds = load_folds(config.data)
    parts = list(_plan(config, folds))
    with progress or Silent() as told:
        told.begin(len(parts))
        found = [_finished(part, config, out / "parts", told) for part in parts]
    frames = [frame for frame, _ in found]
    rows = results.settle(pl.concat(frames, how="diagonal"))
    chosen = results.select(rows)
    summary = results.summarise(chosen)
    results.write_rows(rows, out / "rows.parquet")
    results.write_json(summary.to_dicts(), out / "summary.json")
    results.write_text(results.markdown(summary), out / "table.md")
    n_resumed = sum(resumed for _, resumed in found)
    results.write_json(_record(config, folds, started, n_resumed), out / "run.json")
    figures = draw_all(chosen, out / "figures")
    shutil.rmtree(out / "parts")
    return Outcome(out, rows, summary, figures)


def _plan(config: Config, folds: list[Fold]) -> Iterator[_Part]:
    seeds = config.run.seed_list
    at_once = config.run.seeds_at_once or len(seeds)
    groups = [tuple(seeds[i : i + at_once]) for i in range(0, len(seeds), at_once)]
    for ranker, fold, group in product(config.ranker, folds, groups):
        yield _Part(ranker, fold, group)


def _finished(
    part: _Part, config: Config, kept: Path, progress: Reporter
) -> tuple[pl.DataFrame, bool]:
    """The rows of a part, and whether an earlier run had left them."""
    file = kept / _file_name(part, config)
    began = time.monotonic()
    resumed = file.is_file()
    if not resumed:
        rows = _simulate(part, config, progress)
        results.atomically(file, rows.write_parquet)
    progress.finish(part.title, time.monotonic() - began, resumed)
    # Read back also when fresh: a resumed run and an unbroken one then go the same way.
    return pl.read_parquet(file), resumed


def _simulate(part: _Part, config: Config, progress: Reporter) -> pl.DataFrame:
    progress.advance(part.title, 0, config.run.rounds)
    points = grid(part.ranker.all_settings())
    lines = [
        Line(settings, user, stop, label)
        for settings, label in points
        for user in config.run.users
        for stop in config.run.stop
    ]
    held_out = {f"ndcg@{config.run.k}": part.fold.test}
    if len(points) > 1:
        held_out[results.validation_metric(config.run.k)] = part.fold.validation
    return simulate_lines(
        part.ranker.name,
        part.fold.train,
        held_out,
        lines,
        rounds=config.run.rounds,
        seeds=part.seeds,
        k=config.run.k,
        gamma=config.run.gamma,
        empty=config.run.empty,
        fold=part.fold.name,
        label=part.ranker.title,
        progress=lambda done, total: progress.advance(part.title, done, total),
    )


def _file_name(part: _Part, config: Config) -> str:
    """A readable name that changes whenever anything does that could move the part's rows."""
    determined_by = {
        "ranker": part.ranker.model_dump(mode="json"),
        "fold": part.fold.name,
        "seeds": part.seeds,
        "run": config.run.model_dump(mode="json", exclude={"seeds", "seeds_at_once"}),
        "data": config.data.model_dump(mode="json", exclude={"folds"}),
        "checksums": _checksums(part.fold),
        "versions": versions(),
    }
    text = json.dumps(determined_by, sort_keys=True, default=str)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    words = "-".join((part.ranker.title, part.fold.name, str(part.seeds[0])))
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '_', words)}-{digest}.parquet"


def _checksums(fold: Fold) -> dict[str, str]:
    return {name: getattr(fold, name).checksum for name in ("train", "validation", "test")}


def _record(config: Config, folds: list[Fold], started: datetime, n_resumed: int) -> dict[str, Any]:
    """What run.json says: all that is needed to run it again, and what it took."""
    ended = datetime.now(UTC)
    return {
        "config": config.model_dump(mode="json", exclude_none=True),
        "versions": versions(),
        "data": {fold.name: _checksums(fold) for fold in folds},
        "machine": machine(),
        "started": started.isoformat(timespec="seconds"),
        "ended": ended.isoformat(timespec="seconds"),
        "seconds": round((ended - started).total_seconds(), 1),
        "resumed_parts": n_resumed,
    }
