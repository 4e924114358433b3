"""What only the SQLite store has: its folder, its lock, its files, and who tampered with them."""

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from service.histories import Ledger, live

from olrank.errors import (
    LogDamagedError,
    LogLockedError,
    LogRefusedError,
    LogUnavailableError,
    LogVersionError,
)
from olrank.service import sqlite_checkpoint, sqlite_open
from olrank.service.head import sync_folder
from olrank.service.log import CloseEntry, Event, RankingEntry
from olrank.service.sqlite import SqliteLog, SqliteReader

NOBODY = 65534


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A log that was closed in good order."""
    log = SqliteLog(tmp_path / "log")
    live(log, Ledger(), compacting=False)
    log.close()
    return tmp_path / "log"


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A folder that another user can reach; pytest's own cannot be."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def tamper(folder: Path, statement: str) -> None:
    db = apsw.Connection(str(folder / "log.db"))
    db.execute(statement)
    db.close()


def refused(folder: Path) -> str:
    with pytest.raises(LogDamagedError) as caught:
        SqliteLog(folder)
    return str(caught.value)


def test_a_log_goes_on_where_it_was_closed(folder: Path) -> None:
    with_head = SqliteReader(folder)
    before = with_head.head()
    with_head.close()
    log = SqliteLog(folder)
    assert log.head() == before
    record = log.create_ranker("next", {}).result().record
    assert record.position == before.position + 1
    assert log.verify() == log.head()
    log.close()


@pytest.mark.parametrize(
    ("statement", "where"),
    [
        ("UPDATE records SET body = zeroblob(length(body)) WHERE position = 7", "position 7"),
        ("UPDATE records SET at_ms = at_ms + 1 WHERE position = 7", "position 7"),
        ("UPDATE records SET kind = 'close' WHERE position = 7", "position 7"),
        ("UPDATE records SET kind = 'kind' WHERE position = 7", "position 7"),
        ("UPDATE records SET ranker = 'news' WHERE position = 7", "position 7"),
        ("DELETE FROM records WHERE position = 7", "position 7: the record is missing"),
        ("DELETE FROM records WHERE position = 1", "position 1: the record is missing"),
        (
            "UPDATE records SET position = CASE position WHEN 7 THEN -8 ELSE -7 END "
            "WHERE position IN (7, 8); UPDATE records SET position = -position WHERE position < 0",
            "position 7",
        ),
        (
            "INSERT INTO records SELECT (SELECT max(position) FROM records) + 1, kind, ranker, "
            "at_ms, chain, body FROM records WHERE position = 7",
            "does not fit its checksum",
        ),
        (
            "DELETE FROM records WHERE position > 20",
            "the log ends at position 20",
        ),
    ],
    ids=[
        "changed body",
        "changed time",
        "changed kind",
        "unknown kind",
        "changed ranker",
        "lost",
        "lost first",
        "swapped",
        "repeated",
        "lost end",
    ],
)
def test_a_changed_lost_swapped_or_repeated_record_is_found(
    folder: Path, statement: str, where: str
) -> None:
    tamper(folder, statement)
    assert where in refused(folder)


def test_a_reader_refuses_a_changed_record_too(folder: Path) -> None:
    tamper(folder, "UPDATE records SET at_ms = at_ms + 1 WHERE position = 7")
    reader = SqliteReader(folder)
    assert len(reader.read(0, 6)) == 6
    for ask in (lambda: reader.read(0), lambda: reader.read(6, 1), reader.verify):
        with pytest.raises(LogDamagedError, match="position 7"):
            ask()
    reader.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE rankings SET closed = NULL, closed_ms = NULL WHERE ranking_id = 'r0'",
        "UPDATE rankings SET last_event_ms = last_event_ms + 1 WHERE ranking_id = 'r0'",
        "DELETE FROM rankings WHERE ranking_id = 'r0'",
        "DELETE FROM events WHERE ranking_id = 'r0'",
        "UPDATE events SET digest = 'other' WHERE ranking_id = 'r0'",
        "UPDATE rankers SET learn = 0",
        "UPDATE rankers SET version = 9",
        "UPDATE snapshots SET covers = 1",
        "UPDATE claims SET epoch = 7",
    ],
)
def test_a_derived_table_that_does_not_follow_from_the_records_is_found(
    folder: Path, statement: str
) -> None:
    reader = SqliteReader(folder)
    reader.verify()
    tamper(folder, statement)
    with pytest.raises(LogDamagedError, match="does not follow from its records"):
        reader.verify()
    reader.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE rankings SET closed = NULL WHERE ranking_id = 'r0'",
        "UPDATE rankings SET closed = (SELECT closed FROM rankings WHERE ranking_id = 'r1') "
        "WHERE ranking_id = 'r0'",
        "UPDATE rankings SET closed = 1 WHERE ranking_id = 'r0'",
        "UPDATE rankings SET closed = 10000 WHERE ranking_id = 'r0'",
    ],
)
def test_a_wrong_pointer_to_a_close_is_found_when_it_is_followed(
    folder: Path, statement: str
) -> None:
    reader = SqliteReader(folder)
    assert reader.ranking("shop", "r0") is not None
    tamper(folder, statement)
    with pytest.raises(LogDamagedError):
        reader.ranking("shop", "r0")
    reader.close()


def test_what_was_closed_is_read_from_records_alone(folder: Path) -> None:
    reader = SqliteReader(folder)
    closes = [one for one in reader.read(0) if one.kind == "close"]
    before = [reader.closed(one) for one in closes]
    assert all(one.events for one in before)
    tamper(folder, "DELETE FROM rankings; DELETE FROM events; DELETE FROM rankers")
    assert [reader.closed(one) for one in closes] == before
    reader.close()


def test_records_beyond_those_checked_at_the_start_are_checked_when_read(folder: Path) -> None:
    tamper(folder, "UPDATE records SET at_ms = at_ms + 1 WHERE position = 7")
    log = SqliteLog(folder, check=10)
    assert log.read(20)
    with pytest.raises(LogDamagedError, match="position 7"):
        log.read(0)
    lost = log.head().position - 5
    log.close()
    tamper(folder, f"DELETE FROM records WHERE position = {lost}")
    with pytest.raises(LogDamagedError, match=f"position {lost}: the record is missing"):
        SqliteLog(folder, check=10)


def test_a_reader_can_be_opened_at_any_moment_beside_a_busy_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write-ahead log begins anew many times meanwhile."""
    monkeypatch.setattr(sqlite_checkpoint, "_WAL_PAGES", 30)
    log = SqliteLog(tmp_path)
    birth = log.create_ranker("shop", {}).result().record.position
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            log.append_ranking(RankingEntry("shop", birth, str(number), "d", ["a"])).result()
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(100):
            reader = SqliteReader(tmp_path, check=20)
            reader.close()
    finally:
        stop.set()
        writer.join()
    log.close()


def test_a_log_can_be_closed_while_its_write_ahead_log_is_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moving, woken = threading.Event(), threading.Event()
    move = sqlite_checkpoint.Checkpointer._move

    def slowly(self: sqlite_checkpoint.Checkpointer, db: apsw.Connection) -> None:
        if threading.current_thread() is self._thread:
            moving.set()
            assert woken.wait(60)  # until it is being closed, and was woken for it
        move(self, db)

    monkeypatch.setattr(sqlite_checkpoint, "_WAL_PAGES", 1)
    monkeypatch.setattr(sqlite_checkpoint.Checkpointer, "_move", slowly)
    log = SqliteLog(tmp_path)
    checkpointer = log._writer._checkpointer
    log.create_ranker("shop", {}).result()
    assert moving.wait(60)
    monkeypatch.setattr(
        checkpointer._wake, "set", lambda: (threading.Event.set(checkpointer._wake), woken.set())
    )
    closing = threading.Thread(target=log.close, daemon=True)
    closing.start()
    closing.join(30)
    assert not closing.is_alive()


def test_a_reader_refuses_a_log_that_lost_its_end(folder: Path) -> None:
    tamper(folder, "DELETE FROM records WHERE position > 20")
    with pytest.raises(LogDamagedError, match="the log ends at position 20"):
        SqliteReader(folder)


def test_a_name_that_only_the_index_has_wrong_is_found(folder: Path) -> None:
    raw = (folder / "log.db").read_bytes()
    places = [at for at in range(len(raw)) if raw.startswith(b"shop", at)]
    n_found = 0
    for at in places:
        (folder / "log.db").write_bytes(raw[:at] + b"shoq" + raw[at + 4 :])
        try:
            log = SqliteLog(folder)
        except LogDamagedError:
            n_found += 1
            continue
        # What is left are old copies in unused parts of pages.
        assert [row.name for row in log.rankers()] == ["shop"]
        assert log.verify()
        log.close()
    assert n_found > 10


def test_a_head_file_of_another_log_is_refused(folder: Path, tmp_path: Path) -> None:
    other = SqliteLog(tmp_path / "other")
    other.create_ranker("other", {}).result()
    other.close()
    shutil.copy(tmp_path / "other" / "head", folder / "head")
    assert "do not belong together" in refused(folder)


def test_a_missing_head_file_is_refused(folder: Path) -> None:
    (folder / "head").unlink()
    assert "the head file is gone" in refused(folder)


def test_a_missing_database_is_refused(folder: Path) -> None:
    (folder / "log.db").unlink()
    assert refused(folder)


def test_a_log_of_a_newer_version_is_refused_and_left_as_it_is(folder: Path) -> None:
    tamper(folder, "PRAGMA user_version = 2")
    before = (folder / "log.db").read_bytes()
    with pytest.raises(LogVersionError, match="newer olrank"):
        SqliteLog(folder)
    with pytest.raises(LogVersionError, match="newer olrank"):
        SqliteReader(folder)
    assert (folder / "log.db").read_bytes() == before


def test_a_file_that_is_no_log_is_refused(folder: Path) -> None:
    (folder / "log.db").write_bytes(b"not a database, but long enough to be one" * 100)
    assert "log.db" in refused(folder)


def test_the_names_of_new_folders_are_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []

    def note(folder: Path) -> None:
        synced.append(folder)
        sync_folder(folder)

    monkeypatch.setattr(sqlite_open, "sync_folder", note)
    SqliteLog(tmp_path / "new" / "log").close()
    assert {tmp_path, tmp_path / "new", tmp_path / "new" / "log"} <= set(synced)


def test_a_second_process_cannot_open_the_folder_for_writing(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path)
    with pytest.raises(LogLockedError, match="another process"):
        SqliteLog(tmp_path)
    log.close()
    SqliteLog(tmp_path).close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody with fewer rights")
def test_a_folder_that_cannot_be_written_to_is_refused(open_to_all: Path) -> None:
    log = SqliteLog(open_to_all / "log")
    log.create_ranker("shop", {}).result()
    log.close()
    os.seteuid(NOBODY)
    try:
        with pytest.raises(LogUnavailableError, match="cannot be written to"):
            SqliteLog(open_to_all / "log")
        with pytest.raises(LogUnavailableError, match="cannot be written to"):
            SqliteLog(open_to_all / "new")
    finally:
        os.seteuid(0)


def test_reading_where_there_is_no_log_says_so(tmp_path: Path) -> None:
    with pytest.raises(LogUnavailableError, match="no log here"):
        SqliteReader(tmp_path)


def test_a_request_that_was_given_up_before_its_turn_is_not_written(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path)
    gate = threading.Event()
    held = log._writer.ask(lambda tx: gate.wait())
    while log.backlog:  # until it is being decided
        pass
    given_up = log.create_ranker("given up", {})
    assert given_up.cancel()
    wanted = log.create_ranker("wanted", {})
    gate.set()
    held.result()
    wanted.result()
    assert [row.name for row in log.rankers()] == ["wanted"]
    log.close()


def test_a_request_that_fails_leaves_nothing_and_fails_alone(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path)
    birth = log.create_ranker("shop", {}).result().record.position
    gate = threading.Event()
    held = log._writer.ask(lambda tx: gate.wait())
    bad = log.create_ranker("bad", {"number": float("nan")})
    good = log.append_ranking(RankingEntry("shop", birth, "r", "d", ["a"]))
    gate.set()
    held.result()
    with pytest.raises(ValueError, match="JSON"):
        bad.result()
    assert good.result().record.position == birth + 1
    assert log.broken is None
    assert log.verify() == log.head()
    log.close()


def test_an_id_that_no_file_can_hold_is_refused(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path)
    birth = log.create_ranker("shop", {}).result().record.position
    with pytest.raises(LogRefusedError, match="UTF-8"):
        log.append_ranking(RankingEntry("shop", birth, "\ud800", "d", ["a"]))
    log.close()


def test_erased_records_leave_no_trace_in_any_file(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path)
    birth = log.create_ranker("shop", {}).result().record.position
    for name in ("SECRET-RANKING", "public-ranking"):
        header = {"query": f"{name}-query" * 500}  # over several pages
        log.append_ranking(RankingEntry("shop", birth, name, "d", ["a"], header)).result()
        log.append_feedback("shop", [Event(name, [("a", 1.0)], event_id=name)]).result()
    epoch = log.claim().result()
    closes = [CloseEntry(name, "client") for name in ("SECRET-RANKING", "public-ranking")]
    covers = log.append_batch(epoch, "shop", closes).result().position
    log.append_snapshot(epoch, "shop", "s", covers).result()
    assert holding(tmp_path, b"SECRET")
    log.compact({"shop": covers}, 0, {"shop": ["SECRET-RANKING"]}).result()
    log.claim().result()  # the writing thread has cleaned up when it takes the next request
    assert holding(tmp_path, b"public")
    assert not holding(tmp_path, b"SECRET")
    assert log.verify() == log.head()
    log.close()


def holding(folder: Path, text: bytes) -> list[str]:
    return [path.name for path in folder.iterdir() if text in path.read_bytes()]


def test_the_write_ahead_log_stays_small_under_steady_writing(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path)
    birth = log.create_ranker("shop", {}).result().record.position
    for number in range(400):
        entry = RankingEntry("shop", birth, str(number), "d", ["a"], {"filling": "x" * 50_000})
        log.append_ranking(entry).result()
    n_written = 400 * 50_000
    assert (tmp_path / "log.db-wal").stat().st_size < n_written
    log.close()
