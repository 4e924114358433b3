"""The name of what a benchmark ran on, and the file its results go to."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import jax

RESULTS = Path(__file__).resolve().parent / "results"


def name() -> str:
    """The GPU's name, or the processor's with the cores that this process may use."""
    device = jax.devices()[0]
    if device.platform != "cpu":
        return device.device_kind
    info = Path("/proc/cpuinfo")
    models = re.findall(r"model name\s*: (.*)", info.read_text()) if info.is_file() else []
    return f"{models[0] if models else 'CPU'}, {len(os.sched_getaffinity(0))} cores"


def write(benchmark: str, found: dict[str, Any]) -> Path:
    """Keep what was found, under the benchmark's and the device's kind."""
    RESULTS.mkdir(exist_ok=True)
    slug = re.sub(r"[^a-z0-9]+", "-", jax.devices()[0].device_kind.lower()).strip("-")
    path = RESULTS / f"{benchmark}-{slug}.json"
    path.write_text(json.dumps(found, indent=1) + "\n")
    return path
