"""A log through a pipe: a child process writes through the one process that owns the files.

Requests and answers travel as bodies of codec.py, so that no pickle is ever loaded. The child reads
the log by itself.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from enum import StrEnum
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from olrank import errors
from olrank.service import codec, crashpoints, records
from olrank.service.log import LogReader, LogWriter
from olrank.service.records import (
    Appended,
    CloseEntry,
    Event,
    Head,
    Learned,
    OpenImpression,
    RankerRow,
    RankingEntry,
    Record,
    SnapshotRow,
    Status,
    StoredRanking,
)

_CLASSES = (RankingEntry, Event, CloseEntry, Record, Appended, Learned)
_ENUMS = (records.Kind, records.Status, records.Outcome)
_CALLS = (
    "create_ranker delete_ranker switch append_ranking append_feedback claim append_batch "
    "append_snapshot append_import promote forget compact"
).split()


def serve(log: LogWriter, connection: Connection) -> None:
    """Do what a child asks, one request after the other, until it hangs up."""
    while True:
        try:
            name, arguments = decode(connection.recv_bytes())
            crashpoints.reach("remote.received")
            answer = _answer(log, name, arguments)
            crashpoints.reach("remote.answering")
            connection.send_bytes(encode(answer))
        except (EOFError, OSError):
            return


def _answer(log: LogWriter, name: str, arguments: Sequence[Any]) -> list[Any]:
    try:
        if name not in _CALLS:
            raise errors.LogRefusedError(f'the log cannot "{name}".')
        return ["done", getattr(log, name)(*arguments).result()]
    except Exception as reason:
        return ["failed", type(reason).__name__, str(reason)]


class RemoteLog:
    """A whole log in a child process.

    Args:
        connection: its end of the pipe; the parent runs `serve` at the other one.
        reader: reads the log.
    """

    def __init__(self, connection: Connection, reader: LogReader) -> None:
        """Nothing is sent yet."""
        self._connection = connection
        self._reader = reader
        self._lock = threading.Lock()

    def head(self) -> Head:
        """The end of the log."""
        return self._reader.head()

    def read(self, after: int, limit: int = 1000, ranker: str | None = None) -> list[Record]:
        """Records behind a position, in log order."""
        return self._reader.read(after, limit, ranker)

    def wait(self, after: int, timeout_s: float) -> bool:
        """Block until there is a record behind `after`; False when the time ran out first."""
        return self._reader.wait(after, timeout_s)

    def rankers(self) -> list[RankerRow]:
        """Rankers that are not deleted, by name."""
        return self._reader.rankers()

    def ranking(self, ranker: str, ranking_id: str) -> StoredRanking | None:
        """A ranking with its events; None when there is none."""
        return self._reader.ranking(ranker, ranking_id)

    def closed(self, close: Record) -> StoredRanking:
        """What a close record closes: its ranking and its events, by the positions it names."""
        return self._reader.closed(close)

    def open_impressions(self, ranker: str) -> list[OpenImpression]:
        """The ranker's rankings that have no close record, in log order."""
        return self._reader.open_impressions(ranker)

    def due(
        self, ranker: str, now_ms: int, window_ms: int, limit_ms: int, most: int
    ) -> list[OpenImpression]:
        """Open impressions that should be closed, in log order, at most `most`."""
        return self._reader.due(ranker, now_ms, window_ms, limit_ms, most)

    def snapshots(self, ranker: str) -> list[SnapshotRow]:
        """Kept snapshots of a ranker that is not deleted, in log order."""
        return self._reader.snapshots(ranker)

    def verify(self) -> Head:
        """Check every record, the chain, the positions and the derived tables."""
        return self._reader.verify()

    def close(self) -> None:
        """Hang up, and let go of the files. Later calls raise."""
        self._connection.close()
        self._reader.close()

    def create_ranker(self, name: str, config: Mapping[str, Any]) -> Future[Appended]:
        """Begin a ranker: stored; existing when it lives with an equal config; else conflict."""
        return self._ask("create_ranker", name, config)

    def delete_ranker(self, name: str) -> Future[Record]:
        """A tombstone: the ranker is unknown from here on, its records go with compaction."""
        return self._ask("delete_ranker", name)

    def switch(self, ranker: str, switches: Mapping[str, bool]) -> Future[Record]:
        """Set some of explore, learn, serve. While learn is off, events are `paused`."""
        return self._ask("switch", ranker, switches)

    def append_ranking(self, entry: RankingEntry) -> Future[Appended]:
        """Store a ranking, before it is answered."""
        return self._ask("append_ranking", entry)

    def append_feedback(self, ranker: str, events: Sequence[Event]) -> Future[list[Status]]:
        """Store feedback events; a status for each, in order, decided one after the other."""
        return self._ask("append_feedback", ranker, list(events))

    def claim(self) -> Future[int]:
        """Become the one learner: a new epoch, larger than all before."""
        return self._ask("claim")

    def append_batch(
        self,
        epoch: int,
        ranker: str,
        closes: Sequence[CloseEntry],
        header: Mapping[str, Any] | None = None,
    ) -> Future[Learned]:
        """Close impressions and record them as the ranker's next batch: all of it, or nothing."""
        return self._ask("append_batch", epoch, ranker, list(closes), header)

    def append_snapshot(
        self,
        epoch: int,
        ranker: str,
        snapshot_id: str,
        covers: int,
        header: Mapping[str, Any] | None = None,
    ) -> Future[Record]:
        """Record a snapshot whose file is already durable."""
        return self._ask("append_snapshot", epoch, ranker, snapshot_id, covers, header)

    def append_import(
        self, ranker: str, snapshot_id: str, header: Mapping[str, Any] | None = None
    ) -> Future[Record]:
        """Record an imported snapshot whose file is already durable; covers nothing (0)."""
        return self._ask("append_import", ranker, snapshot_id, header)

    def promote(
        self, ranker: str, snapshot_id: str, header: Mapping[str, Any] | None = None
    ) -> Future[Record]:
        """From this record on the model is the snapshot's."""
        return self._ask("promote", ranker, snapshot_id, header)

    def forget(self, ranker: str, snapshot_id: str) -> Future[Record]:
        """A snapshot is no longer kept. Delete its file after this is durable, never before."""
        return self._ask("forget", ranker, snapshot_id)

    def compact(
        self,
        covered: Mapping[str, int],
        closed_before_ms: int,
        erase: Mapping[str, Sequence[str]] | None = None,
        most: int = 100,
    ) -> Future[int]:
        """Drop records that no kept state needs, and overwrite them on disk."""
        return self._ask("compact", covered, closed_before_ms, erase, most)

    def _ask(self, name: str, *arguments: Any) -> Future[Any]:
        """Ask and wait: the learner has nothing to do before its answer is durable."""
        future: Future[Any] = Future()
        message = encode([name, list(arguments)])
        try:
            with self._lock:
                self._connection.send_bytes(message)
                outcome, *rest = decode(self._connection.recv_bytes())
        except (EOFError, OSError) as reason:
            outcome = "failed"
            text = f"the process that owns the log hung up ({reason!r})."
            rest = ["LogUnavailableError", text]
        if outcome == "done":
            future.set_result(rest[0])
        else:
            kind = getattr(errors, rest[0], errors.LogUnavailableError)
            future.set_exception(kind(rest[1]))
        return future


def encode(value: Any) -> bytes:
    """Bytes of lists, maps, numbers, texts, bytes, arrays, and the records of records.py."""
    arrays: dict[str, Any] = {}
    return codec.encode({"value": _pack(value, arrays)}, arrays)


def decode(message: bytes) -> Any:
    """The value that `encode` was given; no other classes than those of records.py are made."""
    return _unpack(codec.decode_header(message)["value"], codec.decode_arrays(message))


def _pack(value: Any, arrays: dict[str, Any]) -> Any:
    if isinstance(value, StrEnum):
        return ["enum", type(value).__name__, value.value]
    if isinstance(value, float) and not math.isfinite(value):
        return ["float", repr(value)]  # JSON has no word for it
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes | np.ndarray):
        name = str(len(arrays))
        raw = isinstance(value, bytes)
        arrays[name] = np.frombuffer(value, np.uint8) if isinstance(value, bytes) else value
        return ["bytes" if raw else "array", name]
    if isinstance(value, Mapping):
        return ["map", [[key, _pack(one, arrays)] for key, one in value.items()]]
    if isinstance(value, list | tuple):
        return ["list", [_pack(one, arrays) for one in value]]
    fields = {name: getattr(value, name) for name in value.__dataclass_fields__}
    return ["record", type(value).__name__, _pack(fields, arrays)]


def _unpack(value: Any, arrays: Mapping[str, Any]) -> Any:
    if not isinstance(value, list):
        return value
    match value:
        case ["enum", name, text]:
            return _named(_ENUMS, name)(text)
        case ["float", text]:
            return float(text)
        case ["bytes", name]:
            return arrays[name].tobytes()
        case ["array", name]:
            return arrays[name]
        case ["map", pairs]:
            return {key: _unpack(one, arrays) for key, one in pairs}
        case ["list", ones]:
            return [_unpack(one, arrays) for one in ones]
        case ["record", name, fields]:
            return _named(_CLASSES, name)(**_unpack(fields, arrays))
    raise errors.LogDamagedError(f"a message through the pipe begins with {value[:1]}.")


def _named(known: Sequence[Any], name: str) -> Any:
    for one in known:
        if one.__name__ == name:
            return one
    raise errors.LogDamagedError(f'a message through the pipe names "{name}", which is no record.')
