"""Simulations as files: described on one machine, run on another that has only NumPy and JAX.

A folder holds data sets (NAME.npz), tasks (NAME.json: what to simulate, in words) and, once they
were run, what they measured (NAME.curves.npz). Copy the folder and olrank's sources to the machine
with the accelerator, and run there

    PYTHONPATH=src python -m olrank.engine.bare FOLDER

Tasks that have curves are skipped, so a stopped run goes on; SIGINT and SIGTERM stop it at once,
without waiting for the tasks in hand. No pickle: arrays and JSON.

Many a task takes longer to compile than to run. `--at-once 2` works on two tasks in one process, so
that one is compiled while the other runs; the seconds that are recorded of them overlap. More get
into each other's way: of nine at once each took five times as long. So do several processes on one
GPU.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from olrank.engine.measure import Curves, Line, Options, measure
from olrank.errors import ConfigError, DataError
from olrank.types import Dataset

_CURVES = ".curves.npz"
_ABOUT = "about"


class Task(NamedTuple):
    """One ranker on one fold; see `measure`."""

    ranker: str
    data: Dataset
    held_out: Mapping[str, Dataset]
    lines: Sequence[Line]
    options: Options


def write(folder: Path, name: str, task: Task) -> None:
    """Describe a task in the folder; data sets that are there already are not written again."""
    if any(not isinstance(line.user, str) for line in task.lines):
        raise ConfigError("a task in a file names its users; a User of your own cannot be written.")
    folder.mkdir(parents=True, exist_ok=True)
    words = {
        "ranker": task.ranker,
        "data": _write_data(folder, task.data),
        "held_out": {metric: _write_data(folder, data) for metric, data in task.held_out.items()},
        "lines": [line._asdict() for line in task.lines],
        "options": asdict(task.options),
    }
    _put(folder / f"{name}.json", json.dumps(words, indent=1).encode())


def read(folder: Path, name: str) -> Task:
    """A task as it was described."""
    words = json.loads((folder / f"{name}.json").read_text())
    options = dict(words["options"])
    for key in ("seeds", "evaluate_after", "sizes"):
        options[key] = None if options[key] is None else tuple(options[key])
    return Task(
        ranker=words["ranker"],
        data=_read_data(folder, words["data"]),
        held_out={metric: _read_data(folder, at) for metric, at in words["held_out"].items()},
        lines=[Line(**line) for line in words["lines"]],
        options=Options(**options),
    )


def found(folder: Path, name: str) -> tuple[Curves, dict[str, Any]] | None:
    """What a task measured, and where and how long it ran; None when it has not run yet."""
    file = folder / f"{name}{_CURVES}"
    if not file.is_file():
        return None
    with np.load(file, allow_pickle=False) as arrays:
        about = json.loads(str(arrays[_ABOUT]))
        metrics = {metric: arrays[f"m{i}"] for i, metric in enumerate(about.pop("metrics"))}
        by_query = {metric: arrays[f"q{i}"] for i, metric in enumerate(about.pop("by_query", []))}
        return Curves(arrays["evaluated"], metrics, by_query), about


def run(folder: Path, name: str) -> float:
    """Run a task and leave its curves beside it; seconds it took."""
    began = time.monotonic()
    task = read(folder, name)
    widths: list[int] = []
    tell = _Teller(name)
    curves = measure(*task, progress=tell, batched=widths.append)
    seconds = time.monotonic() - began
    about = {
        "seconds": round(seconds, 3),
        "replicas_at_once": sorted(set(widths)),
        "metrics": list(curves.metrics),
        "by_query": list(curves.by_query),
        "machine": _machine(),
    }
    arrays: dict[str, Any] = {f"m{i}": v for i, v in enumerate(curves.metrics.values())}
    arrays |= {f"q{i}": v for i, v in enumerate(curves.by_query.values())}
    _save(folder / f"{name}{_CURVES}", {"evaluated": curves.evaluated, **arrays}, about)
    return seconds


def tasks(folder: Path) -> list[str]:
    """Names of all tasks in a folder, in order."""
    return sorted(file.stem for file in folder.glob("*.json"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run every task of a folder that has no curves yet."""
    parser = argparse.ArgumentParser(prog="python -m olrank.engine.bare")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="tasks whose name contains this")
    parser.add_argument("--at-once", type=int, default=1, help="tasks to work on at a time")
    given = parser.parse_args(arguments)
    names = [name for name in tasks(given.folder) if given.only in name]
    if not names:
        print(f"{given.folder}: no task here. Write some with: olrank run CONFIG --bare FOLDER")
        return 2
    left = [name for name in names if not (given.folder / f"{name}{_CURVES}").is_file()]
    left = _each_kind_first(given.folder, left)
    print(f"{len(left)} of {len(names)} tasks to run on {jax.devices()[0].device_kind}", flush=True)
    for i, (name, seconds) in enumerate(_run_all(given.folder, left, given.at_once), 1):
        print(f"[{i}/{len(left)}] {name} ({seconds:.1f} s)", flush=True)
    return 0


def _stop(number: int, frame: object) -> None:
    """End the process now: threads at work would be waited for, and curves are whole or not."""
    print("Stopped. What is done is kept; the same command does the rest.", flush=True)
    os._exit(128 + number)


def _each_kind_first(folder: Path, names: Sequence[str]) -> list[str]:
    """The first task of each kind, the second of each, and so on.

    Folds of one set can share a compiled step, but two tasks at once that need it would both
    compile it.
    """
    turns: dict[tuple[Any, ...], int] = {}
    found = []
    for name in names:
        words = json.loads((folder / f"{name}.json").read_text())
        data, sizes = words["data"].rsplit("-", 2)[0], words["options"]["sizes"]
        n = (len(words["lines"]), len(words["options"]["seeds"]))
        kind = (words["ranker"], data, str(sizes), *n)
        turns[kind] = turns.get(kind, -1) + 1
        found.append((turns[kind], name))
    return [name for _, name in sorted(found)]


def _run_all(folder: Path, names: Sequence[str], at_once: int) -> Iterator[tuple[str, float]]:
    """Names and seconds of tasks as they are done; once one fails, no other is begun."""
    if at_once <= 1:
        yield from ((name, run(folder, name)) for name in names)
        return
    with ThreadPoolExecutor(at_once) as pool:
        begun = {pool.submit(run, folder, name): name for name in names}
        try:
            for done in as_completed(begun):
                yield begun[done], done.result()
        finally:
            pool.shutdown(cancel_futures=True)


class _Teller:
    """Says on a terminal how far a task is; nothing elsewhere."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, done: int, of: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{self._name}: {done} of {of} rounds", end="", file=sys.stderr, flush=True)


def _machine() -> dict[str, Any]:
    device = jax.devices()[0]
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "device": device.platform,
        "device_kind": device.device_kind,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def _write_data(folder: Path, data: Dataset) -> str:
    """The name of the set's file: what it is called and a checksum tell it from others."""
    name = f"{data.name}-{data.checksum[:12]}-{data.n_queries}.npz".replace("/", "_")
    if not (folder / name).is_file():
        about = {
            "name": data.name, "max_grade": data.max_grade, "normalise": data.normalise,
            "checksum": data.checksum,
        }  # fmt: skip
        arrays = {"features": data.features, "grades": data.grades, "offsets": data.offsets}
        if data.relevance is not None:
            arrays["relevance"] = data.relevance
        _save(folder / name, arrays, about)
    return name


def _read_data(folder: Path, name: str) -> Dataset:
    if not (folder / name).is_file():
        raise DataError(f"{folder / name}: missing. Copy the whole folder of tasks.")
    with np.load(folder / name, allow_pickle=False) as arrays:
        about = json.loads(str(arrays[_ABOUT]))
        offsets = arrays["offsets"]
        data = Dataset(
            features=arrays["features"],
            grades=arrays["grades"],
            offsets=offsets,
            query_ids=[str(q) for q in range(len(offsets) - 1)],
            **about,
        )
        if "relevance" in arrays:
            data = replace(data, relevance=arrays["relevance"])
        return data


def _save(file: Path, arrays: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    content = io.BytesIO()
    everything: Any = {**arrays, _ABOUT: np.array(json.dumps(about))}
    np.savez_compressed(content, **everything)
    _put(file, content.getvalue())


def _put(file: Path, content: bytes) -> None:
    partial = file.with_name(f".{os.getpid()}{file.name}")
    partial.write_bytes(content)
    partial.replace(file)


if __name__ == "__main__":
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, _stop)
    sys.exit(main())
