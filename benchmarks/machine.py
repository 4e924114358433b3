"""The name of what a benchmark ran on, and the file its results go to."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

Merge = Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]

RESULTS = Path(__file__).resolve().parent / "results"


def name() -> str:
    """The GPU's name, or the processor's with the cores that this process may use."""
    device = jax.devices()[0]
    if device.platform != "cpu":
        return device.device_kind
    info = Path("/proc/cpuinfo")
    models = re.findall(r"model name\s*: (.*)", info.read_text()) if info.is_file() else []
    return f"{models[0] if models else 'CPU'}, {len(os.sched_getaffinity(0))} cores"


def write(benchmark: str, found: dict[str, Any], merged: Merge | None = None) -> Path:
    """Keep what was found, under the benchmark's name and the device's.

    Args:
        benchmark: its name.
        found: what it found.
        merged: gives what to keep of what the same machine found before and now; only the latter
            when None.
    """
    RESULTS.mkdir(exist_ok=True)
    slug = re.sub(r"[^a-z0-9]+", "-", jax.devices()[0].device_kind.lower()).strip("-")
    path = RESULTS / f"{benchmark}-{slug}.json"
    if merged is not None and path.is_file():
        before = json.loads(path.read_text())
        found = merged(before, found) if before["device"] == found["device"] else found
    path.write_text(json.dumps(found, indent=1) + "\n")
    return path
