"""Compaction in SQLite: which records no kept state needs, and how they leave without a trace.

Records leave in units that leave the derived tables right: a ranking with its events and its close;
then batches, forgotten snapshots, and the rest of a deleted ranker. The compact record lists every
gap and the chain's value behind it, so that what stays can still be checked. The last batch of each
ranker (it says the version) and the last claim stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import apsw

from olrank.errors import LogRefusedError
from olrank.service import crashpoints
from olrank.service.decisions import Transaction, living, write
from olrank.service.records import Kind

_Gap = tuple[int, int, str]


def compact(
    tx: Transaction,
    db: apsw.Connection,
    covered: Mapping[str, int],
    closed_before_ms: int,
    erase: Mapping[str, Sequence[str]],
    most: int,
) -> int:
    """Drop about `most` records; how many were dropped."""
    upto = {living(tx, name).birth: _checked(tx, name, covered[name]) for name in covered}
    crashpoints.reach("store.compacting")
    units = _erased(tx, db, covered, erase)
    units += _rankings(db, upto, closed_before_ms, most)
    dropped = set(_drop_units(db, dict.fromkeys(units)))
    if len(units) < most:
        dropped.update(_batches(db, upto, closed_before_ms, most), _drop_remains(db))
        dropped.update(_drop_forgotten(db, upto))
    if not dropped:
        return 0
    count = len(dropped)
    dropped.update(_bookkeeping(db))
    header = {"gaps": _gaps(db, dropped), "covered": _compacted(db, upto)}
    db.executemany("DELETE FROM records WHERE position = ?", [(one,) for one in sorted(dropped)])
    write(tx, Kind.COMPACT, "", header)
    crashpoints.reach("store.compacted")
    return count


def _checked(tx: Transaction, name: str, position: int) -> int:
    if not any(covers >= position for covers in tx.covers(living(tx, name).birth)):
        raise LogRefusedError(
            f'ranker "{name}": no kept snapshot covers log position {position}, so the records up '
            "to there are still needed. Take a snapshot first."
        )
    return position


def _erased(
    tx: Transaction,
    db: apsw.Connection,
    covered: Mapping[str, int],
    erase: Mapping[str, Sequence[str]],
) -> list[tuple[int, str]]:
    units = []
    for name, ranking_ids in erase.items():
        birth = living(tx, name).birth
        for ranking_id in ranking_ids:
            found = tx.served(birth, ranking_id)
            if found is None:
                continue  # gone already, or never here
            if found.closed is None or found.closed > covered.get(name, 0):
                raise LogRefusedError(
                    f'ranking "{ranking_id}": it cannot be erased before it is closed and a '
                    "snapshot covers its close."
                )
            units.append((birth, ranking_id))
    return units


def _rankings(
    db: apsw.Connection, upto: Mapping[int, int], before_ms: int, most: int
) -> list[tuple[int, str]]:
    units: list[tuple[int, str]] = []
    for birth, position in upto.items():
        units += db.execute(
            "SELECT birth, ranking_id FROM rankings WHERE birth = ? AND closed <= ? "
            "AND closed_ms < ? ORDER BY closed LIMIT ?",
            (birth, position, before_ms, most),
        )
    units += db.execute(
        "SELECT rankings.birth, ranking_id FROM rankers CROSS JOIN rankings USING(birth) "
        "WHERE died IS NOT NULL LIMIT ?",
        (most,),
    )
    return units[:most]


def _batches(db: apsw.Connection, upto: Mapping[int, int], before_ms: int, most: int) -> list[int]:
    positions: list[int] = []
    for birth, position in upto.items():
        rows = db.execute(
            "SELECT records.position FROM records JOIN rankers ON ranker = name "
            "WHERE rankers.birth = ?1 AND kind = 'batch' "
            "AND records.position BETWEEN ?1 AND ?2 AND at_ms < ?3 "
            "AND records.position < (SELECT max(position) FROM records "
            "    WHERE ranker = name AND kind = 'batch') "
            "ORDER BY records.position LIMIT ?4",
            (birth, position, before_ms, most),
        )
        positions += [row[0] for row in rows]
    return positions


def _drop_units(db: apsw.Connection, units: Iterable[tuple[int, str]]) -> list[int]:
    dropped: list[int] = []
    for unit in units:
        position, closed = db.execute(
            "DELETE FROM rankings WHERE birth = ? AND ranking_id = ? RETURNING position, closed",
            unit,
        ).get
        events = db.execute(
            "DELETE FROM events WHERE birth = ? AND ranking_id = ? RETURNING position", unit
        )
        dropped += [position, *(row[0] for row in events)]
        if closed is not None:
            dropped.append(closed)
    return dropped


def _drop_remains(db: apsw.Connection) -> list[int]:
    """What is left of deleted rankers that have no ranking left."""
    empty = (
        "died IS NOT NULL AND NOT EXISTS "
        "(SELECT 1 FROM rankings WHERE rankings.birth = rankers.birth)"
    )
    rows = db.execute(
        "SELECT records.position FROM rankers JOIN records ON ranker = name "
        f"AND records.position BETWEEN rankers.birth AND rankers.died WHERE {empty}"
    )
    positions = [row[0] for row in rows]
    db.execute(f"DELETE FROM snapshots WHERE birth IN (SELECT birth FROM rankers WHERE {empty})")
    db.execute(f"DELETE FROM rankers WHERE {empty}")
    return positions


def _drop_forgotten(db: apsw.Connection, upto: Mapping[int, int]) -> list[int]:
    """Snapshots that were forgotten before the mark, with the records that say so."""
    positions: list[int] = []
    for mark in upto.items():
        rows = db.execute(
            "DELETE FROM snapshots WHERE birth = ? AND forgotten <= ? "
            "RETURNING position, forgotten",
            mark,
        )
        positions += [position for row in rows for position in row]
    return positions


def _bookkeeping(db: apsw.Connection) -> list[int]:
    """Earlier compact records (the new one restates them) and all claims but the last."""
    rows = db.execute(
        "SELECT position FROM records WHERE ranker = '' AND (kind = 'compact' OR "
        "position < (SELECT max(position) FROM records WHERE ranker = '' AND kind = 'claim'))"
    )
    return [row[0] for row in rows]


def _gaps(db: apsw.Connection, dropped: Iterable[int]) -> list[_Gap]:
    """All gaps there will be, joined where they touch."""
    parts: list[_Gap] = [
        (first, last, value.hex())
        for first, last, value in db.execute("SELECT first, last, chain FROM gaps")
    ]
    for position in dropped:
        value = db.execute("SELECT chain FROM records WHERE position = ?", (position,)).get
        parts.append((position, position, value.hex()))
    joined: list[_Gap] = []
    for first, last, value in sorted(parts):
        if joined and joined[-1][1] == first - 1:
            joined[-1] = (joined[-1][0], last, value)
        else:
            joined.append((first, last, value))
    return joined


def _compacted(db: apsw.Connection, upto: Mapping[int, int]) -> dict[str, int]:
    """Each ranker's mark, restated, because earlier compact records go."""
    rows = db.execute("SELECT birth, compacted FROM rankers")
    marks = {birth: max(before, upto.get(birth, 0)) for birth, before in rows}
    return {str(birth): mark for birth, mark in marks.items() if mark}
