"""SQLite's tables: the records, and what is derived from them to answer questions quickly.

Only `records` is the log. The other tables follow from it: `derive` writes them in the transaction
that appends a record, and `verify` derives them again, from nothing, and compares.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import apsw

from olrank.errors import LogDamagedError
from olrank.service import chain
from olrank.service.decisions import Alive, Kept, Served
from olrank.service.records import Head, Kind, Record

APPLICATION_ID = 0x6F6C726B  # "olrk"
SCHEMA_VERSION = 1

RARE = "kind NOT IN ('ranking', 'feedback', 'close', 'batch')"
"""Records that are not about impressions, by their index."""

# The chain stands before the body, so that reading it does not touch the body's pages.
SCHEMA = f"""
CREATE TABLE records(
    position INTEGER PRIMARY KEY, kind TEXT NOT NULL, ranker TEXT NOT NULL, at_ms INTEGER NOT NULL,
    chain BLOB NOT NULL, body BLOB NOT NULL) STRICT;
CREATE INDEX records_by_ranker ON records(ranker);
CREATE INDEX records_batches ON records(ranker) WHERE kind = 'batch';
CREATE INDEX records_rare ON records(position) WHERE {RARE};
CREATE TABLE rankers(
    birth INTEGER PRIMARY KEY, name TEXT NOT NULL, died INTEGER, explore INTEGER NOT NULL,
    learn INTEGER NOT NULL, serve INTEGER NOT NULL, version INTEGER NOT NULL,
    compacted INTEGER NOT NULL) STRICT;
CREATE UNIQUE INDEX rankers_alive ON rankers(name) WHERE died IS NULL;
CREATE TABLE rankings(
    birth INTEGER NOT NULL, ranking_id TEXT NOT NULL, position INTEGER NOT NULL,
    digest TEXT NOT NULL, shown TEXT NOT NULL, served_ms INTEGER NOT NULL, last_event_ms INTEGER,
    wants_close INTEGER NOT NULL, closed INTEGER, closed_ms INTEGER,
    PRIMARY KEY(birth, ranking_id)) STRICT, WITHOUT ROWID;
CREATE INDEX rankings_open ON rankings(birth, served_ms) WHERE closed IS NULL;
CREATE INDEX rankings_heard ON rankings(birth, last_event_ms)
    WHERE closed IS NULL AND last_event_ms IS NOT NULL;
CREATE INDEX rankings_wanting ON rankings(birth, position)
    WHERE closed IS NULL AND wants_close = 1;
CREATE INDEX rankings_closed ON rankings(birth, closed) WHERE closed IS NOT NULL;
CREATE TABLE events(
    birth INTEGER NOT NULL, identity TEXT NOT NULL, digest TEXT NOT NULL, ranking_id TEXT NOT NULL,
    position INTEGER NOT NULL, PRIMARY KEY(birth, identity)) STRICT, WITHOUT ROWID;
CREATE INDEX events_by_ranking ON events(birth, ranking_id, position);
CREATE TABLE snapshots(
    birth INTEGER NOT NULL, snapshot_id TEXT NOT NULL, covers INTEGER NOT NULL,
    position INTEGER NOT NULL, forgotten INTEGER,
    PRIMARY KEY(birth, snapshot_id)) STRICT, WITHOUT ROWID;
CREATE TABLE gaps(first INTEGER PRIMARY KEY, last INTEGER NOT NULL, chain BLOB NOT NULL) STRICT;
CREATE INDEX gaps_by_last ON gaps(last);
CREATE TABLE claims(epoch INTEGER NOT NULL) STRICT;
"""

DERIVED = {
    "rankers": "birth",
    "rankings": "birth, ranking_id",
    "events": "birth, identity",
    "snapshots": "birth, snapshot_id",
    "gaps": "first",
    "claims": "epoch",
}
"""The derived tables and what orders their rows."""

_RECORD = """
SELECT position, kind, ranker, at_ms, body, chain, coalesce(
    (SELECT chain FROM records AS before WHERE before.position = here.position - 1),
    (SELECT chain FROM gaps WHERE last = here.position - 1)) FROM records AS here
"""


def select(db: apsw.Connection, condition: str, values: Sequence[Any] = ()) -> Iterator[Record]:
    """Records that fit a condition (our own SQL text, never a caller's), each one checked."""
    for *columns, before in db.execute(f"{_RECORD} {condition}", values):
        yield checked(columns, before)


def checked(columns: Sequence[Any], before: bytes | None) -> Record:
    """A record, if its place in the chain is right.

    Args:
        columns: position, kind, ranker, at_ms, body, chain.
        before: the chain's value before it; None where that record is missing.
    """
    position, kind, ranker, at_ms, body, value = columns
    if before is None and position == 1:
        before = chain.GENESIS
    if before is None:
        raise LogDamagedError(
            f"log position {position - 1}: the record is missing. Bring the data folder back from "
            "a copy."
        )
    try:
        record = Record(position, Kind(kind), ranker, at_ms, body, value)
        expected = chain.link(before, position, kind, ranker, at_ms, body)
    except (TypeError, ValueError, AttributeError, struct.error):
        expected = b""  # a flipped bit made something else of a column
    if expected != value:
        raise LogDamagedError(
            f"log position {position}: the record does not fit its checksum. Bring the data folder "
            "back from a copy."
        )
    return record


def tail_of(db: apsw.Connection) -> Head:
    """The end of the log."""
    row = db.execute(
        "SELECT position, chain FROM records WHERE position = (SELECT max(position) FROM records)"
    ).get
    return Head(0, chain.GENESIS) if row is None else Head(*row)


class Tables:
    """The tables of one connection, with the questions that decisions ask of them."""

    def __init__(self, db: apsw.Connection) -> None:
        """Use a connection; nothing is read yet."""
        self._db = db

    def alive(self, name: str) -> Alive | None:
        """The ranker that has this name now."""
        row = self._db.execute(
            "SELECT birth, learn, version, compacted FROM rankers WHERE name = ? AND died IS NULL",
            (name,),
        ).get
        return None if row is None else Alive(row[0], bool(row[1]), row[2], row[3])

    def served(self, birth: int, ranking_id: str) -> Served | None:
        """A ranking by its id."""
        row = self._db.execute(
            "SELECT position, digest, shown, closed, closed_ms FROM rankings "
            "WHERE birth = ? AND ranking_id = ?",
            (birth, ranking_id),
        ).get
        if row is None:
            return None
        position, digest, shown, closed, closed_ms = row
        if (closed is None) != (closed_ms is None):
            raise LogDamagedError(
                f'ranking "{ranking_id}": the log does not know whether it is closed. Bring the '
                "data folder back from a copy."
            )
        return Served(position, digest, json.loads(shown), closed)

    def event_digest(self, birth: int, identity: str) -> str | None:
        """The digest of a stored event."""
        digest: str | None = self._db.execute(
            "SELECT digest FROM events WHERE birth = ? AND identity = ?", (birth, identity)
        ).get
        return digest

    def event_positions(self, birth: int, ranking_id: str) -> list[int]:
        """Where the stored events of a ranking stand in the log."""
        rows = self._db.execute(
            "SELECT position FROM events WHERE birth = ? AND ranking_id = ? ORDER BY position",
            (birth, ranking_id),
        )
        return [row[0] for row in rows]

    def snapshot(self, birth: int, snapshot_id: str) -> Kept | None:
        """A recorded snapshot."""
        row = self._db.execute(
            "SELECT covers, forgotten FROM snapshots WHERE birth = ? AND snapshot_id = ?",
            (birth, snapshot_id),
        ).get
        return None if row is None else Kept(row[0], row[1] is None)

    def covers(self, birth: int) -> list[int]:
        """The positions that the ranker's kept snapshots cover."""
        rows = self._db.execute(
            "SELECT covers FROM snapshots WHERE birth = ? AND forgotten IS NULL", (birth,)
        )
        return [row[0] for row in rows]

    def epoch(self) -> int:
        """The epoch of the last claim; 0 before the first."""
        return int(self._db.execute("SELECT coalesce(max(epoch), 0) FROM claims").get)

    def record(self, position: int) -> Record:
        """One record."""
        for found in select(self._db, "WHERE position = ?", (position,)):
            return found
        raise LogDamagedError(
            f"log position {position}: the record is missing. Bring the data folder back from a "
            "copy."
        )

    def derive(self, record: Record, header: Mapping[str, Any]) -> None:
        """Write all that follows from a record."""
        at = record.position
        if record.kind == Kind.CREATE:
            self._db.execute(
                "INSERT INTO rankers VALUES(?, ?, NULL, 1, 1, 1, 0, 0)", (at, record.ranker)
            )
        elif record.kind == Kind.CLAIM:
            self._db.execute("DELETE FROM claims")
            self._db.execute("INSERT INTO claims VALUES(?)", (header["epoch"],))
        elif record.kind == Kind.COMPACT:
            self._derive_compact(header)
        else:
            alive = self.alive(record.ranker)
            if alive is None:
                raise LogDamagedError(
                    f"log position {at}: a {record.kind} record of a ranker that never began. "
                    "Bring the data folder back from a copy."
                )
            self._derive_ranker(record, header, alive.birth)

    def _derive_ranker(self, record: Record, header: Mapping[str, Any], birth: int) -> None:
        at, run = record.position, self._db.execute
        match record.kind:
            case Kind.DELETE:
                run("UPDATE rankers SET died = ? WHERE birth = ?", (at, birth))
            case Kind.SWITCH:
                given = [header["switches"].get(name) for name in ("explore", "learn", "serve")]
                run(
                    "UPDATE rankers SET explore = coalesce(?, explore), learn = coalesce(?, learn),"
                    " serve = coalesce(?, serve) WHERE birth = ?",
                    (*given, birth),
                )
            case Kind.BATCH:
                run("UPDATE rankers SET version = ? WHERE birth = ?", (header["version"], birth))
            case Kind.SNAPSHOT | Kind.IMPORT:
                run(
                    "INSERT INTO snapshots VALUES(?, ?, ?, ?, NULL)",
                    (birth, header["snapshot_id"], header["covers"], at),
                )
            case Kind.FORGET:
                run(
                    "UPDATE snapshots SET forgotten = ? WHERE birth = ? AND snapshot_id = ?",
                    (at, birth, header["snapshot_id"]),
                )
            case Kind.RANKING | Kind.FEEDBACK | Kind.CLOSE:
                self._derive_impression(record, header, birth)
            case _:
                pass  # promote: only the learner reads it

    def _derive_impression(self, record: Record, header: Mapping[str, Any], birth: int) -> None:
        at, at_ms, run = record.position, record.at_ms, self._db.execute
        ranking_id = header["ranking_id"]
        if record.kind == Kind.RANKING:
            run(
                "INSERT INTO rankings VALUES(?, ?, ?, ?, ?, ?, NULL, 0, NULL, NULL)",
                (birth, ranking_id, at, header["digest"], json.dumps(header["shown"]), at_ms),
            )
        elif record.kind == Kind.FEEDBACK:
            run(
                "INSERT INTO events VALUES(?, ?, ?, ?, ?)",
                (birth, header["event_id"], header["digest"], ranking_id, at),
            )
            run(
                "UPDATE rankings SET last_event_ms = ?, wants_close = max(wants_close, ?) "
                "WHERE birth = ? AND ranking_id = ?",
                (at_ms, int(header["close"]), birth, ranking_id),
            )
        else:
            run(
                "UPDATE rankings SET closed = ?, closed_ms = ? WHERE birth = ? AND ranking_id = ?",
                (at, at_ms, birth, ranking_id),
            )

    def _derive_compact(self, header: Mapping[str, Any]) -> None:
        self._db.execute("DELETE FROM gaps")
        self._db.executemany(
            "INSERT INTO gaps VALUES(?, ?, ?)",
            [(first, last, bytes.fromhex(value)) for first, last, value in header["gaps"]],
        )
        self._db.executemany(
            "UPDATE rankers SET compacted = ? WHERE birth = ?",
            [(position, int(birth)) for birth, position in header["covered"].items()],
        )
