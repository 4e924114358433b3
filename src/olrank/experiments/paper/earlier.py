"""What a folder holds of other data sets, from earlier commands: it stays beside what is new.

A set that arrives later is added by reproducing on it alone, into the same folder and with the same
options; what was run before need not run again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from olrank.errors import ConfigError


class Earlier(NamedTuple):
    """What earlier commands left.

    Attributes:
        sets: names of their data sets that are not run now.
        records: their run.json, one a command, the latest last; those without such a set are gone.
    """

    sets: frozenset[str] = frozenset()
    records: tuple[dict[str, Any], ...] = ()

    def beside(self, rows: pl.DataFrame, file: Path) -> pl.DataFrame:
        """New rows with those of the earlier sets in this file, in the order of sets' names."""
        if not self.sets or not file.is_file():
            return rows
        old = pl.read_parquet(file).filter(pl.col("dataset").is_in(self.sets))
        both = pl.concat([old, rows], how="diagonal_relaxed")
        return both.sort("dataset", maintain_order=True)


def find_earlier(out: Path, names: Iterable[str], protocol: dict[str, Any]) -> Earlier:
    """What a folder holds of sets other than these.

    Args:
        out: the folder.
        names: of the sets that are run now.
        protocol: how, as run.json will have it; earlier sets must have been run the same way.
    """
    file = out / "run.json"
    if not file.is_file():
        return Earlier()
    *before, last = _records(json.loads(file.read_text("utf-8")))
    if "protocol" not in last:
        raise ConfigError(
            f"{out}: holds another experiment, not one of olrank reproduce. Give another --out."
        )
    now = set(names)
    sets: set[str] = set()
    records: list[dict[str, Any]] = []
    for record in (last, *reversed(before)):
        # Of two commands on one set the later counts.
        if own := set(record["data"]) - now - sets:
            _same(record["protocol"], json.loads(json.dumps(protocol)), own, out)
            sets |= own
            records.insert(0, record)
    return Earlier(frozenset(sets), tuple(records))


def _records(record: dict[str, Any]) -> list[dict[str, Any]]:
    alone = {key: value for key, value in record.items() if key != "earlier"}
    return [*record.get("earlier", []), alone]


def _same(theirs: dict[str, Any], ours: dict[str, Any], sets: set[str], out: Path) -> None:
    differ = sorted(key for key in {*theirs, *ours} if theirs.get(key) != ours.get(key))
    if differ:
        raise ConfigError(
            f"{out}: holds {', '.join(sorted(sets))}, run with other {', '.join(differ)}. Give the "
            "same options to add to it, or another --out."
        )
