"""Checking a log in SQLite: the chain from its first record, the derived tables from scratch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

import apsw

from olrank.errors import LogDamagedError
from olrank.service import chain
from olrank.service.records import Head, Kind, Record
from olrank.service.sqlite_tables import DERIVED, RARE, SCHEMA, Tables, checked, select, tail_of

_WITHOUT_VERSION = "birth, name, died, explore, learn, serve, compacted"
_COPY = "Bring the data folder back from a copy."


def verify(db: apsw.Connection) -> Head:
    """Check everything; the end of the log.

    Args:
        db: in a transaction, so that the log stands still.
    """
    found = db.execute("PRAGMA integrity_check(1)").get
    if found != "ok":
        raise LogDamagedError(f"the log's file is damaged: {found}. {_COPY}")
    again = apsw.Connection(":memory:")
    again.execute(SCHEMA)
    tables = Tables(again)
    tail = Head(0, chain.GENESIS)
    with again:
        for record in walk(db):
            tables.derive(record, record.header)
            tail = Head(record.position, record.chain)
    for table, order in DERIVED.items():
        _compare(f"SELECT * FROM {table} ORDER BY {order}", db, again)
    again.close()
    return tail


def verify_rare(db: apsw.Connection) -> None:
    """Check what follows from the few records that are not about impressions: quick at any size."""
    again = apsw.Connection(":memory:")
    again.execute(SCHEMA)
    tables = Tables(again)
    with again:
        for record in select(db, f"INDEXED BY records_rare WHERE {RARE} ORDER BY position"):
            tables.derive(record, record.header)
    for table, order in DERIVED.items():
        if table == "rankers":
            _compare(f"SELECT {_WITHOUT_VERSION} FROM rankers ORDER BY {order}", db, again)
        elif table not in ("rankings", "events"):
            _compare(f"SELECT * FROM {table} ORDER BY {order}", db, again)
    names = "SELECT name FROM rankers {} WHERE died IS NULL ORDER BY name"
    by_index = db.execute(names.format("INDEXED BY rankers_alive")).fetchall()
    if by_index != again.execute(names.format("NOT INDEXED")).fetchall():
        raise LogDamagedError(f"the log's index of rankers does not fit its table. {_COPY}")
    again.close()
    _compare_versions(db)


def _compare_versions(db: apsw.Connection) -> None:
    """A ranker's version is that of its last batch, which compaction keeps."""
    rankers: list[Any] = db.execute("SELECT birth, name, died, version FROM rankers").fetchall()
    for birth, name, died, version in rankers:
        end = died or tail_of(db).position
        last = "(SELECT max(position) FROM records WHERE ranker = ?1 AND kind = 'batch' "
        where = f"WHERE position = {last} AND position BETWEEN ?2 AND ?3)"
        found = [one.header["version"] for one in select(db, where, (name, birth, end))]
        if [version] != (found or [0]):
            raise LogDamagedError(
                f'the log says version {version} of ranker "{name}", but its last batch says '
                f"{found or 'nothing'}. {_COPY}"
            )


def verify_end(db: apsw.Connection, most: int) -> Head:
    """Check the last records and that none of them is missing; the end of the log.

    Older ones are checked when they are read. The derived tables are not compared.
    """
    tail = tail_of(db)
    if most <= 0:
        return tail
    before = tail.position - most
    records = (
        walk(db) if before <= 0 else select(db, "WHERE position > ? ORDER BY position", (before,))
    )
    counts: Counter[str] = Counter()
    for record in records:
        tail = Head(record.position, record.chain)
        counts[record.ranker] += 1
    _compare_index(db, max(before, 0), counts)
    return tail


def _compare_index(db: apsw.Connection, after: int, counts: Mapping[str, int]) -> None:
    """A record that is in the log, but not in the index of its ranker, would never be replayed."""
    for ranker, count in counts.items():
        found = db.execute(
            "SELECT count(*) FROM records INDEXED BY records_by_ranker "
            "WHERE ranker = ? AND position > ?",
            (ranker, after),
        ).get
        if found != count:
            raise LogDamagedError(
                f'the log\'s index finds {found} of {count} records of ranker "{ranker}" behind '
                f"position {after}. {_COPY}"
            )


def walk(db: apsw.Connection) -> Iterator[Record]:
    """All records in log order, each checked; only what the last compaction lists is missing."""
    gaps = _gaps(db)
    tail = Head(0, chain.GENESIS)
    rows = db.execute(
        "SELECT position, kind, ranker, at_ms, body, chain FROM records ORDER BY position"
    )
    for row in rows:
        if tail.position + 1 in gaps:
            tail = gaps[tail.position + 1]
        if row[0] != tail.position + 1:
            raise LogDamagedError(
                f"log position {tail.position + 1}: the record is missing. {_COPY}"
            )
        record = checked(row, tail.chain)
        tail = Head(record.position, record.chain)
        yield record


def _gaps(db: apsw.Connection) -> dict[int, Head]:
    """The end of each gap by its first position, as the last compact record says."""
    body = db.execute(
        "SELECT body FROM records WHERE ranker = '' AND kind = ? ORDER BY position DESC LIMIT 1",
        (Kind.COMPACT.value,),
    ).get
    if body is None:
        return {}
    gaps = Record(0, Kind.COMPACT, "", 0, body, b"").header["gaps"]
    return {first: Head(last, bytes.fromhex(value)) for first, last, value in gaps}


def _compare(text: str, db: apsw.Connection, again: apsw.Connection) -> None:
    for here, derived in zip_longest(db.execute(text), again.execute(text)):
        if here != derived:
            raise LogDamagedError(
                f"a derived table of the log does not follow from its records: {here} stands "
                f"where {derived} should. {_COPY}"
            )


def compare_head(db: apsw.Connection, path: Path, head: Head, tail: Head) -> None:
    """Hold the log against the head file: what was acknowledged must be there."""
    if head.position > tail.position:
        raise LogDamagedError(
            f"{path}: the log ends at position {tail.position}, but records up to {head.position} "
            "were acknowledged: they are lost. Bring the data folder back from a copy."
        )
    there = db.execute(
        "SELECT chain FROM records WHERE position = ?1 UNION ALL "
        "SELECT chain FROM gaps WHERE last = ?1",
        (head.position,),
    ).get
    dropped = db.execute(
        "SELECT count(*) FROM gaps WHERE first <= ?1 AND last > ?1", (head.position,)
    ).get
    if head.position and there != head.chain and not dropped:
        raise LogDamagedError(
            f"{path}: the record at position {head.position} is not the one that was acknowledged: "
            "log and head file do not belong together. Bring the data folder back from a copy."
        )
