"""Features on one scale: by query, to unit length, over the set, or not at all."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra import numpy as hnp

from olrank.data import normalise as module
from olrank.data.normalise import (
    Range,
    fit_global,
    normalise,
    normalise_fold,
    normalise_query,
)
from olrank.errors import ConfigError, DataError
from olrank.types import Dataset, Fold


def dataset(features: object, sizes: list[int]) -> Dataset:
    array = np.asarray(features, dtype=np.float32)
    grades = np.zeros(len(array), dtype=np.int32)
    offsets = np.cumsum([0, *sizes]).astype(np.int64)
    return Dataset("toy", array, grades, offsets, [str(i) for i in range(len(sizes))], 1)


TOY = dataset([[1, 5, -2], [3, 5, 0], [2, 5, 2], [7, 1, 1], [7, 3, 1]], [3, 2])


def test_by_query_each_feature_runs_from_0_to_1_and_constants_are_0() -> None:
    scaled = normalise(TOY, "query")
    expected = [
        [(1 - 1) / (3 - 1), 0, (-2 + 2) / (2 + 2)],
        [(3 - 1) / (3 - 1), 0, (0 + 2) / (2 + 2)],
        [(2 - 1) / (3 - 1), 0, (2 + 2) / (2 + 2)],
        [0, (1 - 1) / (3 - 1), 0],
        [0, (3 - 1) / (3 - 1), 0],
    ]
    assert scaled.features.tolist() == expected
    assert scaled.features.dtype == np.float32
    assert scaled.normalise == "query"
    assert TOY.features[0, 0] == 1  # the set that was given is as before


def test_unit_rows_have_norm_1_and_zero_rows_stay_zero() -> None:
    rows = normalise(TOY, "unit").features
    assert rows[1] == pytest.approx(np.array([1, 0, 0.5]) / np.sqrt(1 + 0.25))
    assert np.linalg.norm(rows, axis=1) == pytest.approx([0, 1, 1, 0, 1])


def test_global_uses_the_range_of_the_whole_set() -> None:
    rows = normalise(TOY, "global").features
    assert rows[1] == pytest.approx([(3 - 1) / (7 - 1), (5 - 1) / (5 - 1), (0 + 2) / (2 + 2)])
    assert rows.min() == 0
    assert rows.max() == 1


def test_a_folds_global_range_comes_from_its_train_part() -> None:
    other = dataset([[-1, 9, 0]], [1])
    fold = normalise_fold(Fold("1", TOY, other, other), "global")
    assert fit_global(TOY).high.tolist() == [7, 5, 2]
    expected = [(-1 - 1) / (7 - 1), (9 - 1) / (5 - 1), (0 + 2) / (2 + 2)]
    assert fold.test.features[0] == pytest.approx(expected)
    assert fold.validation.normalise == "global"


def test_none_changes_nothing() -> None:
    assert normalise(TOY, "none") is TOY


def test_by_query_twice_is_by_query_once_and_unit_may_follow() -> None:
    once = normalise(TOY, "query")
    assert normalise(once, "query") is once
    direct = normalise(TOY, "unit").features
    np.testing.assert_allclose(normalise(once, "unit").features, direct, rtol=1e-6)


def test_a_set_of_unit_rows_cannot_be_normalised_otherwise() -> None:
    with pytest.raises(DataError, match='already normalised as "unit", cannot become "query"'):
        normalise(normalise(TOY, "unit"), "query")


def test_an_unknown_way_is_told_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match='no normalisation is called "querry".*"query"'):
        normalise(TOY, "querry")
    with pytest.raises(ConfigError, match="no normalisation"):
        normalise_query([[1.0]], "max")


def test_one_query_alone_is_normalised_as_in_its_set() -> None:
    for how in ("none", "query", "unit"):
        alone = normalise_query(TOY.features[:3], how)
        np.testing.assert_array_equal(alone, normalise(TOY, how).features[:3])
    bounds = fit_global(TOY)
    alone = normalise_query(TOY.features[:3], "global", bounds)
    np.testing.assert_array_equal(alone, normalise(TOY, "global").features[:3])
    with pytest.raises(DataError, match="needs the range"):
        normalise_query(TOY.features[:3], "global")
    assert normalise_query(np.zeros((0, 3)), "query").shape == (0, 3)


def test_the_largest_values_of_32_bits_stay_finite() -> None:
    top = np.finfo(np.float32).max
    rows = normalise(dataset([[top], [-top], [0]], [3]), "query").features
    assert rows[:, 0].tolist() == [1, 0, 0.5]


def test_an_empty_set_stays_empty_and_has_no_range() -> None:
    empty = TOY.select([])
    assert normalise(empty, "query").n_rows == 0
    with pytest.raises(DataError, match="an empty set"):
        fit_global(empty)


def test_an_empty_query_takes_no_row_of_its_neighbour() -> None:
    with_empty = replace(TOY, offsets=np.array([0, 3, 3, 5]), query_ids=["a", "b", "c"])
    np.testing.assert_array_equal(
        normalise(with_empty, "query").features, normalise(TOY, "query").features
    )


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=8),
    cells=hnp.arrays(np.float32, (40, 3), elements=st.floats(-1e6, 1e6, width=32)),
    how=st.sampled_from(["query", "unit"]),
    chunk=st.sampled_from([1, 7, 1 << 20]),
)
def test_any_chunking_agrees_with_query_by_query(
    sizes: list[int], cells: np.ndarray, how: str, chunk: int
) -> None:
    data = dataset(cells[: sum(sizes)], sizes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_CHUNK_CELLS", chunk)
        whole = normalise(data, how).features
    for start, end in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        rows = data.features[start:end].astype(np.float64)
        spread = np.ptp(rows, axis=0)
        expected = np.where(spread > 0, (rows - rows.min(0)) / np.where(spread > 0, spread, 1), 0)
        if how == "unit":
            norms = np.linalg.norm(expected, axis=1, keepdims=True)
            expected = expected / np.where(norms > 0, norms, 1)
        np.testing.assert_allclose(whole[start:end], expected, rtol=1e-6, atol=1e-7)


def test_a_range_can_be_given() -> None:
    bounds = Range(np.zeros(3), np.full(3, 10.0))
    assert normalise(TOY, "global", bounds).features[1] == pytest.approx([0.3, 0.5, 0.0])
