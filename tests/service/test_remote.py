"""The log through a pipe, beyond what the contract asks of every log."""

import threading
from multiprocessing import Pipe
from pathlib import Path

import pytest

from olrank.errors import LogDamagedError, LogUnavailableError
from olrank.service import codec
from olrank.service.remote import connect, decode, encode, serve
from olrank.service.sqlite import SqliteLog, SqliteReader


def test_only_the_calls_of_a_log_can_be_made_through_the_pipe(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path)
    here, there = Pipe()
    thread = threading.Thread(target=serve, args=(log, here))
    thread.start()
    for name in ("close", "_writer", "__class__", "verify"):
        there.send_bytes(encode([name, [], {}]))
        outcome, kind, text = decode(there.recv_bytes())
        assert (outcome, kind) == ("failed", "LogRefusedError")
        assert name in text
    there.close()
    thread.join()
    assert log.create_ranker("shop", {}).result().outcome == "stored"
    log.close()
    here.close()


def test_when_the_owner_hangs_up_nothing_is_acknowledged(tmp_path: Path) -> None:
    SqliteLog(tmp_path).close()
    here, there = Pipe()
    remote = connect(there, SqliteReader(tmp_path))
    here.close()
    with pytest.raises(LogUnavailableError, match="hung up"):
        remote.claim().result()
    remote.close()


def test_no_other_classes_than_records_are_made_from_bytes() -> None:
    for value in (["record", "Path", ["map", []]], ["enum", "Path", "x"], ["spell", "x"]):
        with pytest.raises(LogDamagedError):
            decode(codec.encode({"value": value}, {}))
