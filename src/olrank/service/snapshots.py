"""Snapshots: whole models in files, recorded in the log once they are durable.

A file holds all arrays of the state, and as JSON the configuration, the counters, the log position
it covers, its digest and the build that made it (checkpoint.py: safetensors, SHA-256, no pickle).
File names are made from ids that the service itself drew, never from what a client sent.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from olrank import checkpoint
from olrank.errors import CheckpointError
from olrank.service import build, crashpoints
from olrank.service.apply import Model
from olrank.service.blueprint import Blueprint, State

_ID = re.compile(r"[a-z0-9-]{1,64}")
_MUST_AGREE = ("algorithm", "settings", "k", "n_features", "features", "normalise")


def new_id(position: int) -> str:
    """An id nobody has used: the position says how old it is, the rest tells two apart."""
    return f"{position:012d}-{secrets.token_hex(4)}"


def path(folder: Path, birth: int, snapshot_id: str) -> Path:
    """Where a snapshot's file lies."""
    if not _ID.fullmatch(snapshot_id):
        raise CheckpointError(f"snapshot {snapshot_id!r}: not an id of this service.")
    return folder / "snapshots" / str(birth) / f"{snapshot_id}.safetensors"


def write(folder: Path, birth: int, snapshot_id: str, model: Model) -> dict[str, Any]:
    """Make a model durable; returns the facts of the file."""
    facts = {
        "config": dict(model.blueprint.config),
        "version": model.version,
        "n_trained": model.n_trained,
        "covers": model.position,
        "learns": model.learns,
        "digest": model.digest(),
        "build": build.fingerprint(),
    }
    crashpoints.reach("snapshot.begun")
    place = path(folder, birth, snapshot_id)
    checkpoint.write(place, model.state, facts)
    crashpoints.reach("snapshot.renamed")
    _sync_folders(place, folder)
    crashpoints.reach("snapshot.durable")
    return facts


def read(folder: Path, birth: int, snapshot_id: str, blueprint: Blueprint) -> State:
    """The state of a snapshot, checked."""
    state: State = checkpoint.read(path(folder, birth, snapshot_id), blueprint.like)
    return state


def resume(folder: Path, birth: int, snapshot_id: str, blueprint: Blueprint) -> Model:
    """The model that was snapshot, at the position that it covers."""
    place = path(folder, birth, snapshot_id)
    facts = checkpoint.read_facts(place)
    state = checkpoint.read(place, blueprint.like)
    model = Model(
        blueprint=blueprint,
        state=state,
        n_trained=facts["n_trained"],
        version=facts["version"],
        position=facts["covers"],
        learns=facts["learns"],
    )
    return model


def check(place: Path) -> dict[str, Any]:
    """Read a whole file and check it; its facts."""
    return checkpoint.read_facts(place)


def take_in(
    folder: Path, birth: int, snapshot_id: str, content: bytes, blueprint: Blueprint
) -> Any:
    """Store a file brought from elsewhere, after checking that its model fits this ranker."""
    place = path(folder, birth, snapshot_id)
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = place.with_name(f".{place.name}.import")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        facts = checkpoint.read_facts(beside)
        _check_fits(facts.get("config", {}), blueprint.config)
        checkpoint.read(beside, blueprint.like)
        beside.replace(place)
        _sync_folders(place, folder)
    except CheckpointError as error:
        raise CheckpointError(str(error).replace(str(beside), "the file")) from None
    finally:
        beside.unlink(missing_ok=True)
    return facts


def pin(folder: Path, birth: int, snapshot_id: str) -> None:
    """Keep a snapshot for good: a promote record is about to name it, and replay will need it."""
    place = path(folder, birth, snapshot_id).with_suffix(".pinned")
    place.touch()
    _sync_folders(place, folder)


def is_pinned(folder: Path, birth: int, snapshot_id: str) -> bool:
    """Whether somebody promoted it."""
    return path(folder, birth, snapshot_id).with_suffix(".pinned").exists()


def remove(folder: Path, birth: int, snapshot_id: str) -> None:
    """Delete a snapshot's file; call it only after the log has forgotten the snapshot."""
    path(folder, birth, snapshot_id).unlink(missing_ok=True)


def sweep(folder: Path, kept: Mapping[int, set[str]]) -> list[Path]:
    """Delete files that no record names: of deleted rankers, or of a write that was cut short."""
    gone = []
    for place in sorted((folder / "snapshots").glob("*/*")):
        known = kept.get(int(place.parent.name), set()) if place.parent.name.isdigit() else set()
        if place.stem not in known or place.suffix not in (".safetensors", ".pinned"):
            place.unlink(missing_ok=True)
            gone.append(place)
    return gone


def _check_fits(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    for name in _MUST_AGREE:
        if theirs.get(name) != ours.get(name):
            raise CheckpointError(
                f"the file's ranker has another {name} ({_brief(theirs.get(name))}) than this one "
                f"({_brief(ours.get(name))}). Create a ranker with the file's configuration."
            )


def _brief(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _sync_folders(place: Path, top: Path) -> None:
    """Make the names durable, too: of the file, and of folders that are new."""
    for folder in (place.parent, place.parent.parent, top):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
