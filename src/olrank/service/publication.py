"""What the learner hands to the service process after a change: the part of a model that ranks."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import jax
import numpy as np

from olrank.service import blueprint as blueprints
from olrank.service.apply import Model
from olrank.service.records import RankerRow

_TOO_LARGE = 1e15  # a parameter this large has run away


def publication(row: RankerRow, model: Model) -> dict[str, Any]:
    """The message: a model that ranks, what was counted since the last one, how far it is.

    A model whose parameters are no finite numbers any more is `diverged` and goes without them.
    """
    part = jax.device_get(blueprints.serving_part(model.state))
    theta = getattr(part, "theta", part)  # settings may be as large as their owner likes
    diverged = not all(map(_sound, jax.tree.leaves(theta)))
    return {
        "op": "publish",
        "ranker": row.name,
        "birth": row.birth,
        "version": model.version,
        "n_trained": model.n_trained,
        "position": model.position,
        "diverged": diverged,
        "leaves": [] if diverged else [np.array(leaf) for leaf in jax.tree.leaves(part)],
        "tally": {**asdict(model.tally), "at_ms": time.time_ns() // 1_000_000},
    }


def _sound(leaf: Any) -> bool:
    if not np.issubdtype(leaf.dtype, np.floating):
        return True
    return bool(np.all(np.isfinite(leaf)) and np.all(np.abs(leaf) < _TOO_LARGE))
