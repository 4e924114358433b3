"""Which sets a folder holds, and folds that can be searched on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from olrank.data.synthetic import synthetic
from olrank.errors import DataError
from olrank.experiments.paper.found import find_sets, folds_of, made_up
from olrank.experiments.paper.protocol import MadeUp
from olrank.experiments.running.load import with_validation
from olrank.types import Fold

LINES = "".join(
    f"{grade} qid:{query} 1:{0.1 * grade + 0.01 * query:.2f} 2:{grade % 2}\n"
    for query in range(10)
    for grade in (0, 1, 2, 1)
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part in range(1, 6):
        (tmp_path / "Letor").mkdir(exist_ok=True)
        (tmp_path / "Letor" / f"S{part}.txt").write_text(LINES)
    (tmp_path / "single").mkdir()
    (tmp_path / "single" / "queries.txt").write_text(LINES)
    (tmp_path / "clicks").mkdir()
    (tmp_path / "clicks" / "sessions.log").write_text("a click log\n")
    return tmp_path


def test_every_folder_with_judged_queries_is_found_and_others_are_named(folder: Path):
    looked = find_sets(folder)
    assert [Path(one.source.path).name for one in looked.found] == ["Letor", "single"]
    assert looked.passed_over == ["clicks: no judged queries in a known form."]
    assert all("none of the public sets" in one.told for one in looked.found)


def test_a_folder_that_is_a_set_is_that_set(folder: Path):
    looked = find_sets(folder / "Letor")
    assert [Path(one.source.path).name for one in looked.found] == ["Letor"]


def test_an_empty_folder_holds_nothing(tmp_path: Path):
    assert find_sets(tmp_path).found == []


def test_a_folder_that_is_not_there_is_told(tmp_path: Path):
    with pytest.raises(DataError, match="there is no such folder"):
        find_sets(tmp_path / "missing")


def test_folds_of_a_found_set_are_its_own(folder: Path):
    (found,) = find_sets(folder / "Letor").found
    folds = folds_of(found.source)
    assert [fold.name for fold in folds] == ["1", "2", "3", "4", "5"]
    assert folds[0].train.n_queries == 3 * 10


def test_made_up_sets_of_one_shape_share_their_lengths_and_nothing_else():
    shapes = [
        MadeUp("small", (6, 2, 3), "bent"),
        MadeUp("small", (6, 2, 3), "straight", {"relevance": "linear"}),
    ]
    bent, straight = (folds_of(one.source)[0] for one in made_up(shapes))
    assert (bent.train.name, straight.train.name) == ("bent", "straight")
    assert (bent.train.offsets == straight.train.offsets).all()
    assert not np.allclose(bent.train.relevance, straight.train.relevance)


def test_a_fold_without_validation_gives_up_a_fifth_of_its_train_queries():
    data = synthetic("small", queries=20, seed=1)
    fold = with_validation(Fold("1", data, data.select([]), data))
    assert (fold.train.n_queries, fold.validation.n_queries) == (16, 4)
    ids = [*fold.train.query_ids, *fold.validation.query_ids]
    assert sorted(ids) == sorted(data.query_ids)
    assert fold.train.checksum != fold.validation.checksum != data.checksum
    assert with_validation(fold) is fold


def test_real_sets_are_called_complete_partial_or_unknown_as_they_are(data_dir: Path):
    looked = find_sets(data_dir)
    told = {Path(one.source.path).name: one.told for one in looked.found}
    if "MQ2008" not in told:
        pytest.skip("needs MQ2008 in the folder that OLRANK_DATA names")
    assert told["MQ2008"] == "MQ2008, complete, all counts as published."
    for name, told_of in {"MQ2007_partial": "MQ2007", "MSLR_sample": "MSLR-WEB10K"}.items():
        assert told.get(name, f"{told_of}, but only a part of it").startswith(
            f"{told_of}, but only a part of it"
        )
    assert "none of the public sets" in told.get("LightGBM_rank", "none of the public sets")
