"""Rivals that have met before: an earlier contest's rows stand for baselines and references.

They follow from the config and the seeds alone, so that a contest which asks the same of them need
not run them again; only its candidates run, and what is chosen from them.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from olrank.errors import ConfigError
from olrank.experiments.contest.arena import Used
from olrank.experiments.contest.ground import Ground, checksum, parts_of
from olrank.experiments.contest.tasks import Entrant
from olrank.experiments.reports.verdicts import BEST, LEFT_OUT

_OURS = ("candidate", "best")


def to_run(ground: Ground, field_: list[Entrant]) -> list[Entrant]:
    """Those whose rows are not there."""
    if ground.rivals is None:
        return field_
    return [one for one in field_ if one.role in _OURS]


def check(ground: Ground, stage: str, used: list[Used]) -> None:
    """Refuse a folder that holds something else than this stage asks for.

    Args:
        ground: of this contest.
        stage: that is about to run.
        used: data set, fold and checksums of its parts, for every fold.
    """
    if ground.rivals is None:
        return
    there = Ground(ground.contest, ground.rivals)
    record = there.record(stage)
    if record is None:
        raise ConfigError(
            f"{ground.rivals}: holds no finished {stage}. rivals_of names a contest that was run "
            "to its end."
        )
    # What is asked of the candidates, not of their rivals.
    own = ("candidate", "final", "robust_folds")
    asked = {name: value for name, value in ground.asked(stage).items() if name not in own}
    differing = [name for name in asked if record["asked"].get(name) != asked[name]]
    if record["data"] != parts_of(used):
        differing.append("content of the data")
    if stage != "search" and _tuned(there) != _tuned(ground):
        differing.append("choice of rivals' settings")
    if differing:
        raise ConfigError(
            f"{ground.rivals}: its {stage} was of another {', '.join(differing)}. Its rivals "
            "cannot stand for those of this contest: run it again, or leave rivals_of out."
        )


def _tuned(ground: Ground) -> Any:
    return ground.chosen()["tuned"]


def beside(ground: Ground, rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """Our rows with the rivals' from the earlier folder's file of this name before them."""
    if ground.rivals is None:
        return rows
    theirs = pl.read_parquet(ground.rivals / name)
    role = pl.col("role").is_in(_OURS) if "role" in theirs.columns else pl.lit(False)
    theirs = theirs.filter(~role, ~pl.col("ranker").is_in((BEST, LEFT_OUT)))
    if missing := set(rows.columns) ^ set(theirs.columns):
        raise ConfigError(
            f"{ground.rivals / name}: of another version: {', '.join(sorted(missing))} is in one "
            "of the two only. Leave rivals_of out."
        )
    return pl.concat([theirs, rows.select(theirs.columns).cast(theirs.schema)])


def told(ground: Ground, name: str) -> dict[str, str]:
    """What a record says of where rivals came from."""
    if ground.rivals is None:
        return {}
    return {"rivals": ground.rivals.resolve().name, "rivals_sha256": checksum(ground.rivals / name)}
