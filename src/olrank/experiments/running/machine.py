"""What a run was made with and on: versions, code and machine, for run.json and for resuming."""

from __future__ import annotations

import hashlib
import os
import platform
from datetime import UTC, datetime
from functools import cache
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import jax

import olrank

_CPU_INFO = Path("/proc/cpuinfo")  # on Linux
_PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "polars")


@cache
def versions() -> dict[str, str]:
    """Python, olrank and the packages that can move a number, with a checksum of olrank's code."""
    found = {name: metadata.version(name) for name in _PACKAGES}
    return {
        "python": platform.python_version(),
        "olrank": olrank.__version__,
        "olrank_code": code_checksum(),
        **found,
    }


def took(started: datetime) -> dict[str, Any]:
    """When something began and ended, that is now, and the seconds between."""
    ended = datetime.now(UTC)
    return {
        "started": started.isoformat(timespec="seconds"),
        "ended": ended.isoformat(timespec="seconds"),
        "seconds": round((ended - started).total_seconds(), 1),
    }


def code_checksum() -> str:
    """SHA-256 over olrank's own source files: two runs of one version may differ in code."""
    root = Path(str(resources.files("olrank")))
    digest = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def machine() -> dict[str, Any]:
    """The processor, of what kind it is, its cores and what JAX computes on."""
    device = jax.devices()[0]
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu_model(),
        "cpu_kind": processor(),
        "cores": os.cpu_count(),
        "device": device.platform,
        "device_kind": device.device_kind,
    }


def processor(info: Path = _CPU_INFO) -> str:
    """A name for all processors that run the same machine code.

    Many go by one model name and differ in features, and then in the last digits of a number.
    """
    told = platform.machine()
    if info.is_file():
        lines = info.read_text("utf-8", errors="replace").splitlines()
        named = ("flags", "Features", "model name")
        told += "".join(sorted({line for line in lines if line.startswith(named)}))
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def _cpu_model() -> str:
    """The processor's name where Linux tells it, else what Python knows."""
    if _CPU_INFO.is_file():
        for line in _CPU_INFO.read_text("utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
