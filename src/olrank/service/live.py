"""One live ranker: draws lists from the state the learner published last, and explains them.

A list is drawn in one of four modes:

    explore   the ranker's own draw
    greedy    the best by score; nothing is left to chance (the explore switch is off)
    floor     production's order but for certain pairs and a share of the traffic (baseline_order)
    shadow    the client's own order; the ranker only looks on (the serve switch is off)

Candidates are padded to 16, 32, 64, ... so that a few compiled shapes serve all requests.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from olrank.explore.floor import draw_with_floor
from olrank.explore.order import draw_greedy
from olrank.rankers.certainty import certain_orders
from olrank.service.blueprint import Blueprint
from olrank.service.options import SIZES
from olrank.types import Array, PyTree, Ranker, Ranking

MODES = ("explore", "greedy", "floor", "shadow")


@dataclass(frozen=True)
class Serving:
    """A published model: what ranking needs of it, and which version it is."""

    state: PyTree
    version: int


@dataclass(frozen=True)
class Drawn:
    """A list, and all that the log keeps of it.

    Attributes:
        order: [n_shown] candidates by slot.
        rest: [n_docs - n_shown] the other candidates in score order: page two.
        scores: [n_docs] of all candidates.
        choices: [n_shown] how many candidates could have stood at the slot.
        certain: [n_shown, n_shown] True at (a, b) when slot a certainly stands above slot b.
        log_p: log-probability of exactly this list.
        memo: what the ranker needs to learn from its own draw.
        version: of the model that drew it.
    """

    order: npt.NDArray[np.int32]
    rest: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float32]
    choices: npt.NDArray[np.int32]
    certain: npt.NDArray[np.bool_]
    log_p: float
    memo: list[npt.NDArray[Any]]
    version: int


def padded_size(n_docs: int) -> int:
    """The compiled size for this many candidates."""
    return next(size for size in SIZES if size >= n_docs)


def ranking_key(secret: bytes, ranker: str, birth: int, version: int, ranking_id: str) -> bytes:
    """Key data of a draw: nobody without the secret can foresee or steer it."""
    parts = [ranker.encode(), str(birth).encode(), str(version).encode(), ranking_id.encode()]
    text = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return hmac.new(secret, text, hashlib.sha256).digest()


def draw(
    blueprint: Blueprint,
    serving: Serving,
    key: bytes,
    mode: str,
    rows: npt.NDArray[np.float32],
    ranks: npt.NDArray[np.int32] | None = None,
    share: float = 0.0,
) -> Drawn:
    """Draw a list for one request.

    Args:
        blueprint: of the ranker.
        serving: its published model.
        key: from `ranking_key`.
        mode: one of MODES.
        rows: [n_docs, n_features] normalised features of the candidates.
        ranks: [n_docs] the client's order, 0 for the best; the order given when None.
        share: of the traffic that explores in mode "floor".
    """
    n_docs, size = rows.shape[0], padded_size(rows.shape[0])
    if n_docs < size:
        padded = np.zeros((size, rows.shape[1]), np.float32)
        padded[:n_docs] = rows
        rows = padded
    ordered = mode in ("floor", "shadow")  # the other modes are compiled without the client's order
    ranking, scores = _draw(
        blueprint.ranker,
        blueprint.design,
        mode,
        blueprint.k,
        serving.state,
        np.frombuffer(key[:8], np.uint32),
        rows,
        np.int32(n_docs),
        _places(ranks, n_docs, size) if ordered else None,
        np.float32(share) if mode == "floor" else None,
    )
    return _unpadded(ranking, scores, n_docs, serving.version)


def _places(ranks: npt.NDArray[np.int32] | None, n_docs: int, size: int) -> npt.NDArray[np.int32]:
    """[size] the client's order, padded."""
    places = np.arange(size, dtype=np.int32)
    if ranks is not None:
        places[:n_docs] = ranks
    return places


def _unpadded(ranking: Ranking, scores: Array, n_docs: int, version: int) -> Drawn:
    # Not jax.device_get, which is made for many devices and takes longer than the copies.
    drawn: Any = jax.tree.map(np.asarray, ranking)
    all_scores = np.asarray(scores)[:n_docs].astype(np.float32)
    n = int(np.sum(drawn.shown))
    order = drawn.order[:n].astype(np.int32)
    unseen = np.ones(n_docs, bool)
    unseen[order] = False
    by_score = np.argsort(-all_scores, kind="stable").astype(np.int32)
    return Drawn(
        order=order,
        rest=by_score[unseen[by_score]],
        scores=all_scores,
        choices=drawn.choices[:n].astype(np.int32),
        certain=drawn.certain[:n, :n],
        log_p=min(float(drawn.log_p_shown), 0.0),
        memo=jax.tree.leaves(drawn.memo),
        version=version,
    )


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _draw(
    ranker: Ranker,
    design: Any,
    mode: str,
    k: int,
    state: PyTree,
    key_data: Array,
    features: Array,
    n_docs: Array,
    ranks: Array | None,
    share: Array | None,
) -> tuple[Ranking, Array]:
    key = jax.random.wrap_key_data(key_data)
    mask = jnp.arange(features.shape[0]) < n_docs
    scores = ranker.score(state, features)
    if mode == "explore":
        return ranker.rank(state, key, features, mask, k), scores
    if design is None:
        certain = jnp.zeros((features.shape[0],) * 2, bool)
    else:
        certain = certain_orders(design, state, features, scores, mask, k)
    if ranks is not None and share is not None:
        return draw_with_floor(key, certain, scores, ranks, share, mask, k), scores
    ranking = draw_greedy(key, scores, mask, k) if ranks is None else _given(ranks, mask, k)
    order, shown = ranking.order, ranking.shown
    among = certain[order[:, None], order[None, :]] & shown[:, None] & shown[None, :]
    return ranking._replace(certain=among), scores


def _given(ranks: Array, mask: Array, k: int) -> Ranking:
    """The client's own order: sure to be shown."""
    order = jnp.argsort(jnp.where(mask, ranks, np.iinfo(np.int32).max)).astype(jnp.int32)
    order = order[jnp.minimum(jnp.arange(k), order.shape[0] - 1)]
    shown = jnp.arange(k) < jnp.sum(mask)
    ones, nothing = jnp.ones(k, jnp.int32), jnp.zeros((), jnp.result_type(float))
    return Ranking(order, shown, ones, nothing, jnp.zeros((k, k), bool))


def warm(blueprint: Blueprint, serving: Serving, size: int, mode: str) -> None:
    """Compile one shape, so that no request has to wait for it."""
    rows = np.zeros((size, blueprint.n_features), np.float32)
    draw(blueprint, serving, bytes(32), mode, rows)
