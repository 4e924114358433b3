"""What is kept is found as it was, under a name that follows from all that made it."""

from pathlib import Path

import polars as pl
import pytest
from experiments.made_rows import made_rows

from olrank.errors import DataError
from olrank.experiments.running import kept


def test_a_kept_part_is_found_as_it_was_and_a_damaged_one_is_not(tmp_path: Path):
    file = tmp_path / "part.parquet"
    assert kept.find(file) is None
    finished = kept.Finished(made_rows(), {"part": "a", "seconds": 0.5})
    kept.keep(finished, file)
    found = kept.find(file)
    assert found is not None
    assert found.rows.equals(finished.rows)
    assert found.about == finished.about
    whole = file.read_bytes()
    for damaged in (b"", b"PAR1", whole[:100], whole[:-1], b"\0" * len(whole)):
        file.write_bytes(damaged)
        assert kept.find(file) is None
    pl.DataFrame({"a": [1]}).write_parquet(file)
    assert kept.find(file) is None  # somebody else's


def test_what_cannot_be_read_back_is_told(tmp_path: Path):
    with pytest.raises(DataError, match="cannot be read back"):
        kept.read(tmp_path / "part.parquet")


def test_a_name_says_its_title_and_changes_with_what_determines_the_rows():
    name = kept.name_for("olRankNet, fold 1", {"seeds": [0, 1]})
    assert name.startswith("olRankNet_fold_1-")
    assert name == kept.name_for("olRankNet, fold 1", {"seeds": (0, 1)})
    assert name != kept.name_for("olRankNet, fold 1", {"seeds": [0, 2]})
    assert len(kept.name_for("a" * 300, {})) == 80 + 1 + 16
