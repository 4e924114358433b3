"""What is kept and how long: old snapshots go, and with them records that nothing needs any more.

A record can go when its impression is closed, a kept snapshot covers it, and it is older than the
retention. The newest automatic snapshots stay, and all that somebody asked for, promoted or
imported.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from olrank.errors import LogRefusedError, UnknownRankerError
from olrank.service import crashpoints, snapshots
from olrank.service.log import Log
from olrank.service.options import Retention
from olrank.service.records import Kind, RankerRow, SnapshotRow

_AUTOMATIC = ("policy", "stop")


def keep_house(log: Log, folder: Path, retention: Retention) -> int:
    """Forget old snapshots, then drop the records that are covered and old; how many were."""
    # Folders first, rankers second: the folder of a ranker born meanwhile is not in the list.
    folders = list((folder / "snapshots").glob("*"))
    covered: dict[str, int] = {}
    before_ms = time.time_ns() // 1_000_000 - int(retention.records_s * 1000)
    rows = log.rankers()
    for row in rows:
        try:
            kept = _forget_old(log, folder, row, max(retention.snapshots, 1))
        except UnknownRankerError:
            continue
        # A younger ranker has nothing to drop: its log stays whole, to be replayed from the start.
        if kept and log.read(row.birth - 1, 1, row.name)[0].at_ms < before_ms:
            covered[row.name] = kept[0].covers
    dropped = 0
    while n := log.compact(covered, before_ms).result():
        dropped += n
    alive = {str(row.birth) for row in rows}
    for place in folders:
        if place.name not in alive:
            shutil.rmtree(place, ignore_errors=True)
    return dropped


def _forget_old(log: Log, folder: Path, row: RankerRow, most: int) -> list[SnapshotRow]:
    """Forget all but the newest automatic snapshots; those that stay, the oldest first."""
    rows = [one for one in log.snapshots(row.name) if one.record.kind is Kind.SNAPSHOT]
    automatic = [one for one in rows if one.record.header.get("reason") in _AUTOMATIC]
    gone = set()
    for old in automatic[:-most]:
        if snapshots.is_pinned(folder, row.birth, old.snapshot_id):
            continue
        try:
            log.forget(row.name, old.snapshot_id).result()
        except LogRefusedError:
            continue
        crashpoints.reach("snapshot.forgotten")
        snapshots.remove(folder, row.birth, old.snapshot_id)
        gone.add(old.snapshot_id)
    return [one for one in automatic if one.snapshot_id not in gone]
