"""The line of a mixed model: its equations follow every impression, and it solves them."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from olrank.feedback import mixed, stops
from olrank.feedback.cascade import FIRST_GUESS, Decisions

D, K = 3, 4
EFFECT_PRIOR, LEVEL_PRIOR, BIAS = 2.0, 0.5, -0.3
HABITS = FIRST_GUESS._replace(bias=BIAS)
LEARN = jax.jit(mixed.learn)


def lesson(features, clicks, read=None, mark=7, held_out=False, habits=HABITS, decided=None):
    n = len(features)
    nothing = Decisions(jnp.zeros(n), jnp.zeros(n))
    return mixed.Lesson(
        features=jnp.asarray(features),
        clicks=jnp.asarray(clicks, float),
        read=jnp.ones(n) if read is None else jnp.asarray(read, float),
        mark=jnp.uint32(mark),
        held_out=jnp.asarray(held_out),
        decisions=nothing if decided is None else Decisions(*map(jnp.asarray, decided)),
        habits=habits,
        effect_prior=EFFECT_PRIOR,
        level_prior=LEVEL_PRIOR,
    )


def taught(model, lists):
    for one in lists:
        model = LEARN(model, one)
    return model


def some_lists(n, n_queries=3, seed=0, dtype=np.float64, held_out=()):
    """Lists of four out of six documents of a query, read in part and clicked at random."""
    rng = np.random.default_rng(seed)
    queries = rng.random((n_queries, 6, D)).astype(dtype)
    for _ in range(n):
        q = int(rng.integers(n_queries))
        shown = rng.choice(6, K, replace=False)
        read = np.r_[1.0, rng.random(K - 1)]
        clicks = (rng.random(K) < 0.4) * (read > 0.5)
        yield lesson(queries[q, shown], clicks, read, mark=q + 1, held_out=q in held_out)


def equations(model, lists, held_out):
    """The same equations made at once from what the tables say of every document."""
    features = {}
    for one in lists:
        for x in np.asarray(one.features):
            features[int(one.mark), x.tobytes()] = x
    marks = np.asarray(model.queries.marks)
    curvature, slope = np.zeros((D, D)), np.zeros(D)
    for mark in {mark for mark, _ in features} - set(held_out):
        row = int(np.flatnonzero(marks == mark)[0])
        mine = [x for (of, _), x in features.items() if of == mark]
        x = np.array(mine) - np.asarray(model.queries.centres[row])
        weights, targets = counted(model, mine, mark)
        sums, total = weights @ x, LEVEL_PRIOR + weights.sum()
        curvature += (x.T * weights) @ x - np.outer(sums, sums) / total
        slope += targets @ x - sums * targets.sum() / total
    return curvature, slope


def counted(model, features, mark):
    """What one query's documents are counted with: precisions, and these times log-odds."""
    seen = model.sightings
    same = mixed.documents.fingerprints(jnp.asarray(np.array(features))) ^ jnp.uint32(
        mark * 0x9E3779B1 & 0xFFFFFFFF
    )
    at = [int(np.flatnonzero(np.asarray(seen.fingerprints) == int(one))[0]) for one in same]
    return np.asarray(seen.weights)[at], np.asarray(seen.targets)[at]


@pytest.mark.usefixtures("x64")
def test_the_equations_are_those_of_all_documents_at_once_with_the_levels_summed_out():
    lists = list(some_lists(60, held_out=(1,)))
    model = taught(mixed.empty(D, 64, 8), lists)
    for place, left_out in ((0, (2,)), (1, ())):
        curvature, slope = equations(model, lists, left_out)
        np.testing.assert_allclose(model.lines.curvature[place], curvature, atol=1e-9)
        np.testing.assert_allclose(model.lines.slope[place], slope, atol=1e-9)


@pytest.mark.usefixtures("x64")
def test_a_documents_reads_are_one_look_at_its_log_odds():
    x = np.eye(D)[:1]
    model = LEARN(mixed.empty(D, 16, 2), lesson(x, [1.0]))
    p = 1.0 / (1.0 + np.exp(-BIAS))  # nothing is foretold yet
    w = p * (1.0 - p)
    share = EFFECT_PRIOR / (EFFECT_PRIOR + w)
    weights, targets = counted(model, x, 7)
    np.testing.assert_allclose(weights, [share * w], rtol=1e-12)
    np.testing.assert_allclose(targets, [share * (1.0 - p)], rtol=1e-12)


@pytest.mark.usefixtures("x64")
def test_a_click_that_weighs_more_counts_as_so_many():
    x = np.eye(D)[:2]
    one = LEARN(mixed.empty(D, 16, 2), lesson(x, [3.0, 0.0]))
    weights, targets = counted(one, x, 7)
    p = 1.0 / (1.0 + np.exp(-BIAS))
    w = 3.0 * p * (1.0 - p)
    np.testing.assert_allclose(weights[0], w * EFFECT_PRIOR / (EFFECT_PRIOR + w), rtol=1e-12)
    assert targets[0] > 0 > targets[1]


@pytest.mark.usefixtures("x64")
def test_decisions_to_read_on_count_by_what_they_say():
    """Two lists: clicked and read on after in half of all cases; then skipped, and stopped at."""
    x, rises = np.eye(D)[:1], np.array([0.8, 0.3])
    habits = stops.first_guess()._replace(bias=BIAS, after_click=0.6, after_skip=0.9)
    habits = habits._replace(sated=habits.sated._replace(slopes=jnp.asarray(rises)))
    clicked = lesson(x, [1.0], habits=habits, decided=([0.5], [0.5]))
    model = LEARN(mixed.empty(D, 16, 2), clicked)
    p = 1.0 / (1.0 + np.exp(-BIAS))  # nothing is foretold yet
    slope = (1.0 - p) + 0.8 * (0.5 - 1.0 * 0.4)
    w = p * (1.0 - p) + 0.8**2 * 0.6 * 0.4
    share = EFFECT_PRIOR / (EFFECT_PRIOR + w)
    weights, targets = counted(model, x, 7)
    np.testing.assert_allclose(weights, [share * w], rtol=1e-12)
    np.testing.assert_allclose(targets, [share * slope], rtol=1e-12)
    skipped = lesson(x, [0.0], habits=habits, decided=([0.0], [1.0]))
    alike = [lesson(x, one.clicks, decided=one.decisions) for one in (clicked, skipped)]
    after = counted(LEARN(model, skipped), x, 7)
    told = taught(mixed.empty(D, 16, 2), alike)
    assert after[0] > counted(told, x, 7)[0]
    seen = told.sightings
    at = int(np.argmax(np.asarray(seen.reads)))
    np.testing.assert_allclose(seen.went_on[at], [0.5, 0.0])
    np.testing.assert_allclose(seen.stopped[at], [0.5, 1.0])


@pytest.mark.usefixtures("x64")
def test_however_often_a_document_is_read_it_counts_for_no_more_than_its_effects_prior():
    x = np.random.default_rng(0).random((K, D))
    model = taught(mixed.empty(D, 16, 2), [lesson(x, [1, 0, 1, 0])] * 300)
    weights, _ = counted(model, x, 7)
    assert np.all(weights < EFFECT_PRIOR)
    assert np.all(weights > 0.7 * EFFECT_PRIOR)


@pytest.mark.usefixtures("x64")
def test_what_was_once_shown_and_not_liked_is_held_against_what_is_liked_now():
    good, bad = np.tile([1.0, 0, 0], (K, 1)), np.tile([0, 1.0, 0], (K, 1))
    good, bad = good + 1e-3 * np.eye(K, D), bad + 1e-3 * np.eye(K, D)
    lists = [lesson(bad, np.zeros(K))] + [lesson(good, np.ones(K))] * 5
    line = np.asarray(taught(mixed.empty(D, 64, 4), lists).lines.betas[1])
    assert line[0] > 0.01 > -0.01 > line[1]
    apart = [lists[0]] + [one._replace(mark=jnp.uint32(9)) for one in lists[1:]]
    line = np.asarray(taught(mixed.empty(D, 64, 4), apart).lines.betas[1])
    assert np.abs(line).max() < 1e-3  # of two queries: each list is all alike


@pytest.mark.usefixtures("x64")
def test_the_line_finds_what_clicks_follow_from_though_queries_differ_in_level():
    rng = np.random.default_rng(3)
    beta, model = np.array([2.0, -1.0, 0.0]), mixed.empty(D, 8192, 1024)
    for mark in range(1, 401):
        x = rng.random((K, D))
        log_odds = BIAS + rng.normal(0, 1) + (x - x.mean(0)) @ beta + rng.normal(0, 0.5, K)
        clicks = rng.random(K) < 1 / (1 + np.exp(-log_odds))
        model = LEARN(model, lesson(x, clicks, mark=mark * 977))
    found = np.asarray(model.lines.betas[1])
    # 1,600 reads: a standard error of about .25 for each of the three.
    assert np.abs(found - beta).max() < 0.75
    assert 0.1 < float(model.lines.pulls[1]) < 3.0  # 3 / ||beta||^2 is .6


def test_documents_that_look_the_same_are_counted_once_with_all_their_reads():
    x = np.random.default_rng(0).random((2, D)).astype(np.float32)
    twice = LEARN(mixed.empty(D, 256, 2), lesson(x[[0, 0, 1]], [1, 0, 0]))
    at = np.flatnonzero(np.asarray(twice.sightings.fingerprints))
    assert sorted(np.asarray(twice.sightings.reads)[at]) == [1.0, 2.0]
    assert sorted(np.asarray(twice.sightings.clicks)[at]) == [0.0, 1.0]


def test_what_was_not_read_leaves_everything_as_it_is():
    before = taught(mixed.empty(D, 16, 2), some_lists(5, dtype=np.float32))
    after = LEARN(before, lesson(np.ones((K, D), np.float32), np.zeros(K), np.zeros(K)))
    same = partial(jax.tree.map, np.testing.assert_array_equal)
    same(after.sightings, before.sightings)
    same(after.queries, before.queries)
    np.testing.assert_array_equal(after.lines.curvature, before.lines.curvature)


@pytest.mark.parametrize("what", ["features", "read"])
def test_what_is_no_number_is_left_out_and_the_rest_is_learned(what):
    x = np.random.default_rng(0).random((K, D)).astype(np.float32)
    known = LEARN(mixed.empty(D, 256, 4), lesson(x, [1, 0, 1, 0]))
    one = lesson(x, [1, 0, 1, 0])
    broken = one._replace(**{what: getattr(one, what).at[2].set(jnp.nan)})
    after = LEARN(known, broken)
    for leaf in jax.tree.leaves(after):
        assert np.all(np.isfinite(np.asarray(leaf, float)))
    assert float(after.sightings.reads.sum()) == 4 + 3


def test_tables_that_overflow_go_on_learning():
    model = taught(mixed.empty(D, 8, 2), some_lists(300, n_queries=20, dtype=np.float32))
    for leaf in jax.tree.leaves(model):
        assert np.all(np.isfinite(np.asarray(leaf, float)))
    assert np.all(np.linalg.eigvalsh(np.asarray(model.lines.curvature[1], float)) > 0)


def test_after_forgetting_it_learns_as_if_it_had_never_known_anything():
    lists = list(some_lists(20, seed=2, dtype=np.float32))
    known = taught(mixed.empty(D, 64, 8), some_lists(50, seed=1, dtype=np.float32))
    anew, first = taught(mixed.forgotten(known), lists), taught(mixed.empty(D, 64, 8), lists)
    jax.tree.map(np.testing.assert_array_equal, anew.lines, first.lines)


def test_single_precision_does_not_drown_in_many_changes_of_the_same_documents():
    lines = taught(mixed.empty(D, 64, 8), some_lists(3000, dtype=np.float32)).lines
    with jax.enable_x64(True):
        exact = taught(mixed.empty(D, 64, 8), some_lists(3000, dtype=np.float32)).lines
    np.testing.assert_allclose(lines.betas, exact.betas, atol=2e-3)
