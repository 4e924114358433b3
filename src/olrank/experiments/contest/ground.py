"""A contest and its folder: what is asked, what is recorded, and what is frozen."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from olrank.errors import ConfigError
from olrank.experiments.contest.arena import Used
from olrank.experiments.contest.config import Contest
from olrank.experiments.contest.entrants import has_choice
from olrank.experiments.rows import files
from olrank.experiments.running import lambdamart
from olrank.experiments.running.machine import machine, versions
from olrank.experiments.running.progress import Reporter, Silent

_ASKED = {
    "search": ("search", "candidate", "reference"),
    "evaluate": ("evaluate", "reference"),
    "robust": ("robust",),
}
_RECORDS = {
    "search": "search.json",
    "evaluate": "run.json",
    "robust": "robust.json",
    "outside": "outside.json",
}


@dataclass
class Ground:
    """A contest and the folder that it fills.

    Attributes:
        contest: what is asked.
        out: the folder.
        device: "cpu" or "gpu"; an accelerator where there is one when None.
        elsewhere: a folder for a bare machine (see engine.bare): what ran there is taken from it,
            the rest is written into it, and the stage waits for it.
        progress: hears how far a stage is.
        rivals: folder of an earlier contest whose baselines and references stand for ours.
    """

    contest: Contest
    out: Path
    device: str | None = None
    elsewhere: Path | None = None
    progress: Reporter = field(default_factory=Silent)
    rivals: Path | None = None

    def asked(self, stage: str) -> dict[str, Any]:
        """All of the config that a stage's rows follow from."""
        whole = self.contest.model_dump(mode="json")
        measured = {name: whole["evaluate"][name] for name in ("k", "gamma", "empty")}
        if stage == "outside":  # it meets neither users nor rivals
            return {"data": whole["data"], "k": measured["k"], "empty": measured["empty"]}
        if stage == "search":
            searched = [one for one in self.contest.reference if has_choice(one)]
            whole["reference"] = [one.model_dump(mode="json") for one in searched]
        elif not self.contest.final:
            measured["final"] = False
        if stage == "robust" and self.contest.robust_folds is not None:
            measured["robust_folds"] = self.contest.robust_folds
        return {name: whole[name] for name in ("data", "baseline", *_ASKED[stage])} | measured

    def record(self, stage: str) -> dict[str, Any] | None:
        """What a finished stage said of itself."""
        file = self.out / _RECORDS[stage]
        return json.loads(file.read_text("utf-8")) if file.is_file() else None

    def chosen(self) -> dict[str, Any]:
        """The frozen choice."""
        file = self.out / "chosen.json"
        if not file.is_file():
            raise ConfigError(
                f"{file}: not there. The test parts stay closed until settings are chosen: "
                "olrank contest CONFIG --stage choose"
            )
        found: dict[str, Any] = json.loads(file.read_text("utf-8"))
        if found["search_sha256"] != checksum(self.out / "search.parquet"):
            raise ConfigError(f"{file}: was chosen from another search. Choose again.")
        return found

    def is_done(self, stage: str) -> bool:
        """Whether the folder holds a stage as the config asks for it."""
        if stage == "choose":
            try:
                self.chosen()
            except ConfigError:
                return False
            return True
        if stage == "robust" and not self.contest.robust:
            return True
        if stage == "outside" and not lambdamart.available():
            return True
        return self.holds(stage)

    def holds(self, stage: str) -> bool:
        """Whether the record of a stage that runs something is of what the config asks for."""
        record = self.record(stage)
        if record is None or record["asked"] != self.asked(stage):
            return False
        return stage == "search" or record["chosen_sha256"] == checksum(self.out / "chosen.json")

    def check_frozen(self, chosen_sha256: str) -> None:
        """Refuse another choice once test parts were opened with one."""
        for stage in ("evaluate", "robust", "outside"):
            record = self.record(stage)
            if record is not None and record["chosen_sha256"] != chosen_sha256:
                raise ConfigError(
                    f"{self.out}: the test parts were opened ({_RECORDS[stage]}) with another "
                    "choice than this. What is chosen after that is not chosen blindly: use "
                    "another --out, and say so."
                )

    def write_record(
        self,
        stage: str,
        used: Iterable[Used],
        parts: list[dict[str, Any]],
        packages: Mapping[str, str] | None = None,
        rivals: Mapping[str, str] | None = None,
    ) -> None:
        """Say what a finished stage was asked for, on what data, and what it took.

        Args:
            stage: that is finished.
            used: data set, fold and checksums of its parts, for every fold.
            parts: what every part of the work says of itself.
            packages: versions of those that this stage alone needs.
            rivals: where those that did not run here came from.
        """
        record = {
            "asked": self.asked(stage),
            **(rivals or {}),
            **({} if stage == "search" else {"chosen_sha256": checksum(self.out / "chosen.json")}),
            "data": parts_of(used),
            "versions": {**versions(), **(packages or {})},
            "machine": machine(),
            # Of the runs, wherever they were: a stage may be collected much later.
            "seconds": round(sum(part["seconds"] for part in parts), 1),
            "parts": parts,
        }
        files.write_json(record, self.out / _RECORDS[stage])


def parts_of(used: Iterable[Used]) -> dict[str, dict[str, dict[str, str]]]:
    """Checksums by data set and fold."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for dataset, fold, checksums in used:
        found.setdefault(dataset, {})[fold] = checksums
    return found


def checksum(file: Path) -> str:
    """SHA-256 of a file; nothing where it is not there."""
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
