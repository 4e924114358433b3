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
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, cast

import numpy as np

from olrank import errors
from olrank.service import codec, crashpoints, records
from olrank.service.log import Log, LogReader, LogWriter
from olrank.service.records import Appended, CloseEntry, Event, Learned, RankingEntry, Record

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
            name, arguments, named = decode(connection.recv_bytes())
            crashpoints.reach("remote.received")
            answer = _answer(log, name, arguments, named)
            crashpoints.reach("remote.answering")
            connection.send_bytes(encode(answer))
        except (EOFError, OSError):
            return


def _answer(
    log: LogWriter, name: str, arguments: Sequence[Any], named: Mapping[str, Any]
) -> list[Any]:
    try:
        if name not in _CALLS:
            raise errors.LogRefusedError(f'the log cannot "{name}".')
        return ["done", getattr(log, name)(*arguments, **named).result()]
    except Exception as reason:
        return ["failed", type(reason).__name__, str(reason)]


def connect(connection: Connection, reader: LogReader) -> Log:
    """A whole log in a child process.

    Args:
        connection: its end of the pipe; the parent runs `serve` at the other one.
        reader: reads the log.
    """
    return cast(Log, _Remote(connection, reader))


class _Remote:
    """Has every method of a log: those that write are asked of the parent, the others here."""

    def __init__(self, connection: Connection, reader: LogReader) -> None:
        self._connection = connection
        self._reader = reader
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        return partial(self._ask, name) if name in _CALLS else getattr(self._reader, name)

    def close(self) -> None:
        """Hang up, and let go of the files. Later calls raise."""
        self._connection.close()
        self._reader.close()

    def _ask(self, name: str, *arguments: Any, **named: Any) -> Future[Any]:
        """Ask and wait: the learner has nothing to do before its answer is durable."""
        future: Future[Any] = Future()
        message = encode([name, list(arguments), named])
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
