"""The group-file form: rows in one file, sizes in another."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file

from olrank.data.groups import read_groups
from olrank.data.problems import SkippedLines
from olrank.errors import DataError

ROWS = "2 1:0.5 3:1\n0 2:4 # note\n1 1:0.25\n"


def write(folder: Path, rows: str, sizes: str) -> tuple[Path, Path]:
    paths = folder / "rank.train", folder / "rank.train.query"
    paths[0].write_text(rows)
    paths[1].write_text(sizes)
    return paths


def error_of(paths: tuple[Path, Path], **options: object) -> str:
    with pytest.raises(DataError) as caught:
        read_groups(*paths, cache=False, **options)  # type: ignore[arg-type]
    return str(caught.value)


def test_sizes_cut_the_rows_into_queries(tmp_path: Path) -> None:
    data = read_groups(*write(tmp_path, ROWS, "2\n1\n"), cache=False)
    assert data.features.tolist() == [[0.5, 0, 1], [0, 4, 0], [0.25, 0, 0]]
    assert data.grades.tolist() == [2, 0, 1]
    assert data.offsets.tolist() == [0, 2, 3]
    assert list(data.query_ids) == ["1", "2"]
    assert (data.name, data.max_grade) == ("rank.train", 2)


def test_features_can_be_numbered_from_zero(tmp_path: Path) -> None:
    paths = write(tmp_path, "1 0:5 2:7\n", "1\n")
    assert read_groups(*paths, first_index=0, cache=False).features.tolist() == [[5, 0, 7]]
    assert error_of(paths).startswith(f"{paths[0]}, line 1: the feature index 0 is below 1.")


def test_sizes_that_do_not_sum_to_the_rows_are_told(tmp_path: Path) -> None:
    rows, sizes = paths = write(tmp_path, ROWS, "2\n2\n")
    assert error_of(paths) == (
        f"{sizes}, line 2: the 2 sizes sum to {2 + 2}, but {rows} has 3 rows.\n"
        "  Check that the two files belong together."
    )


@pytest.mark.parametrize("bad", ["0", "-1", "1.5", "x", "", "1 2"])
def test_a_size_that_is_no_whole_number_from_1_is_told(tmp_path: Path, bad: str) -> None:
    _, sizes = paths = write(tmp_path, ROWS, f"2\n{bad}\n1\n")
    for mode in ("error", "skip"):
        assert error_of(paths, bad_lines=mode) == (
            f'{sizes}, line 2: expected the number of rows of a query, found "{bad}".\n'
            "  Write one whole number from 1 up a line."
        )


def test_a_bad_row_is_told_as_in_letor_files(tmp_path: Path) -> None:
    rows, _ = paths = write(tmp_path, "2 1:0.5\n1 1:nan\n", "2\n")
    assert error_of(paths).startswith(
        f'{rows}, line 2: the value of feature 1, "nan" is not a finite number.'
    )


def test_a_qid_in_the_rows_is_told(tmp_path: Path) -> None:
    rows, _ = paths = write(tmp_path, "2 qid:1 1:0.5\n", "1\n")
    assert error_of(paths).startswith(f'{rows}, line 1: "qid:1" stands in a file whose groups')


def test_a_skipped_row_leaves_its_own_group_smaller(tmp_path: Path) -> None:
    rows = "0 1:1\n0 1:x\n\n0 1:3\n0 1:y\n-1 1:5\n0 1:6\n"
    reports: list[SkippedLines] = []
    paths = write(tmp_path, rows, "2\n1\n2\n1\n")
    data = read_groups(*paths, cache=False, bad_lines="skip", report=reports.append)
    assert data.features[:, 0].tolist() == [1, 3, 6]
    assert list(data.query_ids) == ["1", "2", "4"]  # both rows of query 3 are bad
    assert data.offsets.tolist() == [0, 1, 2, 3]
    assert dict(reports[0].by_reason) == {"not a number": 2, "bad grade": 1}


def test_the_cache_sees_both_files(tmp_path: Path) -> None:
    paths = write(tmp_path, ROWS, "2\n1\n")
    folder = tmp_path / "cache"
    assert read_groups(*paths, cache=folder).offsets.tolist() == [0, 2, 3]
    assert read_groups(*paths, cache=folder).offsets.tolist() == [0, 2, 3]
    paths[1].write_text("1\n2\n")
    assert read_groups(*paths, cache=folder).offsets.tolist() == [0, 1, 3]


def test_an_empty_file_of_rows_or_sizes_is_told(tmp_path: Path) -> None:
    assert "the file is empty" in error_of(write(tmp_path, "", "1\n"))
    assert "the file is empty" in error_of(write(tmp_path, ROWS, ""))


@pytest.mark.parametrize(("part", "n_queries", "n_rows"), [("train", 201, 3005), ("test", 50, 768)])
def test_lightgbms_example_is_read_whole(
    data_dir: Path, tmp_path: Path, part: str, n_queries: int, n_rows: int
) -> None:
    rows = data_dir / "LightGBM_rank" / f"rank.{part}.xz"
    sizes = data_dir / "LightGBM_rank" / f"rank.{part}.query"
    data = read_groups(rows, sizes, cache=False)
    assert (data.n_queries, data.n_rows, data.max_grade) == (n_queries, n_rows, 4)
    plain = tmp_path / "plain.txt"
    plain.write_bytes(lzma.open(rows).read())
    expected, grades = load_svmlight_file(str(plain), n_features=data.n_features, zero_based=False)
    np.testing.assert_array_equal(data.features, expected.toarray().astype(np.float32))
    np.testing.assert_array_equal(data.grades, grades)
    assert data.sizes.tolist() == [int(line) for line in sizes.read_text().split()]
