"""How long does a whole experiment take: the paper's comparison, and its hyper-parameter grid?

Comparison: 9 rankers x 3 users x 10 seeds x 5,000 rounds at WEB10K's shape, evaluated every 100
rounds on 2,000 test queries. Grid: olRankNet with 4 lambdas x 4 alphas x 3 learning rates x 3 users
x 10 seeds on one fold, 5,000 rounds, evaluated at the end. Compilation is included. Meant for a GPU
(needs only NumPy and JAX there); a processor takes only as many rounds as it is told to.

    python benchmarks/comparison.py [--rounds T] [--seeds S] [--only comparison|grid]
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

import jax  # noqa: E402
import machine  # noqa: E402
import numpy as np  # noqa: E402

from olrank.data.synthetic import synthetic_folds  # noqa: E402
from olrank.engine import lockstep, sweep  # noqa: E402
from olrank.rankers import table  # noqa: E402
from olrank.users import presets  # noqa: E402

_USERS = ("perfect", "navigational", "informational")
_LAMBDAS = _ALPHAS = (1e-1, 1e-2, 1e-3, 1e-4)
_RATES = (1e-1, 1e-2, 1e-3)


def timed(name: str, grid: list[dict[str, Any]], fold: Any, seeds: int, rounds: int, every: int) \
        -> dict[str, Any]:  # fmt: skip
    """Seconds of one ranker's runs, and how long its first chunk took (it compiles)."""
    users = [presets.user(user, fold.train.max_grade) for user in _USERS]
    replicas = []
    for settings, user in itertools.product(grid, users):
        made = table.make(name, settings)
        replicas.append(sweep.Replica(made.ranker, made.numbers, user))
    marks = [time.perf_counter()]
    widths: list[int] = []
    measured = sweep.run(
        replicas, [lockstep.shard_key("bench", "1", seed) for seed in range(seeds)],
        fold.train, [fold.test], rounds=rounds, evaluate_after=range(every, rounds + 1, every),
        progress=lambda done, of: marks.append(time.perf_counter()), batched=widths.append,
    )  # fmt: skip
    spent = time.perf_counter() - marks[0]
    return {
        "ranker": name,
        "replicas": len(replicas) * seeds,
        "seconds": spent,
        "first_chunk_s": marks[1] - marks[0],
        "last_chunk_s": marks[-1] - marks[-2],
        "widths": widths,
        "us_per_replica_round": spent / len(replicas) / seeds / rounds * 1e6,
        "ndcg_at_the_end": float(np.mean(measured.offline[0, :, :, -1])),
    }


def _of_the_paper(name: str) -> bool:
    return "paper" in table.entry(name).presets


def main() -> None:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    on_gpu = jax.devices()[0].platform == "gpu"
    parser.add_argument("--rounds", type=int, default=5000 if on_gpu else None)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    if given.rounds is None:
        print("comparison: no GPU here. Name --rounds to try a few on this processor.")
        return
    fold = synthetic_folds("web10k", queries=(2000, 50, 2000), seed=0)
    device = machine.name()
    found: dict[str, Any] = {"device": device, "jax": jax.__version__, **vars(given)}
    settings = [
        {"lambda": lam, "alpha": alpha, "learning_rate": rate}
        for lam, alpha, rate in itertools.product(_LAMBDAS, _ALPHAS, _RATES)
    ]
    work = {
        "comparison": [(name, [{}], 100) for name in table.names() if _of_the_paper(name)],
        "grid": [("olranknet", settings, given.rounds)],
    }
    for title, runs in work.items():
        if given.only not in title:
            continue
        lines = []
        for name, grid, every in runs:
            lines.append(
                timed(name, grid, fold, given.seeds, given.rounds, min(every, given.rounds))
            )
            line = lines[-1]
            print(
                f"{title:10} {name:15} {line['replicas']:5} replicas {line['seconds']:7.1f} s, "
                f"first chunk {line['first_chunk_s']:5.1f} s, last {line['last_chunk_s']:5.1f} s, "
                f"{line['us_per_replica_round']:6.1f} us a replica-round",
                flush=True,
            )
        total = sum(line["seconds"] for line in lines)
        print(f"{title}: {total:.1f} s on {device}", flush=True)
        found[title] = {"seconds": total, "runs": lines}
    if (given.rounds, given.seeds, given.only) == (5000, 10, ""):
        machine.write("comparison", found)


if __name__ == "__main__":
    main()
