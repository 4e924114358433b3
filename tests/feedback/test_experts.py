"""Experts that are weighed: judged on what was never read before, and trusted accordingly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from olrank.feedback import cascade, experts

pytestmark = pytest.mark.usefixtures("x64")

HABITS = cascade.FIRST_GUESS
D, K = 5, 6
N = len(experts.LINES) + len(experts.NETWORKS)


def test_a_judgement_is_the_likelihood_of_clicks_by_what_new_documents_score():
    scores = jax.random.normal(jax.random.key(2), (N, K))
    new = jnp.array([True, False, True, True, False, True])
    clicks, seen = jnp.array([1.0, 0, 0, 0, 1, 0]), jnp.array([True] * 5 + [False])
    after = experts.judge(experts.empty(D), scores, new, clicks, seen, HABITS)
    expected = np.zeros((N, len(experts.SCALES)))
    for e in range(N):
        level = float(scores[e, :5].mean())
        counted = jnp.where(new & seen, scores[e] - level, 0.0)
        for s, scale in enumerate(experts.SCALES):
            found = cascade.log_likelihood(scale * counted, clicks, seen, HABITS)
            expected[e, s] = float(found)
    np.testing.assert_allclose(after.judged, expected - expected.mean(), rtol=1e-7)


def test_nothing_new_is_no_evidence_and_neither_is_a_level():
    scores = jax.random.normal(jax.random.key(3), (N, K))
    clicks, seen = jnp.array([1.0, 0, 0, 0, 1, 0]), jnp.ones(K, bool)

    def judged(scores, new):
        known = experts.judge(experts.empty(D), scores, new, clicks, seen, HABITS)
        return np.asarray(known.judged)

    np.testing.assert_allclose(judged(scores, jnp.zeros(K, bool)), 0.0, atol=1e-12)
    everything = jnp.ones(K, bool)
    moved = scores + jnp.arange(1.0, N + 1)[:, None]
    np.testing.assert_allclose(judged(moved, everything), judged(scores, everything), rtol=1e-9)


def test_weights_lean_to_what_foretold_best_as_far_as_judgements_are_trusted():
    start = experts.empty(D)
    lines, nets = experts.weights(start, jnp.asarray(1.0))
    both = np.concatenate([lines, nets])
    np.testing.assert_allclose(both, np.mean(experts.SCALES) / N, rtol=1e-12)
    sure = start._replace(judged=start.judged.at[2, 1].set(500.0) - 9000.0)
    lines, nets = experts.weights(sure, jnp.asarray(1.0))
    expected = [0.0, 0.0, experts.SCALES[1], 0.0]
    np.testing.assert_allclose(lines, expected, atol=1e-12)
    np.testing.assert_allclose(nets, 0.0, atol=1e-12)
    blind = experts.weights(sure, jnp.asarray(0.0))
    np.testing.assert_allclose(np.concatenate(blind), both, rtol=1e-12)


def test_the_steepness_is_a_running_mean_that_unseen_lists_do_not_move():
    features = jax.random.uniform(jax.random.key(4), (2, K, D))
    seen = jnp.array([True] * 4 + [False] * 2)
    bounds = [0.25 * float(jnp.sum((one[:4] - one[:4].mean(axis=0)) ** 2)) for one in features]
    known = experts.steepened(experts.empty(D), features[0], seen, jnp.int32(1))
    np.testing.assert_allclose(known.steepness, bounds[0], rtol=1e-12)
    known = experts.steepened(known, features[1], seen, jnp.int32(2))
    np.testing.assert_allclose(known.steepness, np.mean(bounds), rtol=1e-12)
    same = experts.steepened(known, features[0], jnp.zeros(K, bool), jnp.int32(2))
    np.testing.assert_array_equal(same.steepness, known.steepness)
