"""From records to a model: the one piece of code that learns, live and in replay.

A model changes at two kinds of records only. A batch record makes it learn from the impressions
that were closed just before it, one at a time, in the order of their close records; a promote
record puts it back to a snapshot. What an impression teaches is read from the log when the batch
record is: all events accepted before its close count, and none after.

An impression trains when its ranking was shown (some accepted event, and not shown_upto 0), the
learn switch was on at its close, and its ranker can learn from that list. Its key depends on the
seed and on how many impressions the ranker ever trained on, never on time or on batch sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from olrank import checkpoint
from olrank.service.blueprint import Blueprint, State
from olrank.service.records import Kind, Record, Status, StoredRanking, clicks_of
from olrank.types import Array, Impression, Ranker, Ranking, Rows

Fetch = Callable[[Record], StoredRanking]
"""A close record -> what it closes, read from the records that it names."""

Restore = Callable[[str], State]
"""snapshot_id -> its state."""


@dataclass
class Tally:
    """What happened while records were applied, for metrics.

    Attributes:
        closed: impressions by their reason to close.
        trained: impressions that were learned from.
        shown: times that each slot was in view of a user, in joined impressions.
        clicked: of these, with a click.
        oldest_ms: when the first event came that asked for a close.
    """

    closed: dict[str, int] = field(default_factory=dict)
    trained: int = 0
    shown: dict[int, int] = field(default_factory=dict)
    clicked: dict[int, int] = field(default_factory=dict)
    oldest_ms: int | None = None


@dataclass
class Model:
    """One ranker's model, and how far in the log it is.

    Attributes:
        blueprint: as configured.
        state: everything learned.
        n_trained: impressions ever trained on; a promote does not take it back.
        version: times the model changed: batches and promotes.
        position: of the last record applied.
        learns: the learn switch there.
    """

    blueprint: Blueprint
    state: State
    n_trained: int = 0
    version: int = 0
    position: int = 0
    learns: bool = True
    tally: Tally = field(default_factory=Tally)
    _closes: list[Record] = field(default_factory=list)

    @property
    def at_boundary(self) -> bool:
        """No close is waiting for its batch record: a snapshot may be taken here."""
        return not self._closes

    def apply(self, record: Record, fetch: Fetch, restore: Restore) -> bool:
        """Take in the next record of this ranker; True when the model changed."""
        changed = False
        if record.kind is Kind.SWITCH:
            self.learns = record.header["switches"].get("learn", self.learns)
        elif record.kind is Kind.CLOSE:
            self._closes.append(record)
        elif record.kind is Kind.BATCH:
            self._learn_batch(fetch)
            changed = True
        elif record.kind is Kind.PROMOTE:
            self.state = restore(record.header["snapshot_id"])
            changed = True
        self.version += changed
        self.position = record.position
        return changed

    def digest(self) -> str:
        """SHA-256 over all arrays of the state: equal exactly when every bit is."""
        return checkpoint.digest(self.state)

    def _learn_batch(self, fetch: Fetch) -> None:
        for close in self._closes:
            stored = fetch(close)
            self._count(close, stored)
            lesson = lesson_of(stored, self.blueprint) if self.learns else None
            if lesson is not None:
                self._learn(lesson)
        self._closes.clear()

    def _learn(self, lesson: Lesson) -> None:
        self.state = learn_one(
            self.blueprint.ranker,
            self.state,
            np.uint32(self.blueprint.seed),
            np.uint32(self.n_trained),
            lesson,
        )
        self.n_trained += 1
        self.tally.trained += 1

    def _count(self, close: Record, stored: StoredRanking) -> None:
        reason = close.header["reason"]
        self.tally.closed[reason] = self.tally.closed.get(reason, 0) + 1
        if reason == "client":
            asked_ms = stored.events[-1].at_ms
            self.tally.oldest_ms = min(self.tally.oldest_ms or asked_ms, asked_ms)
        clicks = clicks_of(stored.events, stored.record.header["shown"])
        for slot in range(n_in_view(stored.events, clicks)):
            self.tally.shown[slot] = self.tally.shown.get(slot, 0) + 1
            if clicks[slot] > 0:
                self.tally.clicked[slot] = self.tally.clicked.get(slot, 0) + 1


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Lesson:
    """What one impression teaches, in arrays of fixed shape.

    Attributes:
        features: [k, n_features] normalised rows of the shown documents, padded.
        clicks: [k] weights.
        seen: [k] bool, the slots that came into view.
        ranking: as it was drawn.
    """

    features: Any
    clicks: Any
    seen: Any
    ranking: Ranking


def n_in_view(events: tuple[Record, ...], clicks: npt.NDArray[Any]) -> int:
    """How many slots the user can have looked at; 0 when no accepted event says it was shown."""
    accepted = [e.header for e in events if e.header["status"] == Status.ACCEPTED]
    if not accepted:
        return 0
    said = [header["shown_upto"] for header in accepted if header["shown_upto"] is not None]
    if not said:
        return len(clicks)
    clicked = np.flatnonzero(clicks > 0)
    lowest_click = int(clicked[-1]) + 1 if len(clicked) else 0  # a click was seen, whatever is said
    return max(lowest_click, *(int(upto) for upto in said))


def lesson_of(stored: StoredRanking, blueprint: Blueprint) -> Lesson | None:
    """What an impression teaches; None when it does not train."""
    header, arrays, k = stored.record.header, stored.record.arrays, blueprint.k
    clicks = clicks_of(stored.events, header["shown"])
    n_seen = n_in_view(stored.events, clicks)
    if n_seen == 0 or not header["trains"]:
        return None
    memo = [arrays[name] for name in sorted(arrays) if name.startswith("memo.")]
    drawn: dict[str, Any] = {
        "order": np.arange(k, dtype=np.int32),
        "shown": np.arange(k) < len(clicks),
        "choices": _padded(arrays["choices"], (k,), 1),
        "log_p_shown": arrays["log_p"],
        "certain": _padded(arrays["certain"], (k, k), False),
        "memo": _memo(blueprint, memo),
    }
    return Lesson(
        features=_padded(arrays["features"], (k, blueprint.n_features), 0.0),
        clicks=_padded(clicks.astype(np.float32), (k,), 0.0),
        seen=np.arange(k) < n_seen,
        ranking=Ranking(**drawn),
    )


@partial(jax.jit, static_argnums=0, donate_argnums=1)
def learn_one(ranker: Ranker, state: State, seed: Array, index: Array, lesson: Lesson) -> State:
    """The state after one impression; the state given is used up."""
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), 2), index)
    k = lesson.features.shape[0]
    n_places = state["rows"].shape[0] // k
    history = getattr(state["ranker"], "history", None)
    # Stored impressions are numbered by the history; this one would take the next number.
    place = 0 if history is None else history.n_impressions % n_places
    ids = place * k + jnp.arange(k, dtype=jnp.int32)
    rows = state["rows"].at[ids].set(lesson.features.astype(state["rows"].dtype))
    clicks = lesson.clicks.astype(rows.dtype)
    impression = Impression(ids, clicks, lesson.ranking, seen=lesson.seen)
    return {
        "ranker": ranker.learn(state["ranker"], key, impression, Rows(rows)),
        "rows": rows,
        "n_learned": state["n_learned"] + 1,
    }


def blank_lesson(blueprint: Blueprint) -> Lesson:
    """A lesson of the right shapes that teaches nothing."""
    k = blueprint.k
    drawn: dict[str, Any] = {
        "order": np.arange(k, dtype=np.int32),
        "shown": np.zeros(k, bool),
        "choices": np.ones(k, np.int32),
        "log_p_shown": np.zeros((), np.float32),
        "certain": np.zeros((k, k), bool),
        "memo": blueprint.memo,
    }
    return Lesson(
        features=np.zeros((k, blueprint.n_features), np.float32),
        clicks=np.zeros(k, np.float32),
        seen=np.zeros(k, bool),
        ranking=Ranking(**drawn),
    )


def _memo(blueprint: Blueprint, leaves: list[npt.NDArray[Any]]) -> Any:
    """The memo of the draw; () for a list that the ranker did not draw itself."""
    return jax.tree.unflatten(jax.tree.structure(blueprint.memo), leaves) if leaves else ()


def _padded(array: npt.NDArray[Any], shape: tuple[int, ...], fill: Any) -> npt.NDArray[Any]:
    padded = np.full(shape, fill, array.dtype)
    padded[tuple(slice(0, n) for n in array.shape)] = array
    return padded
