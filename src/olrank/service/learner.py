"""The learner: a process of its own that closes impressions, learns from them and publishes.

It alone writes closes. What it learns it learns from the records it reads back (apply.py), so that
a crash at any point, and a replay, end at the same model. It writes to the log through the service
process (remote.py) and reads it by itself; through a second pipe it publishes serving states and is
told to take snapshots or to stop. When the service is gone it stops.

    python -m olrank.service.learner FOLDER LOG_DESCRIPTOR CONTROL_DESCRIPTOR OPTIONS
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from olrank.errors import (
    CheckpointError,
    LogDamagedError,
    LogUnavailableError,
    OlrankError,
    StaleEpochError,
)
from olrank.service import blueprint as blueprints
from olrank.service import crashpoints, remote, snapshots
from olrank.service.apply import Model, Tally, blank_lesson, learn_one
from olrank.service.log import Log
from olrank.service.options import LearnerOptions
from olrank.service.publication import publication
from olrank.service.records import CloseEntry, Kind, OpenImpression, RankerRow, Record
from olrank.service.recover import recover, restorer
from olrank.service.sqlite import SqliteReader

_DUE_S = 0.5  # how often timers are looked at where no event asks for a close
_ALIVE_S = 0.5  # how often it says how far it is
_NICE = 10  # how far it steps back for the process that serves
_GONE = (EOFError, BrokenPipeError, ConnectionResetError)  # the service process is no more


@dataclass
class _Live:
    """A model at work, and what the learner remembers about it."""

    row: RankerRow
    model: Model
    snapshot_trained: int
    snapshot_version: int
    snapshot_at_s: float
    wants_close: bool = True
    backlog: bool = False
    diverged: bool = False


class Learner:
    """One learner for all rankers of a log.

    Args:
        log: read here, written through the service process.
        folder: of the service.
        control: pipe to the service process.
        options: pace.
    """

    def __init__(
        self, log: Log, folder: Path, control: Connection, options: LearnerOptions
    ) -> None:
        """Nothing is read yet."""
        self._log = log
        self._folder = folder
        self._control = control
        self._options = options
        self._live: dict[str, _Live] = {}
        self._position = 0
        self._epoch = 0
        self._looked_s = 0.0
        self._said_s = 0.0
        self._stopping = False

    def run(self) -> None:
        """Catch up with the log, then learn until told to stop."""
        self._epoch = self._log.claim().result()
        crashpoints.reach("learner.claimed")
        self._position = self._log.head().position
        for row in self._log.rankers():
            self._begin(row)
        self._send({"op": "ready", "position": self._position})
        while not self._stopping:
            began_s = time.monotonic()
            self._obey()
            if self._log.wait(self._position, self._options.tick_s):
                self._read()
            self._close_due()
            self._snapshot_due()
            self._say_alive()
            if not any(live.backlog for live in self._live.values()):
                self._rest(began_s + self._options.gather_s - time.monotonic())

    def _rest(self, seconds: float) -> None:
        """Let work gather, unless the service process asks for something."""
        if seconds > 0 and not self._stopping:
            self._control.poll(seconds)

    def _begin(self, row: RankerRow) -> None:
        try:
            model = recover(self._log, self._folder, row, self._position, say=self._complain)
        except (CheckpointError, LogDamagedError) as reason:
            self._give_up(row, reason)
            return
        live = _Live(row, model, model.n_trained, model.version, time.monotonic())
        self._live[row.name] = live
        _compile(model)
        model.tally = Tally()
        self._publish(live)

    def _read(self) -> None:
        """Apply all records that are there, in order; publish what changed."""
        changed: dict[str, _Live] = {}
        while records := self._log.read(self._position):
            for record in records:
                live = self._take(record)
                if live is not None:
                    changed[record.ranker] = live
                self._position = record.position
        for live in changed.values():
            crashpoints.reach("learner.applied")
            self._publish(live)
            crashpoints.reach("learner.published")

    def _take(self, record: Record) -> _Live | None:
        """Apply one record; the model when it changed."""
        if record.kind is Kind.CREATE:
            self._born(record)
            return None
        live = self._live.get(record.ranker)
        if live is None or record.position <= live.model.position:
            return None
        if record.kind is Kind.DELETE:
            del self._live[record.ranker]
            return None
        if record.kind is Kind.FEEDBACK and record.header["close"]:
            live.wants_close = True
        if record.kind is Kind.BATCH:
            crashpoints.reach("learner.applying")
        restore = restorer(self._folder, live.row.birth, live.model)
        try:
            return live if live.model.apply(record, self._log.closed, restore) else None
        except (CheckpointError, LogDamagedError) as reason:
            self._give_up(live.row, reason)
            return None

    def _give_up(self, row: RankerRow, reason: OlrankError) -> None:
        """Leave one ranker alone, so that the others go on."""
        self._live.pop(row.name, None)
        if any(alive.birth == row.birth for alive in self._log.rankers()):  # else: deleted
            text = f"ranker {row.name}: it does not learn any more. {reason}"
            self._send({"op": "broken", "ranker": row.name, "birth": row.birth, "text": text})

    def _born(self, record: Record) -> None:
        for row in self._log.rankers():
            if row.name == record.ranker and row.birth == record.position:
                blueprint = blueprints.make(row.config)
                model = Model(blueprint, blueprint.init(), position=row.birth)
                live = _Live(row, model, 0, 0, time.monotonic())
                self._live[row.name] = live
                self._publish(live)
                _compile(model)

    def _close_due(self) -> None:
        now_s = time.monotonic()
        look = now_s - self._looked_s >= _DUE_S
        self._looked_s = now_s if look else self._looked_s
        for name in [name for name, live in self._live.items() if look or live.wants_close]:
            self._close(name)

    def _close(self, name: str) -> bool:
        """Close what is due, at most a batch; False when it could not be stored."""
        live = self._live[name]
        config, most = live.row.config, self._options.batch
        now_ms = time.time_ns() // 1_000_000
        due = self._log.due(
            name,
            now_ms,
            int(config["window_s"] * 1000),
            int(config["limit_s"] * 1000),
            most,
        )
        live.wants_close = live.backlog = len(due) == most
        if not due:
            return True
        closes = [CloseEntry(one.ranking_id, _reason(one, config, now_ms)) for one in due]
        crashpoints.reach("learner.batch_decided")
        try:
            learned = self._log.append_batch(self._epoch, name, closes).result()
        except StaleEpochError:
            raise
        except OlrankError as reason:
            # The ranker was deleted, or nothing can be written: look again after reading.
            self._complain(f"ranker {name}: a batch was not stored. {reason}")
            live.wants_close = True
            time.sleep(_DUE_S)
            self._read()
            return False
        crashpoints.reach("learner.batch_appended")
        self._log.wait(learned.position - 1, 1.0)
        self._read()
        return True

    def _snapshot_due(self) -> None:
        for live in list(self._live.values()):
            model, now_s = live.model, time.monotonic()
            many = model.n_trained - live.snapshot_trained >= self._options.snapshot_every
            old = now_s - live.snapshot_at_s >= self._options.snapshot_s
            if model.version != live.snapshot_version and (many or old):
                try:
                    self._snapshot(live, "policy")
                except _GONE:
                    raise
                except (OlrankError, OSError) as reason:
                    self._complain(f"ranker {live.row.name}: no snapshot could be taken. {reason}")

    def _snapshot(self, live: _Live, reason: str) -> str:
        model, name = live.model, live.row.name
        live.snapshot_at_s = time.monotonic()  # also when it fails: not again at once
        snapshot_id = snapshots.new_id(model.position)
        facts = snapshots.write(self._folder, live.row.birth, snapshot_id, model)
        header = {key: facts[key] for key in ("version", "n_trained", "digest", "build")}
        self._log.append_snapshot(
            self._epoch, name, snapshot_id, model.position, {**header, "reason": reason}
        ).result()
        crashpoints.reach("snapshot.recorded")
        live.snapshot_trained, live.snapshot_version = model.n_trained, model.version
        self._send({"op": "snapshot", "ranker": name, "snapshot_id": snapshot_id})
        return snapshot_id

    def _obey(self) -> None:
        """Do what the service process asks."""
        while self._control.poll():
            asked = remote.decode(self._control.recv_bytes())
            if asked["op"] == "stop":
                self._stopping = True
                self._settle()
                return
            answer: dict[str, Any] = {"op": "answer", "ticket": asked["ticket"]}
            try:
                answer["value"] = self._do(asked)
            except (OlrankError, OSError, KeyError) as reason:
                answer["error"] = str(reason)
            self._send(answer)

    def _do(self, asked: dict[str, Any]) -> Any:
        self._read()
        live = self._live[asked["ranker"]]
        if asked["op"] == "snapshot":
            return self._snapshot(live, "asked")
        if asked["op"] == "catch_up":
            stored = self._close(asked["ranker"])
            while stored and live.backlog:
                stored = self._close(asked["ranker"])
            if not stored:
                raise LogUnavailableError("what is due could not be stored. Try again.")
            return {"model_version": live.model.version, "n_trained": live.model.n_trained}
        if asked["op"] == "digest":
            return {"digest": live.model.digest(), "version": live.model.version}
        raise KeyError(asked["op"])

    def _settle(self) -> None:
        """A snapshot of everything that changed, so that the next start has nothing to replay."""
        self._read()
        for live in list(self._live.values()):
            if live.model.version != live.snapshot_version and live.model.at_boundary:
                self._snapshot(live, "stop")
        self._send({"op": "stopped"})

    def _publish(self, live: _Live) -> None:
        message = publication(live.row, live.model)
        was, live.diverged = live.diverged, message["diverged"]
        if live.diverged and not was:
            self._complain(
                f"ranker {live.row.name}: its parameters are no finite numbers any more at version "
                f"{live.model.version}. The last good version goes on serving: promote a snapshot, "
                "or create the ranker again with a smaller learning_rate."
            )
        self._send(message)
        live.model.tally = Tally()

    def _say_alive(self) -> None:
        if time.monotonic() - self._said_s >= _ALIVE_S:
            self._said_s = time.monotonic()
            self._send({"op": "alive", "position": self._position})

    def _complain(self, text: str) -> None:
        self._send({"op": "complaint", "text": text})

    def _send(self, message: dict[str, Any]) -> None:
        self._control.send_bytes(remote.encode(message))


def _reason(one: OpenImpression, config: Mapping[str, Any], now_ms: int) -> str:
    if one.wants_close:
        return "client"
    if one.last_event_ms is None:
        return "unshown"
    return "window" if now_ms - one.last_event_ms >= config["window_s"] * 1000 else "limit"


def _compile(model: Model) -> None:
    """Compile `learn_one` on a state of its own, so that the first batch is as fast as any."""
    blueprint, zero = model.blueprint, np.uint32(0)
    learn_one(blueprint.ranker, blueprint.init(), zero, zero, blank_lesson(blueprint))


def main(arguments: list[str]) -> int:
    """Run a learner at the other end of two inherited sockets."""
    folder, log_descriptor, control_descriptor, options = arguments
    # People wait for rankings; learning may take what they leave of the processor.
    os.nice(_NICE)
    # The service process decides when to stop, also when both get a signal.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    control = Connection(int(control_descriptor))
    log = remote.connect(Connection(int(log_descriptor)), SqliteReader(Path(folder)))
    learner = Learner(log, Path(folder), control, LearnerOptions(**json.loads(options)))
    try:
        learner.run()
    except (*_GONE, StaleEpochError):
        return 0  # the service is gone, or has started another learner
    except OlrankError as error:
        if _is_gone(control):
            return 0
        print(f"olrank learner: {error}", file=sys.stderr)
        return 3
    return 0


def _is_gone(control: Connection) -> bool:
    """Whether the service process has hung up."""
    try:
        while control.poll():
            control.recv_bytes()
    except _GONE:
        return True
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
