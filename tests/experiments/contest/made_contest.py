"""A small contest, and measures whose every value is arithmetic."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from olrank.engine.lockstep import evaluation_rounds
from olrank.engine.measure import Curves
from olrank.experiments.contest.config import parse_contest
from olrank.experiments.contest.contest import run
from olrank.experiments.contest.ground import Ground

STAGES = ["search", "choose", "evaluate", "robust", "outside", "report"]

CONTEST = """
name = "trial"
[[data]]
name = "one"
synthetic = "small"
queries = [20, 8, 10]
[[data]]
name = "two"
synthetic = "small"
queries = [20, 8, 10]
[search]
users = ["perfect", "informational"]
rounds = 30
seeds = 2
folds = 1
[evaluate]
users = ["perfect", "informational"]
rounds = 30
seeds = 3
[[robust]]
name = "taste"
users = ["informational"]
rounds = 30
seeds = 2
taste_changes_after = 15
[[robust]]
name = "flips"
users = ["perfect-flipped", "position-based"]
rounds = 30
seeds = 2
[[baseline]]
name = "pdgd-linear"
settings = { learning_rate = [0.1, 0.01] }
[[candidate]]
name = "pdgd-linear"
label = "ours"
settings = { learning_rate = [0.2, 0.3] }
[[reference]]
name = "pdgd-linear"
label = "beside"
settings = { learning_rate = 0.05 }
"""


def ground(out: Path, text: str = CONTEST, **rest) -> Ground:
    return Ground(parse_contest(text), out, device="cpu", **rest)


def finished(out: Path) -> list[str]:
    """Every stage, one after the other."""
    return [run(ground(out)) for _ in STAGES]


def small_files(folder: Path) -> str:
    """CONTEST on files of few, short lists, one of the test part without a relevant document."""
    rng = np.random.default_rng(0)
    for part, n_queries in (("train", 30), ("validation", 5), ("test", 6)):
        lines = [
            f"{0 if (part, query) == ('test', 0) else rng.integers(3)} qid:{part}{query} "
            + " ".join(f"{i}:{value:.3f}" for i, value in enumerate(rng.random(3), 1))
            for query in range(n_queries)
            for _ in range(6)
        ]
        (folder / f"{part}.txt").write_text("\n".join(lines) + "\n")
    parts = ", ".join(
        f'{part} = ["{folder / part}.txt"]' for part in ("train", "validation", "test")
    )
    made_up = 'synthetic = "small"\nqueries = [20, 8, 10]'
    return CONTEST.replace(made_up, f"parts = {{ {parts} }}")


def made_measure(ranker, data, held_out, lines, options, progress=None, *rest):
    """Higher rates rank better; seeds differ by a thousandth, queries by a hundredth."""
    at = np.asarray(options.evaluate_after or evaluation_rounds(options.rounds), np.int64)
    seeds = np.asarray(options.seeds)[:, None, None]
    rates = np.asarray([line.settings["learning_rate"] for line in lines])[None, :, None]
    offline = 0.5 + rates + 0.001 * (seeds % 7) + 0 * at
    metrics = dict.fromkeys(held_out, offline) | {
        "online_ndcg": 10 * at * (0.5 + rates) + seeds % 7
    }
    by_query = {}
    if options.per_query:
        for name, part in held_out.items():
            spread = 0.01 * (np.arange(part.n_queries) - (part.n_queries - 1) / 2)
            by_query[name] = (offline[..., -1:] + spread).astype(np.float32)
    if progress is not None:
        progress(options.rounds, options.rounds)
    return Curves(at, metrics, by_query)


def made_by_query(fold, seeds, k=10, empty="skip"):
    """LambdaMART's: .9, seeds differ by a thousandth, queries by a hundredth."""
    n = fold.test.n_queries
    spread = 0.01 * (np.arange(n) - (n - 1) / 2)
    return (0.9 + 0.001 * np.asarray(seeds)[:, None] + spread).astype(np.float32)
