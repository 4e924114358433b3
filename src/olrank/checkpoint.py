"""Saved states: one safetensors file with arrays by name, facts as JSON, and a SHA-256 over both.

No pickle, so that reading a file from somebody else runs nothing. Files are written beside their
place and moved there, so that a crash leaves the old one or the new one, never half of one.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from olrank.errors import CheckpointError
from olrank.types import PyTree

_FORMAT = "olrank checkpoint 1"


def write(path: Path, state: PyTree, facts: Mapping[str, Any]) -> None:
    """Save a pytree of arrays with its facts (anything that JSON can hold)."""
    arrays = _named(state)
    text = json.dumps(facts, sort_keys=True)
    metadata = {"format": _FORMAT, "facts": text, "sha256": _digest(arrays, text)}
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        save_file(arrays, beside, metadata=metadata)
        _sync(beside)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def read_facts(path: Path) -> dict[str, Any]:
    """The facts of a saved state, without its arrays."""
    return _open(path)[0]


def read(path: Path, like: PyTree) -> PyTree:
    """The saved state, in the structure of `like`, which has the same names, shapes and dtypes."""
    _, arrays = _open(path)
    expected = _named(like)
    for name in sorted(expected.keys() | arrays.keys()):
        here, there = expected.get(name), arrays.get(name)
        if here is None or there is None or here.shape != there.shape or here.dtype != there.dtype:
            raise CheckpointError(
                f"{path}: array {name} does not fit the ranker that its facts describe "
                f"(expected {_shape(here)}, found {_shape(there)}). The file comes from another "
                "version of olrank, or was changed."
            )
    _, structure = jax.tree.flatten(like)
    return jax.tree.unflatten(structure, [jax.numpy.asarray(arrays[name]) for name in expected])


def digest(state: PyTree) -> str:
    """SHA-256 of a state: equal exactly when every array is, bit for bit."""
    return _digest(_named(state), "")


def _open(path: Path) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    if not path.is_file():
        raise CheckpointError(f"{path}: there is no such file. Save a ranker there first.")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}
    except (SafetensorError, ValueError) as reason:
        raise CheckpointError(f"{path}: not a saved ranker, or a damaged one ({reason}).") from None
    if metadata.get("format") != _FORMAT:
        raise CheckpointError(
            f'{path}: expected format "{_FORMAT}", found "{metadata.get("format")}". It was saved '
            "by another program, or by another version of olrank."
        )
    text = metadata.get("facts", "")
    if _digest(arrays, text) != metadata.get("sha256"):
        raise CheckpointError(f"{path}: its checksum is wrong. The file is damaged; use a copy.")
    facts: dict[str, Any] = json.loads(text)
    return facts, arrays


def _named(state: PyTree) -> dict[str, npt.NDArray[Any]]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    return {
        jax.tree_util.keystr(where, simple=True, separator="."): np.asarray(leaf)
        for where, leaf in leaves
    }


def _digest(arrays: Mapping[str, npt.NDArray[Any]], text: str) -> str:
    sha = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        sha.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()


def _shape(array: npt.NDArray[Any] | None) -> str:
    return "nothing" if array is None else f"{array.dtype} {array.shape}"


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())
