"""What JAX computes on: choose it, list it, and keep what was compiled for it."""

from __future__ import annotations

import time
import zlib
from pathlib import Path

import jax

from olrank.data.cache import cache_folder
from olrank.errors import ConfigError
from olrank.experiments.running.machine import processor

_WORTH_KEEPING_S = 0.0  # the many small programs of a start take seconds together
_KEEP_S = 60 * 24 * 3600  # nobody else deletes what changed code does not find again
_STAMP = "checked"
_ZSTD = b"\x28\xb5\x2f\xfd"


def use_device(name: str | None) -> str:
    """Let JAX compute on "cpu" or "gpu", before it computes anything; None leaves it the choice.

    JAX's own choice is an accelerator where there is one, and the processor elsewhere.

    Returns:
        The platform that JAX now computes on.
    """
    if name == "cpu":
        _configure("jax_platforms", "cpu")
    elif name == "gpu":
        # JAX_PLATFORMS may hide the GPU that the command line asks for.
        _configure("jax_platforms", None)
    found = jax.default_backend()
    if name is not None and found != name:
        raise ConfigError(f"device {name}: JAX computes on {found} here.\n  {_advice(name)}")
    return found


def devices() -> list[str]:
    """What JAX sees, a line each, and what to do when a GPU is missing."""
    found = jax.devices()
    lines = []
    for device in found:
        stats = device.memory_stats() or {}
        memory = f", {stats['bytes_limit'] / 1e9:.0f} GB" if "bytes_limit" in stats else ""
        lines.append(f"{device.platform} {device.id}: {device.device_kind}{memory}")
    if all(device.platform == "cpu" for device in found):
        lines.append(_advice("gpu"))
    return lines


def _advice(name: str) -> str:
    if name == "cpu":
        return "JAX has started already; choose the device before anything is computed."
    return (
        f"JAX {jax.__version__} sees no GPU. On a machine with an NVIDIA GPU install its GPU "
        'build: pip install "jax[cuda13]"'
    )


def keep_compiled() -> Path | None:
    """Keep compiled programs in olrank's cache folder, where the next process finds them.

    JAX finds a program by its code, its options and the versions, so a kept one computes what a
    fresh one would; processors of other features get a folder of their own, because JAX does not
    tell them apart.

    Returns:
        The folder; None where it cannot be written, and nothing is kept.
    """
    given: str | None = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    if given is not None:  # JAX's own variable says where
        return Path(given)
    root = cache_folder(True)
    assert root is not None
    folder = root / "compiled" / processor()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _tidy(folder)
    except OSError:
        return None
    _configure("jax_compilation_cache_dir", str(folder))
    _configure("jax_persistent_cache_min_compile_time_secs", _WORTH_KEEPING_S)
    return folder


def _configure(option: str, value: object) -> None:
    jax.config.update(option, value)  # type: ignore[no-untyped-call]


def _tidy(folder: Path) -> None:
    """Delete entries that are old, and those that a killed process left half written.

    JAX would compile the program of a half one again and again: it warns of the entry, and never
    replaces it. An entry is looked at once after it was written.
    """
    stamp = folder / _STAMP
    since_s = stamp.stat().st_mtime if stamp.exists() else 0.0
    too_old_s = time.time() - _KEEP_S
    for entry in folder.glob("*-cache"):
        written_s = entry.stat().st_mtime
        is_new = written_s >= since_s
        if written_s < too_old_s or (is_new and not _whole(entry.read_bytes())):
            entry.unlink(missing_ok=True)
    stamp.touch()


def _whole(entry: bytes) -> bool:
    if entry.startswith(_ZSTD):  # JAX compresses so where it can; the standard library cannot
        return True
    try:
        zlib.decompress(entry)
    except zlib.error:
        return False
    return True
