import ir_measures
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ir_measures import RR, Qrel, ScoredDoc

from olrank.metrics.ranking import average_relevant_position, err, reciprocal_rank


def shown(*flags: int):
    return jnp.array(flags, dtype=bool)


def test_reciprocal_rank_is_one_over_the_rank_of_the_first_relevant():
    assert reciprocal_rank(jnp.array([0, 0, 1, 2]), shown(1, 1, 1, 1)) == pytest.approx(1 / 3)
    assert reciprocal_rank(jnp.array([3, 0, 1]), shown(1, 1, 1)) == 1


def test_reciprocal_rank_heeds_threshold_cut_off_and_what_was_shown():
    grades = jnp.array([0, 1, 0, 2])
    assert reciprocal_rank(grades, shown(1, 1, 1, 1), threshold=2) == 1 / 4
    assert reciprocal_rank(grades, shown(1, 1, 1, 1), k=1) == 0
    assert reciprocal_rank(grades, shown(1, 1, 1, 1), k=2) == 1 / 2
    assert reciprocal_rank(grades, shown(1, 0, 0, 0)) == 0


def test_reciprocal_rank_agrees_with_ir_measures():
    rng = np.random.default_rng(3)
    grades = rng.integers(0, 3, (30, 12)) * rng.integers(0, 2, (30, 12))
    qrels = [Qrel(f"{q}", f"d{i}", int(g)) for (q, i), g in np.ndenumerate(grades)]
    run = [ScoredDoc(f"{q}", f"d{i}", float(-i)) for q in range(30) for i in range(12)]
    measure = RR(rel=2) @ 10
    theirs = ir_measures.calc_aggregate([measure], qrels, run)[measure]
    ours = reciprocal_rank(jnp.asarray(grades), jnp.ones((30, 12), bool), k=10, threshold=2)
    assert float(jnp.mean(ours)) == pytest.approx(theirs, rel=1e-6)


def test_err_is_as_by_hand():
    # Of five grades: 4 satisfies with 15/16, 1 with 1/16, 0 never.
    expected = (1 / 16) / 1 + (15 / 16) * 0 / 2 + (15 / 16) * (15 / 16) / 3
    assert err(jnp.array([1, 0, 4]), shown(1, 1, 1), max_grade=4) == pytest.approx(expected)


def test_err_heeds_scale_cut_off_and_what_was_shown():
    grades = jnp.array([1, 1, 1])
    assert err(grades, shown(1, 1, 1), max_grade=1, k=1) == 1 / 2
    assert err(grades, shown(1, 1, 1), max_grade=1, k=2) == 1 / 2 + 1 / 2 * 1 / 2 / 2
    assert err(grades, shown(1, 1, 0), max_grade=1) == 1 / 2 + 1 / 2 * 1 / 2 / 2
    assert err(grades, shown(1, 0, 0), max_grade=2) == 1 / 4
    assert err(grades, shown(0, 0, 0), max_grade=2) == 0


def test_average_relevant_position_is_the_mean_rank_of_the_relevant():
    grades = jnp.array([0, 1, 0, 2, 4])
    everything = shown(1, 1, 1, 1, 1)
    assert average_relevant_position(grades, everything) == pytest.approx((2 + 4 + 5) / 3)
    assert average_relevant_position(grades, everything, threshold=2) == (4 + 5) / 2
    assert average_relevant_position(grades, everything, k=4) == (2 + 4) / 2
    assert average_relevant_position(grades, shown(1, 1, 1, 0, 0)) == 2


def test_average_relevant_position_without_a_relevant_document_is_nan():
    assert jnp.isnan(average_relevant_position(jnp.array([0, 0]), shown(1, 1)))
    assert jnp.isnan(average_relevant_position(jnp.array([2, 2]), shown(0, 0)))


def test_a_batch_of_lists_is_measured_list_by_list_under_jit():
    rng = np.random.default_rng(0)
    grades = jnp.asarray(rng.integers(1, 5, (6, 10)))
    flags = jnp.arange(10) < jnp.arange(1, 7)[:, None]
    metrics = [
        reciprocal_rank,
        average_relevant_position,
        lambda grades, shown: err(grades, shown, max_grade=4, k=5),
    ]
    for metric in metrics:
        alone = [float(metric(g, s)) for g, s in zip(grades, flags, strict=True)]
        np.testing.assert_allclose(jax.jit(metric)(grades, flags), alone, rtol=1e-6)


def test_in_float64_the_metrics_are_float64():
    with jax.enable_x64(True):
        grades, flags = jnp.array([0, 0, 1]), shown(1, 1, 1)
        assert float(reciprocal_rank(grades, flags)) == 1 / 3
        assert err(grades, flags, max_grade=4).dtype == jnp.float64
        assert average_relevant_position(grades, flags).dtype == jnp.float64
