"""Documents' own effects: found again by their features, and learned as a mixed model would."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from olrank.feedback import documents

pytestmark = pytest.mark.usefixtures("x64")

X = np.random.default_rng(1).random((6, 3), np.float32)
SLOPES = np.array([0.5, -0.2, 0.1])
CURVATURES = np.array([0.25, 0.2, 0.1])
READS = np.array([1.0, 0.8, 0.3])


def learned(table=None, rows=(0, 1, 2), slopes=SLOPES, reads=READS, size=64, prior=2.0):
    table = documents.empty(size, prior) if table is None else table
    return documents.learn(table, X[list(rows)], slopes, CURVATURES, reads)


def test_nobody_is_known_at_first_and_strangers_never_are():
    for table in (documents.empty(64, 2.0), learned()):
        known = documents.look_up(table, X[3:])
        for values in (known.effects, known.precisions, known.reads):
            np.testing.assert_array_equal(values, np.zeros(3))
        np.testing.assert_array_equal(known.shares, np.ones(3))


def test_an_impression_is_one_newton_step_for_each_document():
    known = documents.look_up(learned(), X[:3])
    np.testing.assert_allclose(known.effects, SLOPES / (2.0 + CURVATURES), rtol=1e-12)
    np.testing.assert_allclose(known.precisions, CURVATURES, rtol=1e-12)
    np.testing.assert_allclose(known.reads, READS, rtol=1e-12)
    np.testing.assert_allclose(known.shares, 2.0 / (2.0 + CURVATURES), rtol=1e-12)
    again = documents.look_up(learned(learned(), rows=(2, 0, 1)), X[:1])
    expected = 0.5 / 2.25 - 0.2 / (2.0 + 0.25 + 0.2)  # now at the second slot
    np.testing.assert_allclose(again.effects, [expected], rtol=1e-12)


def test_a_document_is_known_again_wherever_it_stands_and_in_single_precision():
    table, padded = learned(), np.concatenate([X[3:], np.zeros((5, 3)), X[1:2]])
    whole = documents.look_up(table, X[1:2]).effects
    np.testing.assert_array_equal(documents.look_up(table, padded).effects[-1:], whole)
    single = documents.look_up(table, X[1:2].astype(np.float64)).effects
    np.testing.assert_array_equal(single, whole)


def test_both_zeros_are_one():
    zeros = jnp.zeros((1, 3))
    table = documents.empty(64, 2.0)
    table = documents.learn(table, zeros, SLOPES[:1], CURVATURES[:1], READS[:1])
    assert documents.look_up(table, -zeros).effects[0] != 0


def test_what_was_not_read_leaves_the_table_as_it_is():
    before = learned()
    after = learned(before, rows=(3, 4, 0), reads=jnp.zeros(3))
    jax.tree.map(np.testing.assert_array_equal, before, after)


def test_a_newcomer_takes_over_the_place_of_another():
    table = learned(size=1, reads=jnp.array([1.0, 0, 0]))
    assert documents.look_up(table, X[:1]).effects[0] != 0
    table = learned(table, rows=(4, 1, 2), size=1, reads=jnp.array([1.0, 0, 0]))
    found = documents.look_up(table, X[[0, 4]])
    np.testing.assert_allclose(found.effects, [0.0, 0.5 / 2.25], rtol=1e-12)


def test_of_two_that_want_one_place_the_upper_one_gets_it():
    found = documents.look_up(learned(size=1), X[:3])
    np.testing.assert_allclose(found.effects, [0.5 / 2.25, 0, 0], rtol=1e-12)


def test_documents_that_look_the_same_learn_as_one():
    found = documents.look_up(learned(rows=(0, 1, 0)), X[:1])
    np.testing.assert_allclose(found.effects, [0.6 / 2.35], rtol=1e-12)
    np.testing.assert_allclose(found.reads, [1.3], rtol=1e-12)


def test_many_reads_end_near_the_best_effect_of_the_mixed_model():
    """One document, read 200 times and clicked in 150 of them, prior variance 1/2."""
    clicks = np.random.default_rng(0).permutation(np.arange(200) < 150)
    table = documents.empty(64, 2.0)
    for clicked in clicks:
        known = documents.look_up(table, X[:1])
        p = jax.nn.sigmoid(known.effects)
        table = documents.learn(table, X[:1], clicked - p, p * (1 - p), jnp.ones(1))
    best = 0.0
    for _ in range(50):  # Newton's method on the whole log-posterior
        p = 1 / (1 + np.exp(-best))
        best += (150 - 200 * p - 2.0 * best) / (200 * p * (1 - p) + 2.0)
    found = float(documents.look_up(table, X[:1]).effects[0])
    assert found == pytest.approx(best, abs=0.1)


def test_places_and_fingerprints_are_spread_evenly():
    x = jax.random.uniform(jax.random.key(2), (4096, 7))
    starts, prints = np.asarray(documents._hashes(x)).T
    counts = np.bincount(starts % 256, minlength=256)
    assert 60 < np.sum((counts - 16.0) ** 2 / 16.0) / 256 * 100 < 140  # chi-square / freedom
    assert len(np.unique(prints)) > 4090


def test_reads_of_new_documents_are_worth_one_each_and_of_known_ones_less():
    assert documents.worth(documents.empty(8, 2.0)) == 1.0
    table = learned()
    shares = 2.0 / (2.0 + CURVATURES)
    np.testing.assert_allclose(
        documents.worth(table), np.sum(READS * shares) / np.sum(READS), rtol=1e-12
    )
    assert documents.worth(learned(table)) < documents.worth(table) < 1.0


def test_effects_follow_at_once_when_their_variance_is_thought_to_be_another():
    table = learned(learned(), rows=(2, 0, 1))
    tighter = learned(learned(prior=8.0), rows=(2, 0, 1))
    moved = table._replace(prior=jnp.asarray(8.0))
    first, other = (documents.look_up(one, X[:3]) for one in (moved, tighter))
    # One read says the same under every prior; the second is taken where the first has led.
    assert np.all(np.abs(first.effects) < 0.5 * np.abs(documents.look_up(table, X[:3]).effects))
    np.testing.assert_allclose(first.effects, other.effects, atol=0.02)
    np.testing.assert_allclose(first.shares, other.shares, rtol=1e-12)


@pytest.mark.parametrize(("spread", "low", "high"), [(0.2, 8, 25), (0.7, 1.7, 3), (1.5, 0.4, 0.8)])
def test_the_variance_is_estimated_from_what_users_say(spread, low, high):
    """800 documents, read 30 times each; the first guess, 1/2, counts where reads say little."""
    rng, n = np.random.default_rng(3), 800
    x = rng.random((n, 3), np.float32)
    own = spread * rng.normal(size=n)
    clicked = rng.random((30, n)) < 1 / (1 + np.exp(-own))

    @jax.jit
    def read(table, clicks):
        p = jax.nn.sigmoid(documents.look_up(table, x).effects)
        table = documents.learn(table, x, clicks - p, p * (1 - p), jnp.ones(n))
        return documents.estimated(table, jnp.asarray(2.0))

    table = documents.empty(1 << 20, 2.0)
    for clicks in clicked:
        table = read(table, clicks)
    for _ in range(50):
        table = documents.estimated(table, jnp.asarray(2.0))
    assert low < float(table.prior) < high


def test_nobody_known_leaves_the_first_guess():
    table = documents.estimated(documents.empty(8, 7.0), jnp.asarray(2.0))
    assert float(table.prior) == pytest.approx(2.0)


def test_a_mark_is_of_the_documents_and_not_of_their_order_or_padding():
    everyone = jnp.ones(X.shape[0], bool)
    mark = int(documents.mark(X, everyone))
    assert int(documents.mark(X[::-1], everyone)) == mark
    padded = jnp.concatenate([X, jnp.zeros((3, X.shape[1]), X.dtype)])
    assert int(documents.mark(padded, jnp.arange(padded.shape[0]) < X.shape[0])) == mark
    marks = {int(documents.mark(X[i : i + 1], jnp.ones(1, bool))) for i in range(X.shape[0])}
    assert len(marks) == X.shape[0]
    assert min(marks) == mark


def test_a_table_that_is_half_full_has_lost_nearly_nobody():
    x = jax.random.uniform(jax.random.key(3), (512, 3))
    table, one = documents.empty(1024, 2.0), jnp.ones(1)

    def read(table, features):
        return documents.learn(table, features[None], one, 0.25 * one, one), None

    table, _ = jax.lax.scan(read, table, x)
    known = documents.look_up(table, x).reads
    # With one place for each it would be a fifth of them.
    assert int(jnp.sum(known == 0)) < 0.005 * 512


def test_who_has_a_place_keeps_it_and_newcomers_take_free_ones_first():
    table = jnp.zeros(8, jnp.uint32).at[jnp.array([2, 3])].set(jnp.array([11, 12], jnp.uint32))
    starts, prints = jnp.full(3, 2, jnp.uint32), jnp.array([12, 11, 13], jnp.uint32)
    found, known = documents.places(table, starts, prints)
    # Their places are 2, 2 + 13, ..., and so on, modulo 8.
    np.testing.assert_array_equal(found, [(2 + 13 * 5) % 8, 2, (2 + 13) % 8])
    np.testing.assert_array_equal(known, [True, True, False])
    full = jnp.arange(20, 28, dtype=jnp.uint32)
    found, known = documents.places(full, starts, prints)
    np.testing.assert_array_equal(found, [2, 2, 2])
    np.testing.assert_array_equal(known, [False] * 3)
    last, _ = documents.places(table, jnp.array([7], jnp.uint32), jnp.array([5], jnp.uint32))
    np.testing.assert_array_equal(last, [7])
