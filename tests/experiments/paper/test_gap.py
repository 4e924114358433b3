"""Data with a gap between grades."""

from __future__ import annotations

import numpy as np
import pytest

from olrank.data.synthetic import synthetic
from olrank.errors import DataError
from olrank.experiments.paper.gap import with_gap
from olrank.experiments.running.simulate import simulate


@pytest.fixture(scope="module")
def data():
    return synthetic("small", queries=12, features=6, mean_docs=8, max_docs=12, noise=0.0, seed=3)


def test_with_a_gap_documents_of_two_grades_differ_by_the_spacing(data):
    gapped = with_gap(data, margin=0.1, spacing=1.5)
    assert gapped.n_rows < data.n_rows
    assert gapped.sizes.min() >= 2
    assert gapped.sizes.sum() == gapped.n_rows == len(gapped.grades)
    for low in range(gapped.max_grade):
        step = gapped.relevance[gapped.grades == low + 1].min() - (
            gapped.relevance[gapped.grades == low].max()
        )
        assert step == pytest.approx(1.5)


def test_documents_that_are_kept_are_far_from_every_cut(data):
    gapped = with_gap(data, margin=0.2)
    rows = {row.tobytes(): h for row, h in zip(data.features, data.relevance, strict=True)}
    h = np.array([rows[row.tobytes()] for row in gapped.features])
    for grade in range(1, 5):
        between = h[gapped.grades >= grade].min() - h[gapped.grades < grade].max()
        assert between >= 2 * 0.2 - 1e-6


def test_grades_with_noise_have_no_gap():
    noisy = synthetic("small", queries=20, noise=0.5, seed=0)
    with pytest.raises(DataError, match="overlap in h"):
        with_gap(noisy)


def test_gapped_data_can_be_simulated_on(data):
    gapped = with_gap(data, margin=0.05)
    rows = simulate("pdgd-linear", gapped, gapped, user="well-specified", rounds=5, seeds=1)
    assert rows.filter(metric="regret")["value"].is_not_nan().all()
