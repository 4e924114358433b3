"""Rebuild models from their log alone and say whether they are what the service has."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from olrank.errors import DataError, UnknownRankerError
from olrank.service import build
from olrank.service.log import LogReader
from olrank.service.records import Kind, RankerRow
from olrank.service.recover import recover

_EVERYTHING = sys.maxsize  # records to check before any is replayed


@dataclass(frozen=True)
class Replayed:
    """A rebuilt model.

    Attributes:
        ranker: its name.
        position: of the log up to which it was rebuilt.
        version: times the model changed.
        n_trained: impressions it was trained on.
        digest: SHA-256 over all its arrays.
        compared: the snapshot at this very point that it was compared with; None without one.
        agrees: whether the two are the same to the bit; None where they cannot be compared.
        notes: what else there is to say.
    """

    ranker: str
    position: int
    version: int
    n_trained: int
    digest: str
    compared: str | None
    agrees: bool | None
    notes: tuple[str, ...]

    def lines(self) -> list[str]:
        """For a person."""
        verdict = {True: "the same to the bit as", False: "NOT the same as", None: ""}[self.agrees]
        beside = f", {verdict} snapshot {self.compared}" if verdict else ""
        facts = f"version {self.version}, {self.n_trained} impressions, position {self.position}"
        return [f"{self.ranker}  {self.digest}  ({facts}{beside})", *self.notes]


def replay(
    folder: Path, ranker: str | None = None, upto: int | None = None, *, from_start: bool = True
) -> Iterator[Replayed]:
    """Rebuild the models of a folder.

    Args:
        folder: of a service; it may be running.
        ranker: only this one.
        upto: a position of the log; its end when None.
        from_start: from the first record where they are all there, else from the oldest snapshot
            that can be used.
    """
    from olrank.service.sqlite import SqliteReader

    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder. Name the folder of a service.")
    log = SqliteReader(folder, check=_EVERYTHING)
    try:
        rows = [row for row in log.rankers() if ranker in (None, row.name)]
        if ranker is not None and not rows:
            raise UnknownRankerError(f'no ranker is called "{ranker}" in {folder}.')
        end = log.head().position if upto is None else upto
        for row in rows:
            yield _replay_one(log, folder, row, end, from_start)
    finally:
        log.close()


def _replay_one(
    log: LogReader, folder: Path, row: RankerRow, end: int, from_start: bool
) -> Replayed:
    notes: list[str] = []
    whole = from_start and row.compacted == 0
    if from_start and not whole:
        notes.append(f"  records up to {row.compacted} are compacted: replayed from a snapshot")
    model = recover(log, folder, row, end, from_start=whole, say=lambda text: notes.append(text))
    digest = model.digest()
    same_point = [
        one
        for one in log.snapshots(row.name)
        if one.record.kind is Kind.SNAPSHOT and one.record.header["version"] == model.version
    ]
    compared, agrees = None, None
    if same_point:
        header = same_point[-1].record.header
        compared = same_point[-1].snapshot_id
        differs = build.differences(header["build"])
        if differs and header["digest"] != digest:
            notes.append(f"  cannot compare with snapshot {compared}: {'; '.join(differs)}")
        else:
            agrees = header["digest"] == digest
    return Replayed(
        ranker=row.name,
        position=end,
        version=model.version,
        n_trained=model.n_trained,
        digest=digest,
        compared=compared,
        agrees=agrees,
        notes=tuple(notes),
    )
