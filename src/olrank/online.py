"""OnlineRanker: one ranker as an object, for live use with plain arrays.

It normalises each query's features, pads them to a few sizes so that little is compiled, keeps the
rows it learned from, and numbers its rankings so that each draw has its own key. Everything else is
the ranker's four pure functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from olrank import checkpoint
from olrank.data.normalise import normalise_query
from olrank.errors import ConfigError, DataError
from olrank.rankers import table
from olrank.types import Array, Impression, Key, PyTree, Ranker, Ranking, Rows

_SMALLEST = 16  # candidates are padded to 16, 32, 64, ...: a compilation for each
_NORMALISATIONS = ("query", "unit", "none")  # "global" needs bounds that a live system has not


@dataclass(frozen=True)
class LiveRanking:
    """A list to show; hand it back to `learn` with what was clicked.

    Attributes:
        order: [n_shown] which candidate stands at each slot, the top first.
        scores: [n_shown] their scores.
        choices: [n_shown] how many candidates could have stood at the slot.
        log_propensity: log-probability of exactly this list.
        certain: [n_shown, n_shown] True at (a, b) when slot a certainly stands above slot b.
        drawn: the full record, padded to k, that the ranker learns from.
        features: [k, n_features] normalised rows of the shown candidates, padded to k.
    """

    order: npt.NDArray[np.int32]
    scores: npt.NDArray[np.floating]
    choices: npt.NDArray[np.int32]
    log_propensity: float
    certain: npt.NDArray[np.bool_]
    drawn: Ranking
    features: npt.NDArray[np.floating]


class OnlineRanker:
    """A ranker that serves lists and learns from their clicks.

    Args:
        ranker: a name of the table, `olrank.rankers.names()`; unless given, the one that did best
            on validation data.
        n_features: of every candidate.
        k: slots to fill.
        settings: of the ranker; "preset" picks a named set. `history` bounds its memory.
        normalise: "query" (min-max within each query), "unit" (and rows to norm 1) or "none".
        seed: of everything random.
    """

    def __init__(
        self,
        ranker: str = "olcascade",
        *,
        n_features: int,
        k: int = 10,
        settings: Mapping[str, Any] | None = None,
        normalise: str = "query",
        seed: int = 0,
    ) -> None:
        """Start with nothing learned."""
        made = table.make(ranker, {**(settings or {}), "k": k})
        if made.entry.sees_grades:
            raise ConfigError(f"ranker {ranker}: it learns from judged grades, not from clicks.")
        if normalise not in _NORMALISATIONS:
            raise ConfigError(
                f'normalise: expected one of {", ".join(_NORMALISATIONS)}, found "{normalise}".'
            )
        if n_features < 1:
            raise ConfigError(f"n_features: must be at least 1, not {n_features}.")
        self._facts: dict[str, Any] = {
            "ranker": ranker,
            "n_features": n_features,
            "k": k,
            # All in force: what a preset means may change after the ranker was saved.
            "settings": {name: value for name, value in made.settings.items() if name != "k"},
            "normalise": normalise,
            "seed": seed,
        }
        self._ranker = made.ranker
        self._k = k
        self._key = jax.random.key(seed)
        state = made.ranker.init(jax.random.fold_in(self._key, 0), n_features, made.numbers)
        history = getattr(state, "history", None)
        # One place more than the history holds: rows that turn out to teach nothing fill it.
        n_places = 1 if history is None else history.rows.shape[0] + 1
        dtype = jnp.result_type(float)
        self._state: dict[str, Any] = {
            "ranker": state,
            "rows": jnp.zeros((n_places * k, n_features), dtype),
            "n_ranked": jnp.zeros((), jnp.int32),
            "n_learned": jnp.zeros((), jnp.int32),
        }

    @property
    def n_learned(self) -> int:
        """Impressions learned from so far."""
        return int(self._state["n_learned"])

    def rank(self, features: npt.ArrayLike) -> LiveRanking:
        """Draw a list for one query.

        Args:
            features: [n_docs, n_features] of the candidates, at least one.
        """
        rows = self._normalised(features)
        n_docs, k = rows.shape[0], self._k
        size = _padded(n_docs)
        padded = np.zeros((size, rows.shape[1]), rows.dtype)
        padded[:n_docs] = rows
        number = self._state["n_ranked"]
        key = jax.random.fold_in(jax.random.fold_in(self._key, 1), number)
        drawn, scores = _rank(
            self._ranker, k, self._state["ranker"], key, padded, np.arange(size) < n_docs
        )
        self._state["n_ranked"] = number + 1
        shown = int(np.sum(np.asarray(drawn.shown)))
        order = np.asarray(drawn.order)
        return LiveRanking(
            order=order[:shown],
            scores=np.asarray(scores)[:shown],
            choices=np.asarray(drawn.choices)[:shown],
            log_propensity=float(drawn.log_p_shown),
            certain=np.asarray(drawn.certain)[:shown, :shown],
            drawn=drawn,
            features=padded[order],
        )

    def learn(self, ranking: LiveRanking, clicks: npt.ArrayLike) -> None:
        """Learn from what was clicked in a list.

        Args:
            ranking: from `rank`. Learn from each list once, when the user has left it.
            clicks: [n_shown], true where clicked, or the click's weight.
        """
        given = np.asarray(clicks, dtype=np.float64)
        n_shown = len(ranking.order)
        if given.shape != (n_shown,):
            raise DataError(
                f"clicks: expected one for each of the {n_shown} shown slots, found shape "
                f"{given.shape}."
            )
        if not np.all(np.isfinite(given)) or np.any(given < 0):
            raise DataError("clicks: weights must be finite and not negative.")
        padded = np.zeros(self._k)
        padded[:n_shown] = given
        key = jax.random.fold_in(jax.random.fold_in(self._key, 2), self._state["n_learned"])
        self._state = _learn(
            self._ranker, self._state, key, ranking.drawn, ranking.features, padded
        )

    def score(self, features: npt.ArrayLike) -> npt.NDArray[np.floating]:
        """[n_docs] scores of a query's candidates, without exploration."""
        rows = self._normalised(features)
        return np.asarray(self._ranker.score(self._state["ranker"], jnp.asarray(rows)))

    def save(self, path: str | Path) -> None:
        """Save everything that going on needs, in one file."""
        checkpoint.write(Path(path), self._state, self._facts)

    @classmethod
    def load(cls, path: str | Path) -> OnlineRanker:
        """Go on from a saved file exactly as the ranker that was saved would have."""
        facts = checkpoint.read_facts(Path(path))
        name = facts.pop("ranker")
        live = cls(name, **facts)
        live._state = checkpoint.read(Path(path), live._state)
        return live

    def _normalised(self, features: npt.ArrayLike) -> npt.NDArray[np.floating]:
        rows = np.asarray(features, dtype=np.float64)
        expected = self._facts["n_features"]
        if rows.ndim != 2 or rows.shape[1] != expected or rows.shape[0] == 0:
            raise DataError(
                f"features: expected [n_docs, {expected}] with at least one document, found shape "
                f"{rows.shape}."
            )
        if not np.all(np.isfinite(rows)):
            document, feature = np.argwhere(~np.isfinite(rows))[0]
            raise DataError(
                f"features: document {document}, feature {feature} is not a finite number."
            )
        normalised = normalise_query(rows, self._facts["normalise"])
        return np.asarray(normalised, self._state["rows"].dtype)


def _padded(n_docs: int) -> int:
    size = _SMALLEST
    while size < n_docs:
        size *= 2
    return size


@partial(jax.jit, static_argnums=(0, 1))
def _rank(
    ranker: Ranker, k: int, state: PyTree, key: Key, features: Array, mask: Array
) -> tuple[Ranking, Array]:
    ranking = ranker.rank(state, key, features, mask, k)
    return ranking, ranker.score(state, features)[ranking.order]


@partial(jax.jit, static_argnums=0)
def _learn(
    ranker: Ranker,
    state: dict[str, Any],
    key: Key,
    ranking: Ranking,
    features: Array,
    clicks: Array,
) -> dict[str, Any]:
    k = features.shape[0]
    n_places = state["rows"].shape[0] // k
    history = getattr(state["ranker"], "history", None)
    # Stored impressions are numbered by the history; this one would take the next number.
    place = 0 if history is None else history.n_impressions % n_places
    ids = place * k + jnp.arange(k, dtype=jnp.int32)
    rows = state["rows"].at[ids].set(features)
    impression = Impression(ids, clicks.astype(rows.dtype), ranking)
    return {
        "ranker": ranker.learn(state["ranker"], key, impression, Rows(rows)),
        "rows": rows,
        "n_ranked": state["n_ranked"],
        "n_learned": state["n_learned"] + 1,
    }
