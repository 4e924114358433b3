"""Experts that are weighed: judged on queries they know nothing of, and trusted accordingly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from olrank.feedback import cascade, experts

pytestmark = pytest.mark.usefixtures("x64")

HABITS = cascade.FIRST_GUESS
D, K = 5, 6
N = len(experts.LINES) + len(experts.NETWORKS)


def test_a_judgement_is_the_likelihood_of_clicks_by_what_was_foretold():
    scores = jax.random.normal(jax.random.key(2), (N, len(experts.SCALES), K))
    clicks, seen = jnp.array([1.0, 0, 0, 0, 1, 0]), jnp.array([True] * 5 + [False])
    after = experts.judge(experts.empty(D, len(experts.NETWORKS)), scores, clicks, seen, HABITS)
    each = [[float(cascade.log_likelihood(s, clicks, seen, HABITS)) for s in e] for e in scores]
    np.testing.assert_allclose(after.judged, np.array(each) - np.mean(each), rtol=1e-7)


def test_an_expert_foretells_new_documents_alone_and_known_ones_as_far_as_they_are_not():
    scores, served = jax.random.normal(jax.random.key(3), (N, K)), jnp.linspace(-1.0, 2.0, K)
    effects = jnp.array([0.0, 0.7, -0.4, 0.0, 0.3, 9.0])
    shares = jnp.array([1.0, 0.25, 0.0, 1.0, 0.5, 1.0])
    seen = jnp.array([True] * 5 + [False])
    found = experts.foretold(scores, served, effects, shares, seen)
    f = np.asarray(served - served[:5].mean())
    for e in range(N):
        own = np.asarray(scores[e] - scores[e, :5].mean())
        for s, scale in enumerate(experts.SCALES):
            np.testing.assert_allclose(found[e, s, [0, 3]], scale * own[[0, 3]], rtol=1e-9)
            np.testing.assert_allclose(found[e, s, 2], f[2] - 0.4, rtol=1e-9)
            expected = 0.75 * f[1] + 0.25 * scale * own[1] + 0.7
            np.testing.assert_allclose(found[e, s, 1], expected, rtol=1e-9)
            assert found[e, s, 5] == 0.0


def test_a_level_of_scores_is_no_evidence():
    scores, served = jax.random.normal(jax.random.key(3), (N, K)), jnp.linspace(-1.0, 2.0, K)
    effects, shares, seen = jnp.zeros(K), jnp.full(K, 0.5), jnp.ones(K, bool)
    moved = scores + jnp.arange(1.0, N + 1)[:, None]
    found = experts.foretold(moved, served + 3.0, effects, shares, seen)
    same = experts.foretold(scores, served, effects, shares, seen)
    np.testing.assert_allclose(found, same, atol=1e-12)


@pytest.mark.parametrize("recency", [0, 1, 2])
def test_judgements_fade_by_when_they_were_made(recency):
    n, rng = 60, np.random.default_rng(0)
    made = rng.normal(size=(n, N, len(experts.SCALES)))
    known = experts.empty(D, len(experts.NETWORKS))
    for s in range(n):
        known = known._replace(judged=known.judged + made[s])
        known = experts.faded(known, jnp.asarray(s + 1), recency)
    # What is made in round s meets the fading of this round already.
    kept = np.cumprod((1 - recency / np.maximum(np.arange(1, n + 1), recency or 1))[::-1])[::-1]
    expected = np.tensordot(kept, made, 1)
    np.testing.assert_allclose(known.judged, expected, atol=1e-9)
    if recency:
        np.testing.assert_allclose(kept[20:], (np.arange(20, n) / n) ** recency, rtol=0.12)


def test_one_mark_in_eight_is_held_out():
    marks = jax.random.bits(jax.random.key(5), (8000,), jnp.uint32)
    assert 880 < int(jnp.sum(experts.is_held_out(marks))) < 1120


def test_weights_lean_to_what_foretold_best_as_far_as_judgements_are_trusted():
    start = experts.empty(D, len(experts.NETWORKS))
    lines, nets = experts.weights(start, jnp.asarray(1.0))
    odds = np.exp([0.0] * len(lines) + [-net.doubt for net in experts.NETWORKS])
    expected = np.mean(experts.SCALES) * odds / odds.sum()
    np.testing.assert_allclose(np.concatenate([lines, nets]), expected, rtol=1e-12)
    assert odds.min() < 0.1
    sure = start._replace(judged=start.judged.at[2, 1].set(500.0) - 9000.0)
    lines, nets = experts.weights(sure, jnp.asarray(1.0))
    expected = [0.0, 0.0, experts.SCALES[1], 0.0]
    np.testing.assert_allclose(lines, expected, atol=1e-12)
    np.testing.assert_allclose(nets, 0.0, atol=1e-12)
    blind = experts.weights(sure, jnp.asarray(0.0))
    np.testing.assert_allclose(np.concatenate(blind), np.mean(experts.SCALES) / N, rtol=1e-12)


def test_the_steepness_is_a_running_mean_that_unseen_lists_do_not_move():
    features = jax.random.uniform(jax.random.key(4), (2, K, D))
    seen = jnp.array([True] * 4 + [False] * 2)
    bounds = [0.25 * float(jnp.sum((one[:4] - one[:4].mean(axis=0)) ** 2)) for one in features]
    known = experts.steepened(
        experts.empty(D, len(experts.NETWORKS)), features[0], seen, jnp.int32(1)
    )
    np.testing.assert_allclose(known.steepness, bounds[0], rtol=1e-12)
    known = experts.steepened(known, features[1], seen, jnp.int32(2))
    np.testing.assert_allclose(known.steepness, np.mean(bounds), rtol=1e-12)
    same = experts.steepened(known, features[0], jnp.zeros(K, bool), jnp.int32(2))
    np.testing.assert_array_equal(same.steepness, known.steepness)
