"""Models from snapshots and records: the same from any start, and a damaged file is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest
from service.running import Service

from olrank.errors import CheckpointError, LogDamagedError
from olrank.service import snapshots
from olrank.service.recover import recover
from olrank.service.sqlite import SqliteReader


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A service's folder with two snapshots and records behind each."""
    place = tmp_path_factory.mktemp("recover")
    with Service(place) as service:
        service.create("a", "olranknet")
        for seed in range(2):
            service.teach("a", 4, seed)
            service.client.take_snapshot("a")
        service.teach("a", 3, 9)
    return place


def test_every_start_ends_at_the_same_model(folder: Path):
    log = SqliteReader(folder)
    row, said = log.rankers()[0], []
    end = log.head().position
    digests = {
        recover(log, folder, row, end, from_start=from_start, say=said.append).digest()
        for from_start in (True, False)
    }
    assert (len(digests), said) == (1, [])
    kept = log.snapshots("a")
    assert len(kept) == 3
    for one in kept:  # every snapshot is what its own records make
        model = recover(log, folder, row, one.covers, from_start=True)
        assert model.digest() == one.record.header["digest"]
        assert (model.version, model.n_trained) == (
            one.record.header["version"],
            one.record.header["n_trained"],
        )
    log.close()


def test_a_damaged_snapshot_is_told_and_an_older_one_used(folder: Path):
    log = SqliteReader(folder)
    row, end = log.rankers()[0], log.head().position
    expected = recover(log, folder, row, end).digest()
    newest = log.snapshots("a")[-1]
    place = snapshots.path(folder, row.birth, newest.snapshot_id)
    content = place.read_bytes()
    said: list[str] = []
    try:
        place.write_bytes(content[:-1] + bytes([content[-1] ^ 4]))
        assert recover(log, folder, row, end, say=said.append).digest() == expected
        assert len(said) == 1
        assert "its checksum is wrong" in said[0]
        place.write_bytes(content[: len(content) // 2])
        assert recover(log, folder, row, end, say=said.append).digest() == expected
        place.unlink()
        assert recover(log, folder, row, end, say=said.append).digest() == expected
        assert len(said) == 3
    finally:
        place.write_bytes(content)
    log.close()


def test_compacted_records_without_a_snapshot_are_an_error(folder: Path, tmp_path: Path):
    from dataclasses import replace

    log = SqliteReader(folder)
    row = replace(log.rankers()[0], compacted=log.head().position)
    with pytest.raises(LogDamagedError, match="no snapshot that covers them can be read"):
        recover(log, tmp_path, row, log.head().position)
    log.close()


@pytest.mark.parametrize("bad", ["../x", "a/b", "", "A", "x" * 65, "a\0"])
def test_a_path_is_never_made_from_what_a_client_sent(bad: str, tmp_path: Path):
    with pytest.raises(CheckpointError, match="not an id of this service"):
        snapshots.path(tmp_path, 1, bad)


def test_files_that_no_record_names_are_swept_away(tmp_path: Path):
    kept, stray = (snapshots.path(tmp_path, 7, one) for one in ("aa-1", "bb-2"))
    dead = snapshots.path(tmp_path, 8, "aa-1")
    for place in (kept, stray, dead, kept.with_name(".cc.part"), kept.with_suffix(".pinned")):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    gone = snapshots.sweep(tmp_path, {7: {"aa-1"}})
    assert sorted(gone) == sorted([stray, dead, kept.with_name(".cc.part")])
    assert kept.exists()
    assert kept.with_suffix(".pinned").exists()
