"""A small contest, and a measure whose every value is arithmetic."""

from __future__ import annotations

import numpy as np

from olrank.engine.lockstep import evaluation_rounds
from olrank.engine.measure import Curves

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
