"""What the log holds and what is asked of it: records, entries, statuses.

A record is one fact in log order. Its body is a JSON header and raw arrays (codec.py); what the
header holds for each kind:

Kind       Written by   Header (the store's names; whoever appends may add its own)
create     admin        config: the ranker's whole configuration
delete     admin        birth
switch     admin        switches: {"explore"?, "learn"?, "serve"?: bool}
ranking    rank         ranking_id, digest (of the request), shown: [item id by slot]
feedback   feedback     event_id, digest, ranking_id, clicks: [[id, weight]], shown_upto, close,
                        status ("accepted" or "paused"); event_id is `Event.identity`
close      the learner  ranking_id, ranking (its position), events (their positions), reason
batch      the learner  version (1, 2, 3 ... of this ranker), first, last (positions of its closes)
snapshot   the learner  snapshot_id, covers (the position up to which records are in its state)
forget     admin        snapshot_id: its file is no longer kept
promote    admin        snapshot_id: the model goes back (or on) to this state, from here on
import     admin        snapshot_id: a file brought from elsewhere, ready to be promoted
claim      the learner  epoch: older learners may write no more
compact    the store    gaps: [[first, last, chain]]: positions dropped, the chain's value there;
                        covered: {birth: position}
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from olrank.service import codec

Arrays = Mapping[str, npt.NDArray[Any]]
"""Arrays by name; stored little-endian, read back with the same dtype, shape and bits."""


class Kind(StrEnum):
    """The kinds of records."""

    CREATE = "create"
    DELETE = "delete"
    SWITCH = "switch"
    RANKING = "ranking"
    FEEDBACK = "feedback"
    CLOSE = "close"
    BATCH = "batch"
    SNAPSHOT = "snapshot"
    FORGET = "forget"
    PROMOTE = "promote"
    IMPORT = "import"
    CLAIM = "claim"
    COMPACT = "compact"


class Status(StrEnum):
    """What became of a feedback event. Only `accepted` and `paused` events are in the log."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"
    LATE = "late"
    UNKNOWN_RANKING = "unknown_ranking"
    UNKNOWN_ITEM = "unknown_item"
    REJECTED = "rejected"
    PAUSED = "paused"


class Outcome(StrEnum):
    """What became of an append that a client may retry."""

    STORED = "stored"  # new, and durable now
    EXISTING = "existing"  # the same was stored before: `record` is the stored one
    CONFLICT = "conflict"  # another was stored under this name before: `record` is the stored one


@dataclass(frozen=True)
class Record:
    """One fact of the log.

    Attributes:
        position: 1, 2, 3 ... in commit order; only compaction leaves positions out.
        kind: what it says.
        ranker: whom it is about; "" for `claim` and `compact`.
        at_ms: the server's clock when it was written; never goes back along the log.
        body: the encoded header and arrays.
        chain: [32] SHA-256 over the chain's value before it, and all of the above.
    """

    position: int
    kind: Kind
    ranker: str
    at_ms: int
    body: bytes
    chain: bytes

    @cached_property
    def header(self) -> dict[str, Any]:
        """The JSON part of the body."""
        return codec.decode_header(self.body)

    @cached_property
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays of the body, read-only."""
        return codec.decode_arrays(self.body)


@dataclass(frozen=True)
class RankingEntry:
    """A ranking about to be answered.

    Attributes:
        ranker: its name.
        birth: the position of the ranker's create record (`RankerRow.birth`), so that a ranking
            drawn before a delete and a new create under the same name is not stored as the new
            ranker's.
        ranking_id: the client's or ours; unique within the ranker.
        digest: of the request, as text; equal for equal requests.
        shown: the item ids by slot; clicks on others are `unknown_item`.
        header: more for the record's header: the whole answer, so that a retry gets it.
        arrays: feature rows and what `learn` needs.
    """

    ranker: str
    birth: int
    ranking_id: str
    digest: str
    shown: Sequence[str]
    header: Mapping[str, Any] = field(default_factory=dict)
    arrays: Arrays = field(default_factory=dict)


@dataclass(frozen=True)
class Event:
    """One feedback event.

    Attributes:
        ranking_id: which ranking it is about.
        clicks: (item id, weight); weights finite and not negative, else the event is `rejected`.
        shown_upto: slots 0 .. shown_upto - 1 were seen; None says nothing about it. More than were
            shown, or negative, is `rejected`.
        close: nothing more will come; the learner may close the impression now.
        event_id: the client's. Without one it is derived from ranking_id and body, so that a
            second identical body is a duplicate (a document's clicks count once anyway).
    """

    ranking_id: str
    clicks: Sequence[tuple[str, float]] = ()
    shown_upto: int | None = None
    close: bool = False
    event_id: str | None = None

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all but the event_id; the order of the clicks does not matter."""
        clicks = sorted([item, float(weight)] for item, weight in self.clicks)
        facts = [self.ranking_id, clicks, self.shown_upto, self.close]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    @property
    def identity(self) -> str:
        """The client's event_id, marked so that it never equals a derived one."""
        return f"client:{self.event_id}" if self.event_id is not None else f"body:{self.digest}"


@dataclass(frozen=True)
class CloseEntry:
    """The learner's decision to close an impression.

    Attributes:
        ranking_id: which.
        reason: "client", "window", "limit" or "unshown"; the store does not read it.
        header: more for the record's header.
    """

    ranking_id: str
    reason: str
    header: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Appended:
    """A durable answer to an append: the record that now stands for it."""

    outcome: Outcome
    record: Record


@dataclass(frozen=True)
class Learned:
    """A durable batch: closes at positions first .. last, the batch record at last + 1.

    Attributes:
        first: position of the first close.
        last: position of the last close.
        position: of the batch record.
        version: how many batches this ranker has now; the model version after applying it.
    """

    first: int
    last: int
    position: int
    version: int


@dataclass(frozen=True)
class RankerRow:
    """A ranker as the log knows it.

    Attributes:
        name: of the ranker.
        birth: position of its create record; tells it from an earlier ranker of this name.
        config: as given to `create`.
        explore: the switch, as last logged (True at first); `learn` and `serve` likewise.
        version: how many batches it has.
        compacted: records of this ranker up to this position may have been dropped; a state can
            be replayed only from a snapshot that covers at least this. 0 when nothing was dropped.
    """

    name: str
    birth: int
    config: Mapping[str, Any]
    explore: bool
    learn: bool
    serve: bool
    version: int
    compacted: int


@dataclass(frozen=True)
class SnapshotRow:
    """A kept snapshot: recorded (`snapshot` or `import`) and not forgotten.

    Attributes:
        snapshot_id: as given.
        covers: log position up to which its state has applied all records; 0 for an import.
        record: the snapshot or import record, with whatever header its writer gave.
    """

    snapshot_id: str
    covers: int
    record: Record


@dataclass(frozen=True)
class OpenImpression:
    """A ranking that is not closed yet.

    Attributes:
        ranking_id: which.
        position: of its ranking record.
        served_ms: when it was stored.
        last_event_ms: when its last accepted or paused event was stored; None without one.
        wants_close: an event asked for it.
    """

    ranking_id: str
    position: int
    served_ms: int
    last_event_ms: int | None
    wants_close: bool


@dataclass(frozen=True)
class StoredRanking:
    """All that the log knows of one ranking.

    Attributes:
        record: the ranking record.
        events: its feedback records (accepted and paused), in log order.
        close: the close record; None while it is open.
    """

    record: Record
    events: tuple[Record, ...]
    close: Record | None


@dataclass(frozen=True)
class Head:
    """The end of the log: the last position (0 when empty) and the chain's value there."""

    position: int
    chain: bytes


def clicks_of(events: Sequence[Record], shown: Sequence[str]) -> npt.NDArray[np.float64]:
    """[n_shown] the highest weight each slot's document got in accepted events; 0 without one."""
    weights = dict.fromkeys(shown, 0.0)
    for event in events:
        if event.header["status"] == Status.ACCEPTED:
            for item, weight in event.header["clicks"]:
                weights[item] = max(weights[item], weight)
    return np.asarray([weights[item] for item in shown], dtype=np.float64)
