"""Finished work, kept as one file as soon as it is done, so that a killed command goes on.

A file is found again by a checksum of all that determines its rows: settings, data, code, versions
and kind of device.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from olrank.errors import DataError, WaitingError
from olrank.experiments.rows import files
from olrank.types import Fold

_METADATA = "olrank"
_LONGEST = 80  # letters of a name before its checksum


class Finished(NamedTuple):
    """The rows of a piece of work, and what run.json says of it."""

    rows: pl.DataFrame
    about: dict[str, Any]


def name_for(title: str, determined_by: Mapping[str, Any]) -> str:
    """A readable name that changes whenever anything does that the rows follow from."""
    text = json.dumps(determined_by, sort_keys=True, default=str)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '_', title)[:_LONGEST]}-{digest}"


def checksums(fold: Fold) -> dict[str, str]:
    """Of the three parts of a fold."""
    return {name: getattr(fold, name).checksum for name in ("train", "validation", "test")}


def keep(finished: Finished, file: Path) -> None:
    """Write it: all of it, or nothing."""
    about = {_METADATA: json.dumps(finished.about)}
    files.atomically(file, lambda partial: finished.rows.write_parquet(partial, metadata=about))


def find(file: Path) -> Finished | None:
    """What was kept in a file; None when nothing was, or the file is damaged."""
    try:
        about = json.loads(pl.read_parquet_metadata(file)[_METADATA])
        return Finished(pl.read_parquet(file), about)
    except (OSError, KeyError, ValueError, pl.exceptions.PolarsError):
        return None


def read(file: Path) -> Finished:
    """What this command has kept in a file, fresh or found.

    Fresh work is read back as well: a resumed command and an unbroken one then go the same way.
    """
    finished = find(file)
    if finished is None:
        raise DataError(f"{file}: was written and cannot be read back. Look at the disk.")
    return finished


def waiting(how_many: str, folder: Path) -> WaitingError:
    """What to do about work that a machine with only NumPy and JAX has not run yet."""
    return WaitingError(
        f"{how_many} parts are in {folder} and have not run yet.\n"
        "  Run them where the accelerator is: PYTHONPATH=src python -m olrank.engine.bare "
        f"{folder}\n  Then give the same command again."
    )
