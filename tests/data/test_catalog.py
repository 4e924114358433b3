"""The records of the public sets, and telling whether a folder holds one."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from olrank.data import catalog
from olrank.data.catalog import check, info
from olrank.data.describe import describe
from olrank.data.public import SETS, Count, public_set
from olrank.errors import ConfigError, DataError
from olrank.types import Dataset


def rows(first_query: int, count: Count, width: int, top: int = 2) -> str:
    """So many queries and documents, the first query with all that are too many for one each."""
    sizes = [count.documents - count.queries + 1] + [1] * (count.queries - 1)
    return "".join(
        f"{top if query == 0 else 0} qid:{first_query + query} 1:0.5 {width}:1\n"
        for query, size in enumerate(sizes)
        for _ in range(size)
    )


def write_mq2008(folder: Path) -> None:
    for n in range(1, 6):
        count = SETS["MQ2008"].counts[f"S{n}"]
        text = rows(1000 * n, count, 46)
        (folder / f"S{n}.txt.gz").write_bytes(gzip.compress(text.encode(), 1))


@pytest.mark.parametrize("name", SETS)
def test_the_parts_of_a_record_sum_to_the_whole(name: str) -> None:
    record = public_set(name)
    groups = {
        "split": [c for label, c in record.counts.items() if not label.startswith("S")],
        "parts": [c for label, c in record.counts.items() if label.startswith("S")],
    }
    whole = [group for group in groups.values() if len(group) in (3, 5)]
    assert whole
    for group in whole:
        assert sum(count.queries for count in group) == record.whole.queries
        assert sum(count.documents for count in group) == record.whole.documents


@pytest.mark.parametrize("name", SETS)
def test_a_record_says_where_the_set_comes_from_and_under_which_terms(name: str) -> None:
    record = public_set(name)
    assert record.page.startswith("https://")
    assert all([record.owner, record.licence, record.citation, record.files, record.folds])


def test_an_unknown_set_is_told_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match='Did you mean "MQ2008"'):
        public_set("MQ2009")


def test_a_whole_set_is_recognised_and_found_complete(tmp_path: Path) -> None:
    write_mq2008(tmp_path)
    report = check(tmp_path, cache=tmp_path / "cache")
    assert report.ok
    assert report.lines()[-1] == f"{tmp_path}: MQ2008, complete, all counts as published."
    assert "fine     S2: 157 queries, 3,635 documents" in report.lines()
    assert "fine     all files: 784 queries, 15,211 documents" in report.lines()


def test_a_missing_part_makes_a_set_partial(tmp_path: Path) -> None:
    write_mq2008(tmp_path)
    (tmp_path / "S3.txt.gz").unlink()
    report = check(tmp_path, cache=False)
    assert not report.ok
    assert report.sets[0].verdict == "partial"
    assert "missing  S3 is not there" in report.lines()
    text = f"{784 - 157} of 784 queries, {15_211 - 3_062:,} of 15,211 documents"
    assert f"missing  all files: {text}" in report.lines()
    assert "only a part of it" in report.lines()[-1]


def test_missing_rows_make_a_set_partial_and_name_the_file(tmp_path: Path) -> None:
    write_mq2008(tmp_path)
    (tmp_path / "S1.txt.gz").unlink()
    (tmp_path / "S1.txt").write_text(rows(1000, Count(157, 2_900), 46))
    report = check(tmp_path, cache=False)
    text = "S1: 157 of 157 queries, 2,900 of 2,933 documents"
    assert f"missing  {text}" in report.lines()
    assert report.sets[0].verdict == "partial"


def test_rows_too_many_make_a_set_different(tmp_path: Path) -> None:
    write_mq2008(tmp_path)
    (tmp_path / "S1.txt.gz").unlink()
    (tmp_path / "S1.txt").write_text(rows(1000, Count(157, 3_000), 46))
    report = check(tmp_path, cache=False)
    assert report.sets[0].verdict == "different"
    assert report.lines()[-1].endswith("resembles MQ2008, but is not the set that was published.")


def test_grades_above_the_scale_make_a_set_different(tmp_path: Path) -> None:
    write_mq2008(tmp_path)
    (tmp_path / "S1.txt.gz").unlink()
    (tmp_path / "S1.txt").write_text(rows(1000, Count(157, 2_933), 46, top=4))
    report = check(tmp_path, cache=False)
    assert report.sets[0].verdict == "different"
    assert "wrong    grades 0 to 4, published: 2" in report.lines()


def test_folds_are_checked_one_by_one(tmp_path: Path) -> None:
    for n in range(1, 5):
        folder = tmp_path / "MQ2008" / f"Fold{n}"
        folder.mkdir(parents=True)
        for i, part in enumerate(("train", "vali", "test")):
            count = SETS["MQ2008"].counts[f"Fold1/{part}"]
            (folder / f"{part}.txt").write_text(rows(1000 * i, count, 46))
    report = check(tmp_path / "MQ2008", cache=False)
    assert "fine     Fold1/train: 471 queries, 9,630 documents" in report.lines()
    assert "fine     Fold4: 784 queries, 15,211 documents" in report.lines()
    assert "missing  Fold5 is not there" in report.lines()
    assert report.sets[0].verdict == "partial"
    outside = check(tmp_path, cache=False)  # the only folder with data inside is found
    assert outside.sets[0].findings == report.sets[0].findings


def test_yahoos_two_sets_are_told_apart_by_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = {"train": Count(4, 9), "valid": Count(2, 3), "test": Count(3, 5)}
    for name in ("set1", "set2"):
        counts = {f"{name}.{part}": count for part, count in tiny.items()}
        record = SETS[f"Yahoo-{name}"]._replace(counts=counts, whole=Count(4 + 2 + 3, 9 + 3 + 5))
        monkeypatch.setitem(catalog.SETS, record.name, record)
        for part, count in tiny.items():
            width = 699 if name == "set1" else 700  # zeros are left out: narrower is no fault
            (tmp_path / f"{name}.{part}.txt").write_text(rows(10, count, width, top=4))
    report = check(tmp_path, cache=False)
    assert [one.public_set.name for one in report.sets if one.public_set] == [
        "Yahoo-set1",
        "Yahoo-set2",
    ]
    assert report.ok


def test_a_folder_that_is_no_public_set_is_told(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("1 qid:1 1:1 33:2\n")
    report = check(tmp_path, cache=False)
    assert not report.ok
    assert report.sets[0].verdict == "unknown"
    assert "none of the public sets" in report.lines()[-1]


def test_a_folder_without_data_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no data set is recognised here"):
        check(tmp_path, cache=False)


TOY = Dataset(
    "toy",
    np.array([[1, 5, 0], [2, 5, -1], [3, 5, 0], [4, 5, 0]], dtype=np.float32),
    np.array([0, 2, 0, 0], dtype=np.int32),
    np.array([0, 3, 4]),
    ["a", "b"],
    max_grade=2,
)


def test_the_facts_of_a_set_are_counted() -> None:
    facts = describe(TOY)
    assert (facts.queries, facts.documents, facts.features) == (2, 4, 3)
    assert facts.grades == (3, 0, 1)
    assert facts.lengths == (1, (3 + 1) / 2, 2.0, 3)
    assert facts.without_relevant == 1
    assert facts.constant_features == (2,)
    assert facts.values == (-1, 5)


def test_info_says_the_facts_in_lines() -> None:
    lines = info(replace(TOY, name="mine"))
    assert lines[0] == "mine"
    assert any(
        "grades" in line and "0: 3 (75.0%), 1: 0 (0.0%), 2: 1 (25.0%)" in line for line in lines
    )
    assert any("1 to 3, mean 2.0, median 2" in line for line in lines)


def test_the_real_mq2008_is_complete(data_dir: Path) -> None:
    report = check(data_dir / "MQ2008", cache=False)
    assert report.ok, report.lines()


@pytest.mark.parametrize(
    ("folder", "name", "found"),
    [
        ("MQ2007_partial", "MQ2007", "1,692 of 1,692 queries, 59,135 of 69,623 documents"),
        ("MSLR_sample", "MSLR-WEB10K", "192 of 10,000 queries, 20,905 of 1,200,192 documents"),
    ],
)
def test_the_real_samples_are_recognised_as_partial(
    data_dir: Path, folder: str, name: str, found: str
) -> None:
    (report,) = check(data_dir / folder, cache=False).sets
    assert report.public_set is not None
    assert (report.public_set.name, report.verdict) == (name, "partial")
    assert any(found in line for line in report.lines())
