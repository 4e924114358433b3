"""The cache: the same set, faster; damage is noticed; nothing depends on it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from olrank.data import cache as cache_module
from olrank.data import letor
from olrank.data.cache import cache_folder, file_checksum
from olrank.data.letor import read_letor
from olrank.data.problems import SkippedLines
from olrank.types import Dataset

TEXT = "2 qid:10 1:0.5 3:1\n0 qid:10 2:-7.25\n1 qid:é 1:1e-3\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "train.txt"
    path.write_text(TEXT, "utf-8")
    os.utime(path, (1_000_000_000, 1_000_000_000))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def parses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each time that text was parsed."""
    calls: list[int] = []
    real = letor.read_table

    def counted(*args: object) -> object:
        calls.append(1)
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(letor, "read_table", counted)
    return calls


def assert_same(one: Dataset, other: Dataset) -> None:
    np.testing.assert_array_equal(one.features, other.features)
    np.testing.assert_array_equal(one.grades, other.grades)
    np.testing.assert_array_equal(one.offsets, other.offsets)
    assert list(one.query_ids) == list(other.query_ids)
    assert (one.checksum, one.max_grade, one.name) == (other.checksum, other.max_grade, other.name)


def place_of(folder: Path) -> Path:
    (place,) = (folder / "sets").iterdir()
    return place


def test_a_second_load_parses_nothing_and_gives_the_same_set(
    file: Path, folder: Path, parses: list[int]
) -> None:
    plain = read_letor(file, cache=False)
    first = read_letor(file, cache=folder)
    second = read_letor(file, cache=folder)
    assert len(parses) == 2
    assert_same(first, plain)
    assert_same(second, plain)


def test_cached_features_are_mapped_from_disk_and_cannot_be_written(
    file: Path, folder: Path
) -> None:
    read_letor(file, cache=folder)
    features = read_letor(file, cache=folder).features
    assert isinstance(features.base, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        features[0, 0] = 1.0


def test_an_uncached_set_cannot_be_written_either(file: Path) -> None:
    with pytest.raises(ValueError, match="read-only"):
        read_letor(file, cache=None).grades[0] = 1


def test_other_content_is_another_set(file: Path, folder: Path) -> None:
    before = read_letor(file, cache=folder)
    file.write_text(TEXT.replace("0.5", "0.6"), "utf-8")
    after = read_letor(file, cache=folder)
    assert after.features[0, 0] == np.float32(0.6)
    assert before.checksum != after.checksum


def test_other_options_are_another_set(file: Path, folder: Path) -> None:
    narrow = read_letor(file, cache=folder)
    wide = read_letor(file, cache=folder, n_features=9)
    assert (narrow.n_features, wide.n_features) == (3, 9)
    assert narrow.checksum != wide.checksum


def test_the_same_content_elsewhere_is_the_same_set(
    file: Path, folder: Path, tmp_path: Path, parses: list[int]
) -> None:
    copy = tmp_path / "copy.txt"
    copy.write_bytes(file.read_bytes())
    first, second = read_letor(file, cache=folder), read_letor(copy, cache=folder)
    assert first.checksum == second.checksum
    assert (first.name, second.name) == ("train", "copy")
    assert len(parses) == 1


def test_a_known_file_is_not_hashed_again(
    file: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checksum = file_checksum(file, folder)
    monkeypatch.setattr(cache_module.hashlib, "file_digest", None)
    assert file_checksum(file, folder) == checksum


def test_a_file_that_was_just_written_is_hashed_again(file: Path, folder: Path) -> None:
    os.utime(file)
    file_checksum(file, folder)
    assert not (folder / "checksums").exists()


def test_a_damaged_checksum_is_not_believed(file: Path, folder: Path) -> None:
    checksum = file_checksum(file, folder)
    (known,) = (folder / "checksums").iterdir()
    known.write_text("rubbish")
    assert file_checksum(file, folder) == checksum


@pytest.mark.parametrize("name", ["features.npy", "grades.npy", "offsets.npy", "about.json"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "gone"])
def test_a_damaged_set_is_read_again_and_replaced(
    file: Path, folder: Path, parses: list[int], name: str, damage: str
) -> None:
    first = read_letor(file, cache=folder)
    path = place_of(folder) / name
    data = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    else:
        data[-2] ^= 0x01
        path.write_bytes({"cut": data[: len(data) // 2], "flipped": data, "empty": b""}[damage])
    again = read_letor(file, cache=folder)
    assert len(parses) == 2
    np.testing.assert_array_equal(again.features, read_letor(file, cache=False).features)
    assert_same(read_letor(file, cache=folder), again)
    assert len(parses) == 3  # the one without cache; the replaced set is good
    assert first.checksum == again.checksum


def test_nothing_unfinished_is_left_behind(file: Path, folder: Path) -> None:
    read_letor(file, cache=folder)
    names = sorted(path.name for path in place_of(folder).iterdir())
    assert names == ["about.json", "features.npy", "grades.npy", "offsets.npy"]


def test_a_write_that_fails_in_the_middle_leaves_no_set(
    file: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache_module.np, "save", full)
    assert read_letor(file, cache=folder).n_rows == 3
    assert list((folder / "sets").iterdir()) == []


def test_a_folder_that_cannot_be_written_is_done_without(file: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "a_file"
    blocked.write_text("not a folder")
    assert_same(read_letor(file, cache=blocked), read_letor(file, cache=False))
    assert blocked.read_text() == "not a folder"


def test_skipped_lines_are_reported_from_the_cache_too(file: Path, folder: Path) -> None:
    file.write_text(TEXT + "0 1:1\n", "utf-8")
    reports: list[SkippedLines] = []
    for _ in range(2):
        read_letor(file, cache=folder, bad_lines="skip", report=reports.append)
    assert reports[0] == reports[1]
    assert dict(reports[1].by_reason) == {"missing qid": 1}


def test_the_environment_moves_the_default_folder(
    file: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLRANK_CACHE", str(folder))
    read_letor(file)
    assert (place_of(folder) / "features.npy").is_file()


def test_the_default_folder_is_the_users_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OLRANK_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    monkeypatch.setattr(cache_module.sys, "platform", "linux")
    assert cache_folder(True) == Path("/somewhere/olrank")
    assert cache_folder(False) is None
    assert cache_folder(None) is None
    assert cache_folder("here") == Path("here")


def test_a_set_larger_than_the_samples_is_checked_all_over(tmp_path: Path) -> None:
    path = tmp_path / "large.npy"
    size = 2 * cache_module._SAMPLE_BYTES * cache_module._MAX_SAMPLES
    path.write_bytes(bytes(size))
    whole = cache_module._fingerprint(path)
    with path.open("r+b") as large:
        large.seek(size // 3)
        large.write(b"\x01" * 2 * cache_module._SAMPLE_BYTES)
    assert cache_module._fingerprint(path) != whole


def test_about_json_is_plain_text_that_a_person_can_read(file: Path, folder: Path) -> None:
    read_letor(file, cache=folder)
    text = (place_of(folder) / "about.json").read_text("utf-8").partition("\n")[2]
    assert json.loads(text)["query_ids"] == ["10", "é"]
