"""Lines that are weighed: judged on what they have not learned from, and trusted accordingly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from olrank.feedback import cascade, documents, lines

pytestmark = pytest.mark.usefixtures("x64")

HABITS = cascade.FIRST_GUESS
D = 5


def test_half_of_all_documents_are_in_each_half_and_stay_there():
    features = jax.random.uniform(jax.random.key(0), (4000, D))
    halves = np.asarray(documents.halves(features))
    assert 0.46 < halves.mean() < 0.54  # five standard deviations
    np.testing.assert_array_equal(halves[::-1], documents.halves(features[::-1]))
    np.testing.assert_array_equal(halves, documents.halves(features.astype(jnp.float32)))


def test_a_log_likelihood_knows_only_how_the_counted_documents_differ():
    scores = jnp.array([[0.3, -1.0, 2.0, 0.5], [0.0, 0.0, 0.0, 0.0]])
    counted, seen = jnp.array([True, False, True, True]), jnp.ones(4, bool)
    clicks = jnp.array([0.0, 1.0, 0.0, 1.0])
    found = lines.log_likelihoods(scores, counted, clicks, seen, HABITS)
    mean = (0.3 + 2.0 + 0.5) / 3
    alone = jnp.array([0.3 - mean, 0.0, 2.0 - mean, 0.5 - mean])
    expected = cascade.log_likelihood(alone, clicks, seen, HABITS)
    np.testing.assert_allclose(found[0], expected, rtol=1e-12)
    moved = scores.at[0].add(7.0).at[0, 1].set(99.0)  # a level, and a document that counts not
    again = lines.log_likelihoods(moved, counted, clicks, seen, HABITS)
    np.testing.assert_allclose(again, found, rtol=1e-12)


def test_a_copy_is_judged_on_the_half_that_it_does_not_learn_from():
    features = jax.random.uniform(jax.random.key(1), (6, D))
    halves = jnp.array([True, False, True, False, True, False])
    clicks, seen = jnp.array([1.0, 0, 0, 0, 1, 0]), jnp.ones(6, bool)
    betas = jax.random.normal(jax.random.key(2), (2, len(lines.PULLS), D))
    start = lines.empty(D)._replace(betas=betas)
    after = lines.judge(start, features, halves, clicks, seen, HABITS, jnp.int32(1))
    expected = np.array([
        sum(
            float(
                lines.log_likelihoods(
                    (features @ betas[copy, e])[None], halves != bool(copy), clicks, seen, HABITS
                )[0]
            )
            for copy in (0, 1)
        )
        for e in range(len(lines.PULLS))
    ])  # fmt: skip
    np.testing.assert_allclose(after.judged, expected - expected.mean(), rtol=1e-7)
    np.testing.assert_array_equal(after.betas, betas)


def test_the_line_that_serves_leans_to_what_foretold_best():
    betas = jax.random.normal(jax.random.key(3), (2, len(lines.PULLS), D))
    start = lines.empty(D)._replace(betas=betas)
    np.testing.assert_allclose(lines.served(start), betas.mean(axis=(0, 1)), rtol=1e-12)
    sure = start._replace(judged=jnp.zeros(len(lines.PULLS)).at[2].set(500.0) - 9000.0)
    np.testing.assert_allclose(lines.served(sure), betas[:, 2].mean(axis=0), rtol=1e-12)
