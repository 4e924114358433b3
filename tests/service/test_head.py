"""The head file: two slots that take turns."""

from pathlib import Path

import pytest

from olrank.errors import LogDamagedError
from olrank.service.chain import GENESIS
from olrank.service.head import HeadFile, Mark, read_slots
from olrank.service.records import Head

ONE, TWO = Head(1, bytes([1] * 32)), Head(2, bytes([2] * 32))


def written(path: Path, *heads: Head) -> Path:
    file = HeadFile(path)
    for head in heads:
        file.write(head)
    file.close()
    return path


def newest(path: Path) -> Head:
    return read_slots(path)[1]


def test_the_mark_of_the_journal_is_kept_with_the_head(tmp_path: Path) -> None:
    file = HeadFile(tmp_path / "head")
    file.write(ONE, Mark(b"saltsalt", 7))
    file.close()
    assert read_slots(tmp_path / "head")[1:] == (ONE, Mark(b"saltsalt", 7))


def test_a_new_file_is_the_head_of_an_empty_log(tmp_path: Path) -> None:
    assert newest(written(tmp_path / "head")) == Head(0, GENESIS)


def test_the_last_head_that_was_written_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "head", ONE, TWO)
    assert newest(path) == TWO
    assert newest(written(path, ONE)) == ONE, "the newest, not the furthest"


def test_a_write_torn_at_any_byte_leaves_the_head_before_it_or_the_new_one(tmp_path: Path) -> None:
    path = written(tmp_path / "head", ONE)
    before = path.read_bytes()
    after = written(path, TWO).read_bytes()
    differing = [at for at in range(len(before)) if before[at] != after[at]]
    for end in range(differing[0], differing[-1] + 1):
        path.write_bytes(after[:end] + before[end:])
        assert newest(path) == ONE
    path.write_bytes(after)
    assert newest(path) == TWO


def test_without_a_whole_slot_it_is_damaged(tmp_path: Path) -> None:
    path = written(tmp_path / "head", ONE)
    path.write_bytes(bytes(8192))
    with pytest.raises(LogDamagedError, match="neither slot"):
        HeadFile(path)
