"""Rows come back as they were written, and nothing is ever half written."""

import json
import os
from pathlib import Path

import polars as pl
import pytest
from experiments.made_rows import made_rows

from olrank.errors import DataError
from olrank.experiments.rows import files


def test_settled_rows_keep_names_as_met_and_sort_numbers():
    rows = made_rows(rankers=("skyline", "olranknet"), users=("perfect", "informational"))
    settled = files.settle(rows.sort("seed", descending=True, maintain_order=True))
    assert settled["ranker"].unique(maintain_order=True).to_list() == ["skyline", "olranknet"]
    assert settled["user"].unique(maintain_order=True).to_list() == ["perfect", "informational"]
    assert settled["seed"][0] == 0
    assert settled.columns == [*files.KEYS, "conventions", "value"]


def test_equal_rows_are_written_as_equal_bytes(tmp_path: Path):
    files.write_rows(made_rows(), tmp_path / "a.parquet")
    files.write_rows(made_rows().sort("round", maintain_order=True), tmp_path / "b.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_rows_come_back_as_they_were_written(tmp_path: Path):
    files.write_rows(made_rows(), tmp_path / "rows.parquet")
    assert files.read_rows(tmp_path).equals(files.settle(made_rows()))


def queries_of(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of the last round again, as those of two queries."""
    last = rows.filter(round=100, metric="ndcg@10")
    return pl.concat([last.with_columns(query=pl.lit(query, pl.Int64)) for query in (1, 0)])


def test_rows_of_single_queries_are_told_from_the_others():
    rows = made_rows()
    both = pl.concat([rows, queries_of(rows)], how="diagonal")
    whole, single = files.apart(both)
    assert whole.equals(rows)
    assert single.equals(queries_of(rows).select(single.columns))
    whole, single = files.apart(rows)
    assert whole.equals(rows)
    assert single.is_empty()


def test_queries_come_back_sorted_by_their_own_keys(tmp_path: Path):
    rows = made_rows()
    files.write_rows(rows, tmp_path / "rows.parquet")
    with pytest.raises(DataError, match="kept no queries.*per_query = true"):
        files.read_queries(tmp_path)
    files.write_queries(queries_of(rows), tmp_path / "queries.parquet")
    found = files.read_queries(tmp_path)
    assert found.columns == [
        "dataset", "fold", "ranker", "settings", "user", "stop", "seed", "query", "metric", "value",
    ]  # fmt: skip
    assert found.height == 2 * 2 * 2  # rankers, seeds, queries
    assert found.select("seed", "query").rows()[:4] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert found.schema["value"] == pl.Float32


def test_a_folder_without_rows_is_told(tmp_path: Path):
    with pytest.raises(DataError, match="rows.parquet: not there"):
        files.read_rows(tmp_path)


def test_a_file_that_is_not_parquet_is_told(tmp_path: Path):
    (tmp_path / "rows.parquet").write_text("hello")
    with pytest.raises(DataError, match="cannot be read as parquet"):
        files.read_rows(tmp_path)


def test_rows_without_a_column_are_told(tmp_path: Path):
    made_rows().drop("stop").write_parquet(tmp_path / "rows.parquet")
    with pytest.raises(DataError, match="has no column stop"):
        files.read_rows(tmp_path)


def test_what_json_cannot_say_is_null(tmp_path: Path):
    files.write_json({"a": [float("nan"), 1.5], "b": float("inf")}, tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text()) == {"a": [None, 1.5], "b": None}


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path):
    path = tmp_path / "file"
    path.write_text("old")

    def fail(partial: Path) -> None:
        partial.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        files.atomically(path, fail)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["old"]


def test_a_file_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (done.append("flush"), fsync(handle)))
    monkeypatch.setattr(
        Path, "replace", lambda self, to: (done.append("name"), replace(self, to))[1]
    )
    files.write_text("new", tmp_path / "file")
    assert done == ["flush", "name", "flush"]  # the file, its name, the folder
    assert (tmp_path / "file").read_text() == "new"
