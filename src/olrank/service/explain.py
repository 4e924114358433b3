"""Why one candidate stands above another: scores, certainty, and the features that make it so.

Contributions are integrated gradients along the straight line from the lower to the upper
candidate: they add up to the difference of the scores, and for a linear ranker they are
weight * difference exactly. Features are the normalised ones the model sees. A ranker that keeps
effects of single documents adds what it knows of these two beyond their features.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from olrank.errors import DataError
from olrank.rankers.certainty import certain_orders, own_effects, pair_widths
from olrank.service.live import Serving
from olrank.service.records import StoredRanking
from olrank.service.serving import LiveRanker
from olrank.types import Array, PyTree, Ranker

_POINTS = 1024  # on the line; the gradient of a ReLU network jumps at its bends


def explain(
    ranker: LiveRanker, serving: Serving, stored: StoredRanking, above: str, below: str
) -> dict[str, Any]:
    """Compare two candidates of a stored ranking under the model that serves now."""
    pair = np.stack([_row(stored, above), _row(stored, below)])
    blueprint = ranker.blueprint
    scores, own, shares, width, certain = jax.device_get(
        _compare(blueprint.ranker, blueprint.design, serving.state, pair)
    )
    probability = 0.5 * (1.0 + math.tanh((float(scores[0]) - float(scores[1])) / 2.0))
    known = blueprint.design is not None
    by_size = np.argsort(-np.abs(shares), kind="stable")
    return {
        "ranking_id": stored.record.header["ranking_id"],
        "above": above,
        "below": below,
        "score_above": float(scores[0]),
        "score_below": float(scores[1]),
        "probability": probability,
        "width": float(width) if known else None,
        "width_of": getattr(blueprint.design, "width_scale", "probability") if known else None,
        "certain": bool(certain),
        "beyond_features": float(own[0]) - float(own[1]),
        "features": [
            {
                "name": blueprint.feature_names[i],
                "above": float(pair[0, i]),
                "below": float(pair[1, i]),
                "contribution": float(shares[i]),
            }
            for i in by_size
        ],
        "model_version": serving.version,
        "served_version": stored.record.header["answer"]["model_version"],
    }


def _row(stored: StoredRanking, item: str) -> npt.NDArray[np.float32]:
    header, arrays = stored.record.header, stored.record.arrays
    if item in header["shown"]:
        row: npt.NDArray[np.float32] = arrays["features"][header["shown"].index(item)]
        return row
    if item not in header["ids"]:
        raise DataError(f'"{item}" was no candidate of this ranking. Look at its page.')
    if "candidates" not in arrays:
        raise DataError(
            f'"{item}" was not shown, and the log keeps the features of all candidates for a share '
            "of the rankings only (keep_candidates). Ask about two that were shown."
        )
    kept: npt.NDArray[np.float32] = arrays["candidates"][header["ids"].index(item)]
    return kept


@partial(jax.jit, static_argnums=(0, 1))
def _compare(ranker: Ranker, design: Any, state: PyTree, pair: Array) -> tuple[Array, ...]:
    """Scores [2], own effects [2], contributions [n_features], the pair's width, and certainty."""
    upper, lower = pair[0], pair[1]
    steps = (jnp.arange(_POINTS, dtype=pair.dtype) + 0.5) / _POINTS
    line = lower[None, :] + steps[:, None] * (upper - lower)[None, :]
    slopes = jax.grad(lambda rows: jnp.sum(ranker.score(state, rows)))(line)
    shares = jnp.mean(slopes, axis=0) * (upper - lower)
    scores, width, certain = ranker.score(state, pair), jnp.zeros(()), jnp.zeros((), bool)
    if design is not None:
        both = jnp.ones(2, bool)
        width = pair_widths(design, state, pair, both)[0, 1]
        certain = jnp.any(certain_orders(design, state, pair, scores, both, 2))
    return scores, own_effects(state, pair), shares, width, certain
