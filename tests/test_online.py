"""OnlineRanker: arrays in, lists out, clicks in; saved and loaded it goes on identically."""

from pathlib import Path

import numpy as np
import pytest

import olrank
from olrank.errors import ConfigError, DataError
from olrank.rankers import table

D = 3
SMALL = {"width": 4, "history": 5, "steps": 1, "history_batch": 4}
LIVE = [name for name in table.names() if not table.entry(name).sees_grades]


def ranker(name="olranknet", **more):
    fields = table.entry(name).design._fields
    settings = {key: value for key, value in SMALL.items() if key in fields}
    return olrank.OnlineRanker(name, n_features=D, k=4, settings=settings, seed=1, **more)


def live_with(one, n, seed=0):
    """Serve n queries of 1 to 20 documents; users like feature 0."""
    rng = np.random.default_rng(seed)
    served = []
    for _ in range(n):
        candidates = rng.random((rng.integers(1, 20), D))
        ranking = one.rank(candidates)
        one.learn(ranking, candidates[ranking.order, 0] > 0.6)
        served.append((ranking.order.tolist(), ranking.log_propensity))
    return served


def test_a_saved_ranker_keeps_the_settings_of_a_preset_that_changes(tmp_path, monkeypatch):
    presets = table.entry("olranknet").presets
    one = ranker()
    live_with(one, 3)
    one.save(tmp_path / "saved")
    first = next(iter(presets))
    monkeypatch.setitem(presets, first, {**presets[first], "depth": 3, "alpha": 9.0})
    other = olrank.OnlineRanker.load(tmp_path / "saved")
    assert live_with(other, 3, seed=1) == live_with(one, 3, seed=1)


@pytest.mark.parametrize("name", LIVE)
def test_a_loaded_ranker_goes_on_exactly_as_the_saved_one(name, tmp_path: Path):
    one = ranker(name)
    live_with(one, 8)  # more than its history holds
    one.save(tmp_path / "saved")
    other = olrank.OnlineRanker.load(tmp_path / "saved")
    assert other.n_learned == 8
    assert live_with(one, 4, seed=1) == live_with(other, 4, seed=1)


def test_the_order_changes_with_what_is_clicked():
    one = olrank.OnlineRanker("pairrank", n_features=D, k=4, seed=0)
    live_with(one, 60)
    x = np.linspace(0, 1, 5)[:, None] * np.array([[1.0, 0.0, 0.0]]) + np.array([[0.0, 0.5, 0.5]])
    assert np.argmax(one.score(x)) == 4
    assert np.argmin(one.score(x)) == 0


def test_rows_of_remembered_impressions_are_never_overwritten():
    """Impressions without a click come between, and must not push out rows still learned from."""
    one = ranker(normalise="none")
    rng = np.random.default_rng(0)
    remembered = []
    for turn in range(30):
        candidates = rng.random((6, D)).astype(np.float32)
        ranking = one.rank(candidates)
        # Slots 1 and 2 differ, so that the pair (1, 2) is learned from; or nothing is clicked.
        clicks = [turn % 3 == 0, False, False, False]
        one.learn(ranking, clicks)
        if clicks[0]:
            remembered.append(candidates[ranking.order])
    history = one._state["ranker"].history
    kept = int(min(history.n_impressions, 5))
    assert (int(history.n_impressions), kept) == (10, 5)
    for number in range(10 - kept, 10):
        rows = one._state["rows"][history.rows[number % 5]]
        np.testing.assert_array_equal(rows, remembered[number])


def test_a_list_has_each_candidate_once_and_its_propensity():
    one = ranker()
    ranking = one.rank(np.eye(3))
    assert sorted(ranking.order.tolist()) == [0, 1, 2]
    assert ranking.log_propensity == pytest.approx(-np.log(3 * 2 * 1))  # nothing is certain yet
    assert ranking.choices.tolist() == [3, 2, 1]
    assert ranking.certain.shape == (3, 3)


def test_a_click_s_weight_counts():
    light, heavy = ranker("pdgd-linear"), ranker("pdgd-linear")
    candidates = np.random.default_rng(0).random((6, D))
    for one, weight in ((light, 1.0), (heavy, 3.0)):
        one.learn(one.rank(candidates), [weight, 0, 0, 0])
    np.testing.assert_allclose(3 * light.score(candidates), heavy.score(candidates), rtol=1e-5)


@pytest.mark.parametrize(
    ("features", "says"),
    [
        (np.zeros((2, 4)), r"expected \[n_docs, 3\] .* found shape \(2, 4\)"),
        (np.zeros((0, 3)), r"at least one document"),
        (np.zeros(3), r"found shape \(3,\)"),
        ([[0, 1, 2], [0, np.nan, 1]], "document 1, feature 1 is not a finite number"),
        ([[0, 1, np.inf]], "document 0, feature 2"),
    ],
)
def test_features_that_cannot_be_ranked_are_named(features, says):
    with pytest.raises(DataError, match=says):
        ranker().rank(features)


@pytest.mark.parametrize(
    ("clicks", "says"),
    [
        ([1, 0], "each of the 4 shown slots"),
        ([1, -1, 0, 0], "not negative"),
        ([np.nan] * 4, "finite"),
    ],
)
def test_clicks_that_do_not_fit_the_list_are_refused(clicks, says):
    one = ranker()
    ranking = one.rank(np.random.default_rng(0).random((6, D)))
    with pytest.raises(DataError, match=says):
        one.learn(ranking, clicks)
    assert one.n_learned == 0


def test_what_cannot_live_is_refused():
    with pytest.raises(ConfigError, match="judged grades"):
        olrank.OnlineRanker("skyline", n_features=3)
    with pytest.raises(ConfigError, match='found "global"'):
        olrank.OnlineRanker(n_features=3, normalise="global")
    with pytest.raises(ConfigError, match="n_features: must be at least 1"):
        olrank.OnlineRanker(n_features=0)
