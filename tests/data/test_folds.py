"""Folds: LETOR's cycle, the folders that sets come in, and splits by query."""

from __future__ import annotations

import lzma
from collections import Counter
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from olrank.data.folds import align, concatenate, letor_folds, read_folds, split
from olrank.errors import ConfigError, DataError
from olrank.types import Dataset, Fold


def dataset(ids: list[str], width: int = 2, max_grade: int = 2) -> Dataset:
    n_rows = 2 * len(ids)
    features = np.arange(n_rows * width, dtype=np.float32).reshape(n_rows, width)
    grades = (np.arange(n_rows) % 2).astype(np.int32)
    offsets = np.arange(0, n_rows + 1, 2)
    return Dataset("toy", features, grades, offsets, ids, max_grade, checksum="".join(ids))


def text(*ids: str, feature: int = 2) -> str:
    rows = (f"1 qid:{i} 1:0.{n} {feature}:{n}\n0 qid:{i} 1:0.9\n" for n, i in enumerate(ids, 1))
    return "".join(rows)


def ids_of(fold: Fold) -> list[list[str]]:
    return [list(part.query_ids) for part in fold[1:]]


def read(place: Path, **options: object) -> list[Fold]:
    return read_folds(place, cache=False, **options)  # type: ignore[arg-type]


def test_letors_folds_turn_around_the_five_parts() -> None:
    folds = letor_folds([dataset([f"S{n}"]) for n in range(1, 6)])
    assert [fold.name for fold in folds] == ["1", "2", "3", "4", "5"]
    assert [ids_of(fold) for fold in folds] == [
        [["S1", "S2", "S3"], ["S4"], ["S5"]],
        [["S2", "S3", "S4"], ["S5"], ["S1"]],
        [["S3", "S4", "S5"], ["S1"], ["S2"]],
        [["S4", "S5", "S1"], ["S2"], ["S3"]],
        [["S5", "S1", "S2"], ["S3"], ["S4"]],
    ]


def test_four_parts_make_no_letor_folds() -> None:
    with pytest.raises(DataError, match="made of 5 parts, S1 to S5; found 4"):
        letor_folds([dataset([str(n)]) for n in range(4)])


@pytest.mark.parametrize("ending", ["", ".txt", ".txt.xz"])
def test_a_folder_of_parts_is_read_as_letors_folds(tmp_path: Path, ending: str) -> None:
    pack = lzma.compress if ending.endswith(".xz") else bytes
    for n in range(1, 6):
        (tmp_path / f"S{n}{ending}").write_bytes(pack(text(f"a{n}", f"b{n}").encode()))
    folds = read(tmp_path, only=[2])
    assert ids_of(folds[0]) == [["a2", "b2", "a3", "b3", "a4", "b4"], ["a5", "b5"], ["a1", "b1"]]
    assert {part.name for part in folds[0][1:]} == {tmp_path.name}
    assert len(read(tmp_path)) == 5


def test_a_folder_of_folds_is_read_as_it_is(tmp_path: Path) -> None:
    for n in range(1, 6):
        folder = tmp_path / f"Fold{n}"
        folder.mkdir()
        for part in ("train", "vali", "test"):
            (folder / f"{part}.txt").write_text(text(f"{part}{n}"))
    folds = read(tmp_path)
    assert [fold.name for fold in folds] == ["1", "2", "3", "4", "5"]
    assert ids_of(folds[3]) == [["train4"], ["vali4"], ["test4"]]
    assert [fold.name for fold in read(tmp_path, only=[5, 1])] == ["5", "1"]
    with pytest.raises(ConfigError, match="there is no fold 6; the set has 5"):
        read(tmp_path, only=[6])


def test_a_provided_split_is_one_fold_and_a_prefix_chooses_among_several(tmp_path: Path) -> None:
    for name in ("set1", "set2"):
        for part in ("train", "valid", "test"):
            (tmp_path / f"{name}.{part}.txt").write_text(text(f"{name}-{part}"))
    with pytest.raises(DataError, match="several sets here: set1, set2"):
        read(tmp_path)
    (fold,) = read(tmp_path / "set2")
    assert ids_of(fold) == [["set2-train"], ["set2-valid"], ["set2-test"]]
    assert fold.train.name == "set2"
    assert fold.train.n_features == 700  # Yahoo's width, which no part need reach
    with pytest.raises(DataError, match="no such file or folder"):
        read(tmp_path / "set3")


def test_a_split_without_validation_has_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text(text("1"))
    (tmp_path / "test.txt").write_text(text("2"))
    (fold,) = read(tmp_path, normalise="query")
    assert ids_of(fold) == [["1"], [], ["2"]]


def test_rows_with_a_group_file_beside_them_are_read_with_it(tmp_path: Path) -> None:
    for part in ("train", "test"):
        (tmp_path / f"rank.{part}").write_text("1 1:1\n0 1:2\n0 1:3\n")
        (tmp_path / f"rank.{part}.query").write_text("2\n1\n")
    (fold,) = read(tmp_path)
    assert fold.train.sizes.tolist() == [2, 1]


def test_a_single_file_is_split_by_query(tmp_path: Path) -> None:
    path = tmp_path / "all.txt"
    path.write_text(text(*map(str, range(1, 11))))
    for place in (path, tmp_path):
        folds = read(place)
        assert [len(part) for part in ids_of(folds[0])] == [6, 2, 2]
        assert len(folds) == 5
    assert read(path)[0].train.name == "all"


def test_an_unknown_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no data set is recognised here"):
        read(tmp_path)


def test_parts_get_the_same_width_and_scale(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text(text("1", feature=7))
    (tmp_path / "test.txt").write_text("4 qid:2 1:1\n")
    (fold,) = read(tmp_path)
    assert {part.n_features for part in fold[1:]} == {7}
    assert {part.max_grade for part in fold[1:]} == {4}
    assert fold.test.features.tolist() == [[1, 0, 0, 0, 0, 0, 0]]


@pytest.mark.parametrize("how", ["query", "unit", "global"])
def test_folds_come_normalised_as_asked(tmp_path: Path, how: str) -> None:
    for n in range(1, 6):
        (tmp_path / f"S{n}.txt").write_text(text(f"a{n}", f"b{n}"))
    for fold in read(tmp_path, normalise=how):
        assert {part.normalise for part in fold[1:]} == {how}
        assert fold.train.features.max() == 1


@settings(max_examples=40, deadline=None)
@given(n_queries=st.integers(10, 60), seed=st.integers(0, 99), n_folds=st.integers(1, 5))
def test_a_split_deals_every_query_to_exactly_one_part(
    n_queries: int, seed: int, n_folds: int
) -> None:
    data = dataset([str(n) for n in range(n_queries)])
    for fold in split(data, seed=seed, n_folds=n_folds):
        dealt = [query for part in ids_of(fold) for query in part]
        assert sorted(dealt) == sorted(data.query_ids)
        assert fold.train.n_rows == 2 * fold.train.n_queries


def test_five_folds_by_query_test_every_query_once() -> None:
    data = dataset([str(n) for n in range(50)])
    folds = split(data, seed=3, n_folds=5)
    tested = Counter(query for fold in folds for query in fold.test.query_ids)
    assert tested == Counter(data.query_ids)


def test_a_split_depends_on_the_seed_alone() -> None:
    data = dataset([str(n) for n in range(30)])
    assert ids_of(split(data, seed=1)[0]) == ids_of(split(data, seed=1)[0])
    assert ids_of(split(data, seed=1)[0]) != ids_of(split(data, seed=2)[0])
    fold = split(data, seed=1)[0]
    assert len({part.checksum for part in fold[1:]}) == 3


def test_a_split_keeps_rows_with_their_queries() -> None:
    data = dataset([str(n) for n in range(20)])
    fold = split(data, seed=0)[0]
    for part in fold[1:]:
        for n, query in enumerate(part.query_ids):
            start = data.offsets[int(query)]
            rows = part.features[part.offsets[n] : part.offsets[n + 1]]
            np.testing.assert_array_equal(rows, data.features[start : start + 2])


def test_fractions_must_sum_to_1_and_leave_no_part_without_queries() -> None:
    with pytest.raises(ConfigError, match="three shares that sum to 1"):
        split(dataset(["1", "2"]), (0.5, 0.2, 0.2))
    with pytest.raises(DataError, match="1 queries are too few"):
        split(dataset(["1"]))


def test_concatenation_keeps_order_and_relevance_only_if_all_know_it() -> None:
    one, two = dataset(["a", "b"]), dataset(["c"], width=3, max_grade=4)
    both = concatenate([one, two], "both")
    assert list(both.query_ids) == ["a", "b", "c"]
    assert both.offsets.tolist() == [0, 2, 4, 6]
    assert both.features[4:].tolist() == two.features.tolist()
    assert both.features[0].tolist() == [0, 1, 0]
    assert (both.max_grade, both.name, both.relevance) == (4, "both", None)


def test_aligning_sets_of_one_width_copies_nothing() -> None:
    one, two = dataset(["a"]), dataset(["b"])
    assert align([one, two])[0].features is one.features


def test_mq2008s_folds_are_letors(data_dir: Path) -> None:
    folds = read(data_dir / "MQ2008", normalise="query")
    sizes = [[part.n_queries for part in fold[1:]] for fold in folds]
    assert sizes[0] == [157 + 157 + 157, 157, 156]
    assert [sum(size) for size in sizes] == [784] * 5
    tested = [query for fold in folds for query in fold.test.query_ids]
    assert len(set(tested)) == len(tested) == 784


def test_the_samples_are_split_and_the_group_form_is_recognised(data_dir: Path) -> None:
    folds = read(data_dir / "LightGBM_rank")
    assert [part.n_queries for part in folds[0][1:]] == [201, 0, 50]
