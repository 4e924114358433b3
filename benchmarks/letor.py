"""How fast, and in how much memory, is a set of MSLR-WEB10K's size read, and read again?

Writes a file of that size (1.2 million rows of 136 features, about 1.4 GB; deleted at the end),
then reads it twice in fresh processes: from text, and from the cache. The baseline is
scikit-learn's reader on the first part of the same file.

    python benchmarks/letor.py [--rows N] [--folder DIR]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

_N_FEATURES = 136
_MEAN_DOCS = 120
_BASELINE_ROWS = 50_000


def write_file(path: Path, n_rows: int) -> None:
    """Rows like MSLR's: counts, ratios and scores, about 1.15 kB each."""
    rng = np.random.default_rng(0)
    pool = [_cells(rng) for _ in range(4_000)]
    with path.open("w") as file:
        for start in range(0, n_rows, _MEAN_DOCS):
            n_docs = min(_MEAN_DOCS, n_rows - start)
            grades, cells = rng.integers(0, 5, n_docs), rng.integers(0, len(pool), n_docs)
            qid = start // _MEAN_DOCS + 1
            file.writelines(
                f"{g} qid:{qid} {pool[c]}\n"
                for g, c in zip(grades.tolist(), cells.tolist(), strict=True)
            )


def _cells(rng: np.random.Generator) -> str:
    counts, ratios = rng.integers(0, 300, _N_FEATURES), rng.random(_N_FEATURES)
    scores = rng.normal(-5, 12, _N_FEATURES)
    kinds = rng.choice(3, _N_FEATURES, p=[0.6, 0.2, 0.2])
    texts = [
        str(counts[i]) if kind == 0 else f"{ratios[i]:.6f}" if kind == 1 else f"{scores[i]:.6f}"
        for i, kind in enumerate(kinds)
    ]
    return " ".join(f"{i + 1}:{text}" for i, text in enumerate(texts))


def load(path: str, cache: str) -> None:
    """Read the file in this process and print what it took, as JSON."""
    from olrank.data.letor import read_letor

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, start_cpu = time.perf_counter(), time.process_time()
    dataset = read_letor(path, cache=cache)
    seconds, cpu_s = time.perf_counter() - start, time.process_time() - start_cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    shape = [dataset.n_queries, dataset.n_rows, dataset.n_features]
    print(
        json.dumps(
            {"s": seconds, "cpu_s": cpu_s, "before_kb": before, "peak_kb": peak, "shape": shape}
        )
    )


def _in_fresh_process(path: Path, cache: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--load", str(path), "--cache", str(cache)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def _baseline_rows_per_s(path: Path, n_rows: int) -> float:
    from sklearn.datasets import load_svmlight_file

    n_rows = min(n_rows, _BASELINE_ROWS)
    part = path.with_name("part.txt")
    with path.open("rb") as whole:
        part.write_bytes(b"".join(whole.readline() for _ in range(n_rows)))
    start = time.perf_counter()
    load_svmlight_file(str(part), dtype=np.float32, query_id=True)
    return n_rows / (time.perf_counter() - start)


def measure(folder: Path, n_rows: int) -> None:
    """Write, read, read again, and print the table."""
    path, cache = folder / "web10k_size.txt", folder / "cache"
    write_file(path, n_rows)
    size_gb = path.stat().st_size / 1e9
    first = _in_fresh_process(path, cache)
    second = _in_fresh_process(path, cache)
    baseline = _baseline_rows_per_s(path, n_rows)
    print(f"queries, rows, features: {first['shape']}; {size_gb:.2f} GB of text")
    print(f"{'':32}{'seconds':>9}{'CPU s':>8}{'rows/s':>13}{'peak GB':>9}{'ratio':>7}")
    for label, run in (("first load (hash, parse, store)", first), ("second load (cache)", second)):
        rows_per_s, peak_gb = n_rows / run["s"], run["peak_kb"] / 1e6
        ratio = rows_per_s / baseline
        times = f"{run['s']:9.2f}{run['cpu_s']:8.2f}"
        print(f"{label:32}{times}{rows_per_s:13,.0f}{peak_gb:9.2f}{ratio:7.1f}")
    seconds = n_rows / baseline
    print(
        f"{'scikit-learn (from first rows)':32}{seconds:9.2f}{'':8}{baseline:13,.0f}{'':9}{1:7.1f}"
    )
    print("targets: peak at most 4 GB, second load under 1 s")


def main() -> None:
    """Parse the arguments and measure in a folder that is deleted at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_200_192)
    parser.add_argument("--folder", help="where to make the temporary folder")
    parser.add_argument("--load", help=argparse.SUPPRESS)
    parser.add_argument("--cache", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.load:
        load(args.load, args.cache)
        return
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        measure(Path(folder), args.rows)


if __name__ == "__main__":
    main()
