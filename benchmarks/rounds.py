"""How long does a round take: query, ranking, clicks, metrics, learning?

Each line is the engine's time for one replica-round without compilation: the last thousand rounds
as they went; early (the first rounds), late (the same queries, met by what 5,000 rounds have made
of the replicas) and how much that grew; and the mean over all rounds. Beside it, measured in this
run, the same rounds as a plain scan (every query padded to the largest) and, for olRankNet, the
literal NumPy round of the oracle; and what ANCHORS reports of the released code on two cores. Then
how far the two hottest shapes are from what the device can do. Needs only NumPy and JAX, so that it
runs on a bare GPU machine too. The table goes to benchmarks/results/ under the device's name;
measuring some lines again replaces those. Other batches or rounds are printed only.

    python benchmarks/rounds.py [--batch R] [--rounds T] [--only NAME] [--shape NAME]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import machine  # noqa: E402
import numpy as np  # noqa: E402

from olrank.data.synthetic import synthetic_folds  # noqa: E402
from olrank.engine import buckets, compiled, lockstep, protocol  # noqa: E402
from olrank.rankers import table  # noqa: E402
from olrank.users import presets  # noqa: E402

_CHUNK = 250  # rounds between two readings of the clock: long enough to hide the host's part
_LAST = 1000  # rounds at the end
_PLAIN_ROUNDS = 40  # of the plain scan, which is slow
_USERS = ("navigational", "perfect", "informational")
_WIDTH, _STEPS, _PAIRS = 100, 5, 256  # m, J and pairs a step of the neural rankers


class Line(NamedTuple):
    """What to measure; released_ms is the released code's round on two cores (ANCHORS)."""

    shape: str
    ranker: str
    settings: tuple[tuple[str, Any], ...] = ()
    released_ms: float | None = None
    note: str = ""

    @property
    def name(self) -> str:
        """What the table calls it."""
        return self.ranker + self.note


_LINES = [
    Line("web10k", "olranknet", released_ms=1300),
    Line("yahoo", "olranknet"),
    Line("mq2008", "olranknet", released_ms=125),
    Line("web10k", "ollambdarank"),
    Line("web10k", "olcascade", (("preset", "ours"),)),
    Line("web10k", "pairrank", released_ms=104),
    Line("web10k", "pdgd-linear", released_ms=0.8),
    Line("web10k", "pdgd-neural", released_ms=0.9),
    Line("web10k", "dbgd-linear"),
    Line("web10k", "dbgd-neural"),
]
_FULL = Line("web10k", "olranknet", (("confidence", "full"),), note=", full A")


class Time(NamedTuple):
    """Seconds of one replica-round."""

    last: float
    early: float
    late: float
    mean: float


class Replicas:
    """A batch of replicas of one ranker on one shard, whose rounds can be repeated and timed."""

    def __init__(self, fold: Any, line: Line, batch: int, chunk: int, sizes: Any = None) -> None:
        """Nothing has run; the first timing compiles before it reads the clock."""
        made = table.make(line.ranker, dict(line.settings))
        users = [presets.user(_USERS[i % 3], fold.train.max_grade) for i in range(batch)]
        self._chunk, self._batch = chunk, batch
        self._protocol = protocol.Protocol(
            k=10, n_grades=fold.train.max_grade + 1, empty="skip", n_replicas=batch,
            sizes=tuple(sizes or buckets.bucket_sizes(fold.train.sizes)),
        )  # fmt: skip
        self._ranker, self._users = made.ranker, lockstep.stack(users)
        self._keys = jnp.stack([lockstep.shard_key("bench", "1", 0)])
        self._queries = protocol.place(fold.train, 10, rounded=True)
        self._tests = (protocol.place(fold.test, 10, rounded=True),)
        self.states = compiled.start_replicas(
            self._ranker, self._protocol, fold.train.n_features, self._keys,
            lockstep.stack([made.numbers] * batch),
        )  # fmt: skip
        self._run(self._copy(), 1)

    def again(self, first: int, times: int = 3) -> float:
        """Seconds of a replica-round from `first` on, the median; nothing is learned by it."""
        return float(np.median([self._timed(self._copy(), first)[1] for _ in range(times)]))

    def go_on(self, first: int) -> float:
        """Run the rounds from `first` on; seconds of a replica-round."""
        self.states, seconds = self._timed(self.states, first)
        return seconds

    def _timed(self, states: Any, first: int) -> tuple[Any, float]:
        jax.block_until_ready(states)
        began = time.perf_counter()
        states = self._run(states, first)
        return states, (time.perf_counter() - began) / self._chunk / self._batch

    def _run(self, states: Any, first: int) -> Any:
        span = jnp.arange(first, first + self._chunk, dtype=jnp.int32)
        states, measured = compiled.run_chunk(
            self._ranker, self._protocol, states, self._keys, self._queries, self._tests,
            self._users, span, jnp.zeros(self._chunk, bool),
        )  # fmt: skip
        jax.block_until_ready(measured)
        return states

    def _copy(self) -> Any:
        return jax.tree.map(jnp.copy, self.states)


def time_rounds(fold: Any, line: Line, batch: int, rounds: int) -> Time:
    """Time the first rounds, go on to the last, and time the first ones' queries again."""
    replicas = Replicas(fold, line, batch, min(_CHUNK, rounds))
    early = replicas.again(1)
    spent = [replicas.go_on(first) for first in range(1, rounds + 1, min(_CHUNK, rounds))]
    last = spent[-_LAST // _CHUNK :]
    return Time(float(np.mean(last)), early, replicas.again(1), float(np.mean(spent)))


def time_oracle(fold: Any, rounds: int) -> float:
    """Seconds of one literal round of Algorithm 1, in NumPy."""
    from oracle import clicks, network
    from oracle import round as literal

    rng = np.random.default_rng(0)
    data = fold.train
    theta = network.init(rng, data.n_features, _WIDTH)
    state = literal.start(theta, prior=0.1)
    settings = literal.Settings(
        alpha=0.1, eps=0.0, pull=0.1, eta=1e-3, J=_STEPS, k=10, batch=_PAIRS
    )
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
    # What a round is made of: many products of a few hundred documents with a network's layer.
    many = jax.random.normal(jax.random.key(0), (64, 512, 136), jnp.float32)
    layer = jnp.ones((136, _WIDTH), jnp.float32)
    small = jax.jit(
        lambda x: jax.lax.map(lambda one: jnp.sum(jnp.matmul(one, layer, precision="highest")), x)
    )
    work = 2 * many.size * _WIDTH
    found["matmul of a round's size, GFLOP/s"] = work / _seconds(small, many) / 1e9
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


def limits(fold: Any, engine: float, reached: dict[str, float], batch: int) -> dict[str, float]:
    """Operations and bytes of a round of olRankNet, and how long the device's ceilings allow.

    Counted: the norms of all pairs of a padded query (a product of squared differences and 1 / A,
    whose result is written once and read once), and the forward and backward passes of J steps
    (parameters and their gradient read and written, features gathered).
    """
    sizes = buckets.bucket_sizes(fold.train.sizes)
    padded = np.asarray(sizes)[np.searchsorted(sizes, fold.train.sizes)].astype(float)
    pairs = float(np.mean(padded * (padded - 1) / 2))
    d, m = fold.train.n_features, _WIDTH
    p = m * d + m
    norms = 2.0 * pairs * m * d
    learning = 6.0 * _STEPS * 2 * _PAIRS * p
    n_bytes = 4 * (2 * pairs * m + pairs * d / batch + _STEPS * (6 * p + 4 * _PAIRS * d) + 6 * p)
    on_gpu = jax.devices()[0].platform == "gpu"
    speed = reached["matmul default, GFLOP/s" if on_gpu else "matmul highest, GFLOP/s"] * 1e9
    counted = {
        "GFLOP": (norms + learning) / 1e9,
        "MB": n_bytes / 1e6,
        "us at the matrix ceiling": (norms + learning) / speed * 1e6,
        "us at the copy ceiling": n_bytes / reached["copy, GB/s"] / 1e3,
        "us measured": engine * 1e6,
    }
    best = max(counted["us at the matrix ceiling"], counted["us at the copy ceiling"])
    counted["share of the nearer ceiling"] = best / counted["us measured"]
    return counted


def measure(fold: Any, line: Line, batch: int, rounds: int, with_baselines: bool) -> dict[str, Any]:
    """One line of the table."""
    spent = time_rounds(fold, line, batch, rounds)
    found: dict[str, Any] = {
        "shape": line.shape, "name": line.name, "batch": batch,
        "rounds": rounds, "last_us": spent.last * 1e6, "early_us": spent.early * 1e6,
        "late_us": spent.late * 1e6, "growth": spent.late / spent.early,
        "mean_us": spent.mean * 1e6, "released_ms": line.released_ms,
    }  # fmt: skip
    if with_baselines:
        largest = [int(fold.train.sizes.max())]
        plain, engine = (
            Replicas(fold, line, batch, _PLAIN_ROUNDS, sizes).again(1) for sizes in (largest, None)
        )
        found["plain_ratio"] = plain / engine
        if line.ranker == "olranknet":
            found["oracle_ratio"] = time_oracle(fold, 2) / spent.mean
    return found


def show(found: dict[str, Any]) -> None:
    """Print a line of the table."""
    ratios = [
        f"{found[key]:8.1f} x" if key in found else "" for key in ("plain_ratio", "oracle_ratio")
    ]
    released = f"{found['released_ms']:8.1f} ms" if found["released_ms"] else ""
    print(
        f"{found['shape']:8} {found['name']:17} {found['last_us']:10.1f} "
        f"{found['early_us']:10.1f} {found['late_us']:10.1f} {found['growth']:7.2f} "
        f"{found['mean_us']:10.1f} {ratios[0]:>11} {ratios[1]:>11} "
        f"{released:>12}",
        flush=True,
    )


def merged(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """What was measured before, with the lines that were measured now in place of theirs."""
    lines = {
        (line["shape"], line["name"]): line for found in (before, now) for line in found["lines"]
    }
    far = before["limits of olranknet"] | now["limits of olranknet"]
    return now | {"lines": list(lines.values()), "limits of olranknet": far}


def main() -> None:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    on_gpu = jax.devices()[0].platform == "gpu"
    parser.add_argument("--batch", type=int, default=120 if on_gpu else 1)
    parser.add_argument("--rounds", type=int, default=5000)
    parser.add_argument("--only", default="")
    parser.add_argument("--shape", default="")
    parser.add_argument("--no-baselines", action="store_true")
    given = parser.parse_args()
    found: dict[str, Any] = {
        "device": machine.name(),
        "jax": jax.__version__,
        "ceilings": ceilings(),
    }
    print(json.dumps(found, indent=1), flush=True)
    print(
        "us a replica-round    ",
        "last, early, late, growth, mean, plain scan, oracle, released code",
    )
    asked = [*_LINES, _FULL] if on_gpu else _LINES
    chosen = [x for x in asked if given.only in x.name and given.shape in x.shape]
    names = sorted({line.shape for line in chosen})
    folds = {name: synthetic_folds(name, queries=(1000, 50, 50), seed=0) for name in names}
    lines, far = [], {}
    for line in chosen:
        fold = folds[line.shape]
        batch, rounds = (1, 1500) if line is _FULL else (given.batch, given.rounds)
        with_baselines = not given.no_baselines and line is not _FULL
        lines.append(measure(fold, line, batch, rounds, with_baselines))
        show(lines[-1])
        if line.name == "olranknet" and line.shape != "mq2008":
            mean = lines[-1]["mean_us"] / 1e6
            far[line.shape] = limits(fold, mean, found["ceilings"], given.batch)
    print(json.dumps(far, indent=1))
    found |= {"lines": lines, "limits of olranknet": far}
    if (given.batch, given.rounds) == (parser.get_default("batch"), 5000):
        print(machine.write("rounds", found, merged))


if __name__ == "__main__":
    main()
