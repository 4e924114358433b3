"""The model of a ranker as the log has it: its newest usable snapshot, and the records since.

Used by the learner when it starts and by replay.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from olrank.errors import CheckpointError, LogDamagedError
from olrank.service import blueprint as blueprints
from olrank.service import snapshots
from olrank.service.apply import Model
from olrank.service.log import LogReader
from olrank.service.records import Kind, RankerRow

_LOG = logging.getLogger("olrank.service")
_CHUNK = 1000  # records read at a time


def recover(
    log: LogReader,
    folder: Path,
    row: RankerRow,
    upto: int,
    *,
    from_start: bool = False,
    say: Callable[[str], None] = _LOG.error,
) -> Model:
    """The model after all records up to a position.

    Args:
        log: where the records are.
        folder: of the service, where the snapshots are.
        row: of the ranker.
        upto: a position of the log.
        from_start: use no snapshot as the start.
        say: told when a snapshot is damaged and an older one is used.
    """
    model = _start(log, folder, row, upto, from_start, say)
    while model.position < upto:
        records = log.read(model.position, _CHUNK, row.name)
        for record in records:
            if record.position > upto:
                break
            model.apply(record, log.closed, restorer(folder, row.birth, model))
        if len(records) < _CHUNK or records[-1].position >= upto:
            break
    model.position = max(model.position, upto)
    return model


def restorer(folder: Path, birth: int, model: Model) -> Callable[[str], blueprints.State]:
    """Reads the state of a snapshot of this ranker."""
    return lambda snapshot_id: snapshots.read(folder, birth, snapshot_id, model.blueprint)


def _start(
    log: LogReader,
    folder: Path,
    row: RankerRow,
    upto: int,
    from_start: bool,
    say: Callable[[str], None],
) -> Model:
    blueprint = blueprints.make(row.config)
    usable = [
        snapshot
        for snapshot in log.snapshots(row.name)
        if snapshot.record.kind is Kind.SNAPSHOT and row.compacted <= snapshot.covers <= upto
    ]
    for snapshot in [] if from_start else sorted(usable, key=lambda one: -one.covers):
        try:
            return snapshots.resume(folder, row.birth, snapshot.snapshot_id, blueprint)
        except CheckpointError as reason:
            say(f"ranker {row.name}: {reason} An older snapshot is used instead.")
    if row.compacted > 0:
        raise LogDamagedError(
            f"ranker {row.name}: records up to {row.compacted} were compacted away, and no "
            "snapshot that covers them can be read. Restore the folder from a copy, or delete the "
            "ranker."
        )
    return Model(blueprint=blueprint, state=blueprint.init(), position=row.birth)
