"""How long does a round take: query, ranking, clicks, metrics, learning?

Each line is the engine's time for one replica-round, beside the same rounds as a plain scan (every
query padded to the largest) and, for olRankNet, the literal NumPy round of the oracle, all measured
in this run. Needs only NumPy and JAX, so that it runs on a bare GPU machine too. The table goes to
benchmarks/results/, under the device's name.

    python benchmarks/rounds.py [--batch R] [--only NAME] [--shape NAME] [--no-baselines]
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from olrank.data.synthetic import synthetic_folds  # noqa: E402
from olrank.engine import lockstep  # noqa: E402
from olrank.rankers import table  # noqa: E402
from olrank.users import presets  # noqa: E402

_SHAPES = ("web10k", "yahoo", "mq2008")
_USERS = ("perfect", "navigational", "informational")
_LINES = [  # (shape, ranker); the neural ones at m = 100, k = 10, J = 5 steps of 256 pairs
    *((shape, "olranknet") for shape in _SHAPES),
    ("web10k", "ollambdarank"),
    ("web10k", "pairrank"),
    *(("web10k", name) for name in ("pdgd-linear", "pdgd-neural", "dbgd-linear", "dbgd-neural")),
]


def time_rounds(fold: Any, name: str, batch: int, rounds: int, sizes: Any = None) -> float:
    """Seconds of one replica-round; what a run spends once is taken off by a shorter run."""
    made = table.make(name, {})
    users = [presets.user(_USERS[i % 3], fold.train.max_grade) for i in range(batch)]

    def run(n: int) -> float:
        began = time.perf_counter()
        lockstep.run(
            made.ranker, [made.numbers] * batch, users, [lockstep.shard_key("bench", "1", 0)],
            fold.train, [fold.test], rounds=n, evaluate_after=[n], sizes=sizes,
        )  # fmt: skip
        return time.perf_counter() - began

    few = max(1, rounds // 4)
    run(rounds), run(few)
    spent = min(run(rounds) for _ in range(2)) - min(run(few) for _ in range(2))
    return spent / (rounds - few) / batch


def time_oracle(fold: Any, rounds: int) -> float:
    """Seconds of one literal round of Algorithm 1, in NumPy."""
    from oracle import clicks, network
    from oracle import round as literal

    rng = np.random.default_rng(0)
    data = fold.train
    theta = network.init(rng, data.n_features, 100)
    state = literal.start(theta, prior=0.1)
    settings = literal.Settings(alpha=0.1, eps=0.0, pull=0.1, eta=1e-3, J=5, k=10, batch=256)
    tables = clicks.FIVE_GRADES if data.max_grade == 4 else clicks.THREE_GRADES
    user = clicks.user(rng, *tables["informational"], "clicked")
    spent = 0.0
    for _ in range(rounds):
        q = int(rng.integers(data.n_queries))
        rows = slice(int(data.offsets[q]), int(data.offsets[q + 1]))
        grades = data.grades[rows]
        began = time.perf_counter()
        state, _ = literal.run(
            state, data.features[rows].astype(float),
            lambda shown, grades=grades: user([int(grades[i]) for i in shown]), settings, rng,
        )  # fmt: skip
        spent += time.perf_counter() - began
    return spent / rounds


def ceilings() -> dict[str, float]:
    """What this device reaches: matrix products in GFLOP/s, copies in GB/s (read and written)."""
    n = 8192 if jax.devices()[0].platform == "gpu" else 2048
    found = {}
    for name in ("default", "highest"):
        a = jax.random.normal(jax.random.key(0), (n, n), jnp.float32)
        product = jax.jit(lambda x, p=name: jnp.matmul(x, x, precision=p))
        found[f"matmul {name}, GFLOP/s"] = 2 * n**3 / _seconds(product, a) / 1e9
    long = jnp.ones(n * n * 2, jnp.float32)
    found["copy, GB/s"] = 2 * long.nbytes / _seconds(jax.jit(lambda x: x + 1.0), long) / 1e9
    return found


def _seconds(call: Any, value: Any) -> float:
    call(value).block_until_ready()
    times = []
    for _ in range(5):
        began = time.perf_counter()
        call(value).block_until_ready()
        times.append(time.perf_counter() - began)
    return float(np.median(times))


def main() -> None:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    on_gpu = jax.devices()[0].platform == "gpu"
    parser.add_argument("--batch", type=int, default=120 if on_gpu else 1)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--only", default="")
    parser.add_argument("--shape", default="")
    parser.add_argument("--no-baselines", action="store_true")
    given = parser.parse_args()
    device = jax.devices()[0].device_kind
    found: dict[str, Any] = {"device": device, "jax": jax.__version__, "batch": given.batch}
    found["ceilings"] = ceilings()
    print(json.dumps(found, indent=1), flush=True)
    print(f"{'shape':8} {'ranker':13} {'engine us':>10} {'plain scan':>11} {'oracle':>9}")
    folds = {}
    lines = []
    for shape, name in _LINES:
        if given.only not in name or given.shape not in shape:
            continue
        if shape not in folds:
            folds[shape] = synthetic_folds(shape, queries=(1000, 50, 50), seed=0)
        fold = folds[shape]
        engine = time_rounds(fold, name, given.batch, given.rounds)
        line: dict[str, Any] = {"shape": shape, "ranker": name, "engine_us": engine * 1e6}
        if not given.no_baselines:
            largest = [int(fold.train.sizes.max())]
            few = max(5, given.rounds // 10)
            line["plain_ratio"] = time_rounds(fold, name, given.batch, few, largest) / engine
            if name == "olranknet":
                line["oracle_ratio"] = time_oracle(fold, 2) / engine
        lines.append(line)
        ratios = [f"{line[key]:8.1f} x" if key in line else "" for key in
                  ("plain_ratio", "oracle_ratio")]  # fmt: skip
        us = f"{engine * 1e6:10.1f}"
        print(f"{shape:8} {name:13} {us} {ratios[0]:>11} {ratios[1]:>9}", flush=True)
    found["lines"] = lines
    if not given.only and not given.shape:
        folder = ROOT / "benchmarks" / "results"
        folder.mkdir(exist_ok=True)
        slug = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
        (folder / f"rounds-{slug}.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
