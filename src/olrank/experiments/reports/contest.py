"""A contest's report, from its rows alone: table.md, chosen.md and the figure.

A report is refused when chosen.json is not the choice that the test parts were opened with. Other
conditions may have run before the evaluation; the report is then of them alone.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path

import polars as pl

from olrank.errors import DataError, unknown_name
from olrank.experiments.reports import beside, chosen, verdicts
from olrank.experiments.reports.contest_tables import PARTS, Found, robust
from olrank.experiments.reports.resampling import resample
from olrank.experiments.reports.verdicts import BEST, LEFT_OUT, MARGIN
from olrank.experiments.rows import files
from olrank.figures import differences

_FILES = (
    "chosen.json", "run.json", "robust.json", "outside.json",
    "rows.parquet", "queries.parquet", "robust.parquet", "outside.parquet",
)  # fmt: skip
_SAME = ("data", "k", "empty")  # asked alike, two stages are judged on the same queries
_TITLES = {
    "verdict": "Verdict",
    "cells": "Against the best baseline of every cell",
    "rivals": "Against each rival, over all cells",
    "closed": "Share of the distance from the best baseline to the better skyline",
    "robust": "Other conditions",
    "means": "All means",
    "all": "Every comparison",
}


def is_contest(folder: Path) -> bool:
    """Whether a folder holds a contest."""
    return (folder / "chosen.json").is_file()


def find(folder: Path) -> Found:
    """What a folder holds; refuses rows of another choice than chosen.json's."""
    return _find(folder, tuple(_checksum(folder / name) for name in _FILES))


@cache
def _find(folder: Path, checksums: tuple[str, ...]) -> Found:
    _check_choice(folder, checksums[0])
    rows = files.read_rows(folder)
    metric = verdicts.offline_metric(rows)
    units = verdicts.last_values(rows).filter(metric=metric)
    outside = _outside(folder)
    resampled = resample(pl.read_parquet(folder / "queries.parquet"), units, outside=outside)
    return Found(
        rows,
        resampled,
        {
            ours: verdicts.compare(rows, resampled, ours)
            for ours in (LEFT_OUT, BEST)
            if ours in rows["ranker"]
        },
        _robust_rows(folder),
        {} if outside is None else beside.outside_means(outside),
    )


def _check_choice(folder: Path, checksum: str) -> None:
    for record in ("run.json", "robust.json", "outside.json"):
        file = folder / record
        if not file.is_file():
            continue
        if json.loads(file.read_text("utf-8"))["chosen_sha256"] != checksum:
            raise DataError(
                f"{folder / 'chosen.json'}: has changed since the test parts were opened "
                f"({record}). What it says now is not what was measured; put it back."
            )


def _robust_rows(folder: Path) -> pl.DataFrame | None:
    file = folder / "robust.parquet"
    return files.read_rows(file) if file.is_file() else None


def _outside(folder: Path) -> pl.DataFrame | None:
    """Single queries of the outside skyline; None without one, or where it was asked otherwise."""
    records = [folder / name for name in ("run.json", "outside.json")]
    if not all(file.is_file() for file in records):
        return None
    rows, outside = (json.loads(file.read_text("utf-8"))["asked"] for file in records)
    same = all(rows[name] == outside[name] for name in _SAME)
    return pl.read_parquet(folder / "outside.parquet") if same else None


def _checksum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""


def write(folder: Path) -> list[Path]:
    """The tables of a contest, and the figure where it was evaluated."""
    files.write_text(text(folder), folder / "table.md")
    return [folder / "table.md", *(draw(folder) if _evaluated(folder) else [])]


def text(folder: Path) -> str:
    """All tables, as table.md holds them."""
    names = PARTS if _evaluated(folder) else ("robust",)
    parts = [f"## {_TITLES[name]}\n\n{part(folder, name)}" for name in names]
    return "\n\n".join([f"# {folder.resolve().name}", *parts]) + "\n"


def draw(folder: Path) -> list[Path]:
    """The figure: differences with their intervals."""
    compared = find(folder).compared[LEFT_OUT].filter(role="baseline")
    return [differences.draw(compared, folder / "figures" / "differences.svg", MARGIN)]


def part(folder: Path, name: str) -> str:
    """One table of the contest, by name."""
    if name == "chosen":
        return chosen.markdown(json.loads((folder / "chosen.json").read_text("utf-8"))).strip()
    if name not in PARTS:
        raise unknown_name("part", name, [*PARTS, "chosen"])
    if name == "robust":  # needs no evaluation
        _check_choice(folder, _checksum(folder / "chosen.json"))
        return "\n".join(robust(_robust_rows(folder))).strip()
    return "\n".join(PARTS[name](find(folder))).strip()


def _evaluated(folder: Path) -> bool:
    """Whether there are other rows than those of other conditions."""
    return (folder / "rows.parquet").is_file() or not (folder / "robust.parquet").is_file()
