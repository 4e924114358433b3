from pathlib import Path

import numpy as np
import pytest

from olrank.errors import OlrankError
from olrank.experiments.running.config import DataConfig, PartsConfig
from olrank.experiments.running.load import expand, load_folds


def test_made_up_data_is_cut_into_the_queries_asked_for():
    (fold,) = load_folds(DataConfig(synthetic="small", queries=[7, 3, 5]))
    assert [part.n_queries for part in fold[1:]] == [7, 3, 5]
    assert fold.train.normalise == "query"


def test_the_parts_of_made_up_data_share_no_query():
    (fold,) = load_folds(DataConfig(synthetic="small", queries=[7, 3, 5]))
    ids = [query for part in fold[1:] for query in part.query_ids]
    assert len(set(ids)) == 7 + 3 + 5


def test_another_seed_makes_up_other_data():
    first, other = (
        load_folds(DataConfig(synthetic="small", queries=[2, 1, 1], seed=seed))[0].train
        for seed in (0, 1)
    )
    assert first.checksum != other.checksum or first.n_rows != other.n_rows


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PartsConfig:
    monkeypatch.setenv("OLRANK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OLRANK_TEST_PLACE", str(tmp_path))
    (tmp_path / "train.txt").write_text("1 qid:1 1:5\n0 qid:1 1:1\n")
    (tmp_path / "test.txt").write_text("2 qid:9 1:5 3:4\n0 qid:9 1:1\n")
    return PartsConfig(
        train=["${OLRANK_TEST_PLACE}/train.txt"], test=["${OLRANK_TEST_PLACE}/test.txt"]
    )


def test_named_files_share_the_width_and_the_scale_of_the_widest(parts: PartsConfig):
    (fold,) = load_folds(DataConfig(parts=parts))
    assert fold.train.n_features == fold.test.n_features == 3
    assert fold.train.max_grade == fold.test.max_grade == 2
    assert fold.validation.n_queries == 0


def test_named_files_are_called_like_their_folder(parts: PartsConfig, tmp_path: Path):
    (fold,) = load_folds(DataConfig(parts=parts))
    assert fold.train.name == fold.test.name == tmp_path.name


def test_named_files_are_normalised_as_asked(parts: PartsConfig):
    (fold,) = load_folds(DataConfig(parts=parts, normalise="query"))
    np.testing.assert_array_equal(fold.train.features, [[1, 0, 0], [0, 0, 0]])
    (fold,) = load_folds(DataConfig(parts=parts, normalise="none"))
    np.testing.assert_array_equal(fold.train.features, [[5, 0, 0], [1, 0, 0]])


def test_a_folder_gives_its_folds_or_those_asked_for(data_dir: Path):
    everything = load_folds(DataConfig(path=str(data_dir / "MQ2008")))
    assert [fold.name for fold in everything] == ["1", "2", "3", "4", "5"]
    second = load_folds(DataConfig(path=str(data_dir / "MQ2008"), folds=[2]))
    assert [fold.name for fold in second] == ["2"]


def test_a_fold_that_is_not_there_is_refused(data_dir: Path):
    with pytest.raises(OlrankError, match="6"):
        load_folds(DataConfig(path=str(data_dir / "MQ2008"), folds=[6]))


def test_a_variable_in_a_path_is_put_in(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OLRANK_TEST_PLACE", "somewhere")
    assert expand("${OLRANK_TEST_PLACE}/a.txt") == Path("somewhere/a.txt")


def test_a_variable_that_is_not_set_is_named():
    with pytest.raises(OlrankError, match="variable OLRANK_TEST_ABSENT is not set"):
        expand("${OLRANK_TEST_ABSENT}/a.txt")
