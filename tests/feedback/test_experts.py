"""Experts that are weighed: judged on queries they know nothing of, and trusted accordingly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from olrank.feedback import cascade, experts

pytestmark = pytest.mark.usefixtures("x64")

HABITS = cascade.FIRST_GUESS
D, K = 5, 6
PANEL = experts.PANELS["second"]
N = PANEL.n_lines + len(PANEL.networks)


def test_a_judgement_is_the_likelihood_of_clicks_by_what_was_foretold():
    scores = jax.random.normal(jax.random.key(2), (N, len(PANEL.scales), K))
    clicks, seen = jnp.array([1.0, 0, 0, 0, 1, 0]), jnp.array([True] * 5 + [False])
    after = experts.judge(experts.empty(D, PANEL), PANEL, scores, clicks, seen, HABITS)
    each = [[float(cascade.log_likelihood(s, clicks, seen, HABITS)) for s in e] for e in scores]
    np.testing.assert_allclose(after.judged, np.array(each) - np.mean(each), rtol=1e-7)


@pytest.mark.parametrize("name", ["first", "second"])
def test_an_expert_that_went_astray_does_not_drown_judgements_unless_there_is_no_bound(name):
    panel = experts.PANELS[name]
    n = PANEL.n_lines + len(panel.networks)
    scores = jax.random.normal(jax.random.key(2), (n, len(panel.scales), K))
    astray = scores.at[-1].set(1e21 * jnp.arange(K))
    clicks, seen = jnp.array([1.0, 0, 0, 0, 1, 0]), jnp.ones(K, bool)
    after = experts.judge(experts.empty(D, panel), panel, astray, clicks, seen, HABITS)
    spread = float(after.judged.max() - after.judged.min())
    if name == "second":
        assert spread == pytest.approx(panel.bound)
        each = [float(cascade.log_likelihood(s, clicks, seen, HABITS)) for s in scores[:2, 0]]
        assert float(after.judged[0, 0] - after.judged[1, 0]) == pytest.approx(each[0] - each[1])
    else:
        assert spread > 1e20


def test_an_expert_foretells_new_documents_alone_and_known_ones_as_far_as_they_are_not():
    scores, served = jax.random.normal(jax.random.key(3), (N, K)), jnp.linspace(-1.0, 2.0, K)
    effects = jnp.array([0.0, 0.7, -0.4, 0.0, 0.3, 9.0])
    shares = jnp.array([1.0, 0.25, 0.0, 1.0, 0.5, 1.0])
    seen = jnp.array([True] * 5 + [False])
    found = experts.foretold(PANEL, scores, served, effects, shares, seen)
    f = np.asarray(served - served[:5].mean())
    for e in range(N):
        own = np.asarray(scores[e] - scores[e, :5].mean())
        for s, scale in enumerate(PANEL.scales):
            np.testing.assert_allclose(found[e, s, [0, 3]], scale * own[[0, 3]], rtol=1e-9)
            np.testing.assert_allclose(found[e, s, 2], f[2] - 0.4, rtol=1e-9)
            expected = 0.75 * f[1] + 0.25 * scale * own[1] + 0.7
            np.testing.assert_allclose(found[e, s, 1], expected, rtol=1e-9)
            assert found[e, s, 5] == 0.0


def test_a_level_of_scores_is_no_evidence():
    scores, served = jax.random.normal(jax.random.key(3), (N, K)), jnp.linspace(-1.0, 2.0, K)
    effects, shares, seen = jnp.zeros(K), jnp.full(K, 0.5), jnp.ones(K, bool)
    moved = scores + jnp.arange(1.0, N + 1)[:, None]
    found = experts.foretold(PANEL, moved, served + 3.0, effects, shares, seen)
    same = experts.foretold(PANEL, scores, served, effects, shares, seen)
    np.testing.assert_allclose(found, same, atol=1e-12)


@pytest.mark.parametrize("recency", [0, 1, 2])
def test_judgements_fade_by_when_they_were_made(recency):
    n, rng = 60, np.random.default_rng(0)
    made = rng.normal(size=(n, N, len(PANEL.scales)))
    known = experts.empty(D, PANEL)
    for s in range(n):
        known = known._replace(judged=known.judged + made[s])
        known = experts.faded(known, jnp.asarray(s + 1), recency)
    # What is made in round s meets the fading of this round already.
    kept = np.cumprod((1 - recency / np.maximum(np.arange(1, n + 1), recency or 1))[::-1])[::-1]
    expected = np.tensordot(kept, made, 1)
    np.testing.assert_allclose(known.judged, expected, atol=1e-9)
    if recency:
        np.testing.assert_allclose(kept[20:], (np.arange(20, n) / n) ** recency, rtol=0.12)


@pytest.mark.parametrize(("name", "one_in"), [("first", 8), ("second", 8), ("third", 3)])
def test_one_mark_in_so_many_is_held_out(name, one_in):
    marks = jax.random.bits(jax.random.key(5), (8000,), jnp.uint32)
    held_out = int(jnp.sum(experts.is_held_out(marks, experts.PANELS[name])))
    assert 0.88 * 8000 / one_in < held_out < 1.12 * 8000 / one_in


def test_weights_lean_to_what_foretold_best_as_far_as_judgements_are_trusted():
    start = experts.empty(D, PANEL)
    same = np.concatenate(experts.weights(start, PANEL, jnp.asarray(1.0)))
    np.testing.assert_allclose(same, np.mean(PANEL.scales) / N, rtol=1e-12)
    sure = start._replace(judged=start.judged.at[2, 1].set(500.0) - 9000.0)
    lines, nets = experts.weights(sure, PANEL, jnp.asarray(1.0))
    expected = [0.0, 0.0, PANEL.scales[1], 0.0]
    np.testing.assert_allclose(lines, expected, atol=1e-12)
    np.testing.assert_allclose(nets, 0.0, atol=1e-12)
    blind = experts.weights(sure, PANEL, jnp.asarray(0.0))
    np.testing.assert_allclose(np.concatenate(blind), np.mean(PANEL.scales) / N, rtol=1e-12)


def test_the_steepness_is_a_running_mean_that_unseen_lists_do_not_move():
    features = jax.random.uniform(jax.random.key(4), (2, K, D))
    seen = jnp.array([True] * 4 + [False] * 2)
    bounds = [0.25 * float(jnp.sum((one[:4] - one[:4].mean(axis=0)) ** 2)) for one in features]
    known = experts.steepened(experts.empty(D, PANEL), features[0], seen, jnp.int32(1))
    np.testing.assert_allclose(known.steepness, bounds[0], rtol=1e-12)
    known = experts.steepened(known, features[1], seen, jnp.int32(2))
    np.testing.assert_allclose(known.steepness, np.mean(bounds), rtol=1e-12)
    same = experts.steepened(known, features[0], jnp.zeros(K, bool), jnp.int32(2))
    np.testing.assert_array_equal(same.steepness, known.steepness)


def test_means_of_experts_are_judged_as_they_foretell_and_give_their_weight_to_their_members():
    panel = PANEL._replace(networks=PANEL.networks[:1], lines=(1.0,), scales=(1.0, 0.5), means=True)
    np.testing.assert_allclose(panel.mixtures, [[0, 1], [1, 0], [0.5, 0.5]])
    scores, seen = jax.random.normal(jax.random.key(3), (2, K)), jnp.ones(K, bool)
    none, ones = jnp.zeros(K), jnp.ones(K)
    found = experts.foretold(panel, scores, none, none, ones, seen)
    each = [scores[1], scores[0], (scores[0] + scores[1]) / 2]
    for i, exact in enumerate(each):
        np.testing.assert_allclose(found[i, 0], exact - exact.mean(), rtol=1e-6)
        np.testing.assert_allclose(found[i, 1], (exact - exact.mean()) / 2, rtol=1e-6)
    known = experts.empty(D, panel)
    assert known.judged.shape == (3, 2)
    # The network at full scale counts 1, the line at half of it 1, and their mean at full scale e.
    judged = jnp.array([[0.0, -jnp.inf], [-jnp.inf, 0.0], [1.0, -jnp.inf]])
    of_lines, of_nets = experts.weights(known._replace(judged=judged), panel, jnp.asarray(1.0))
    total = 2.0 + np.e
    np.testing.assert_allclose(of_lines, [(0.5 * 1.0 + 0.5 * np.e) / total], rtol=1e-6)
    np.testing.assert_allclose(of_nets, [(1.0 + 0.5 * np.e) / total], rtol=1e-6)


def test_errors_that_cancel_in_a_mean_are_found_out():
    panel = PANEL._replace(networks=PANEL.networks[:1], lines=(1.0,), scales=(1.0,), means=True)
    known, seen = experts.empty(D, panel), jnp.ones(K, bool)
    none, ones = jnp.zeros(K), jnp.ones(K)
    for key in jax.random.split(jax.random.key(5), 200):
        truth, error, click = jax.random.normal(key, (3, K))
        scores = jnp.stack([2 * truth + 3 * error, 2 * truth - 3 * error])
        clicks = (jax.nn.sigmoid(2 * truth) > jax.scipy.stats.norm.cdf(click)).astype(float)
        found = experts.foretold(panel, scores, none, none, ones, seen)
        known = experts.judge(known, panel, found, clicks, seen, HABITS)
    of_lines, of_nets = experts.weights(known, panel, jnp.asarray(0.3))
    np.testing.assert_allclose([of_lines[0], of_nets[0]], 0.5, atol=0.01)
