"""Lists that were served and clicked, made by hand; and parameters as the oracle writes them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from olrank.feedback import history as ring
from olrank.feedback.pairs import Pairs
from olrank.rankers import table
from olrank.types import Impression, Ranker, Ranking, Rows


def ranking_of(order: Any, k: int, memo: Any = ()) -> Ranking:
    """The list `order` in k slots, nothing certain."""
    n = len(order)
    padded = np.zeros(k, np.int32)
    padded[:n] = order
    return Ranking(
        order=jnp.asarray(padded),
        shown=jnp.arange(k) < n,
        choices=jnp.ones(k, jnp.int32),
        log_p_shown=jnp.zeros((), jnp.result_type(float)),
        certain=jnp.zeros((k, k), bool),
        memo=memo,
    )


def impression_of(rows: Any, clicks: Any, k: int | None = None, memo: Any = ()) -> Impression:
    """Documents at these rows, shown in this order and clicked so."""
    k = k or len(rows)
    padded_rows, padded_clicks = np.zeros(k, np.int32), np.zeros(k)
    padded_rows[: len(rows)], padded_clicks[: len(clicks)] = rows, clicks
    return Impression(
        rows=jnp.asarray(padded_rows),
        clicks=jnp.asarray(padded_clicks, jnp.result_type(float)),
        ranking=ranking_of(range(len(rows)), k, memo),
    )


class Pupil:
    """A ranker of the table on a few documents, told of lists by hand; the same keys every time."""

    def __init__(self, name: str, settings: dict[str, Any], features: Any) -> None:
        self._name, self._settings, self.rows = name, settings, Rows(features, None)

    def started(self, **settings: Any) -> tuple[Ranker, Any]:
        """The ranker, with these settings besides its own, and its first state."""
        made = table.make(self._name, {**self._settings, **settings})
        n_features = self.rows.features.shape[1]
        return made.ranker, made.ranker.init(jax.random.key(7), n_features, made.numbers)

    def learned(
        self, ranker: Ranker, state: Any, rows: Any, clicks: Any, memo: Any = (), **more: Any
    ) -> Any:
        """The state after one more list."""
        impression = impression_of(rows, clicks, self._settings["k"], memo)._replace(**more)
        return ranker.learn(state, jax.random.key(9), impression, self.rows)


def history_of(pairs: Any, weights: Any = None, capacity: int | None = None) -> ring.History:
    """A history of lists of two, the winner's row above the loser's, one pair each."""
    weights = np.ones(len(pairs)) if weights is None else weights
    capacity = capacity or max(len(pairs), 1)
    if len(pairs) == capacity:
        return _filled(np.asarray(pairs, np.int32), np.asarray(weights, float))
    history = ring.empty(capacity, 2, 1)
    for pair, weight in zip(pairs, weights, strict=True):
        slots = jnp.array([[0], [1]], jnp.int32)
        slot_pair = Pairs(slots[0], slots[1], jnp.array([float(weight)]))
        rows, clicks = jnp.asarray(pair, jnp.int32), jnp.array([1.0, 0.0])
        history = ring.append(history, rows, clicks, jnp.ones(2), slot_pair)
    return history


def _filled(pairs: Any, weights: Any) -> ring.History:
    n = len(pairs)
    full = ring.empty(n, 2, 1)
    return full._replace(
        rows=jnp.asarray(pairs),
        clicks=jnp.tile(jnp.array([1.0, 0.0]), (n, 1)),
        examined=jnp.ones((n, 2)),
        first_pair=jnp.arange(n, dtype=jnp.int32),
        pair_impression=jnp.arange(n, dtype=jnp.int32),
        losers=jnp.ones(n, jnp.int32),
        weights=jnp.asarray(weights),
        n_impressions=jnp.int32(n),
        n_pairs=jnp.int32(n),
    )


def as_oracle(params: Any) -> list[np.ndarray[Any, Any]]:
    """The paper network's layers as the oracle's list of matrices."""
    return [np.asarray(layer[0], np.float64) for layer in params]
