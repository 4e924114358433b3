"""What a stop says of a document: found out from clicks, and never from what follows them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from olrank.feedback import cascade, stops
from olrank.users.user import User, click

pytestmark = pytest.mark.usefixtures("x64")

K = 10
BIAS = -0.5
SEEN = jnp.ones(K, bool)


def user(scores, rises):
    """Clicks by score, and stops by score as far as `rises` says: after a click, after none."""

    def stop(after, rise):
        return 1 / (1 + jnp.exp(after - rise * scores))

    return User(
        p_click=1 / (1 + jnp.exp(-(scores + BIAS))),
        p_stop_clicked=stop(0.5, rises[0]),
        p_stop_unclicked=stop(2.0, rises[1]),
        p_examine=np.ones(K),
        from_relevance=np.zeros(()),
    )


def habits_after(rises, known=None, n=1500):
    """Habits after n lists, with what is `known` of the scores when each is learned from."""
    rng = np.random.default_rng(4)
    scores = 1.5 * rng.normal(size=(n, K))
    given = scores if known is None else known(rng, scores)
    keys = jax.random.split(jax.random.key(8), n)
    clicks = jax.vmap(
        lambda key, mine: click(user(mine, rises), key, jnp.arange(K), jnp.zeros(K), SEEN).clicks
    )(keys, jnp.asarray(scores))

    def learn(habits, told):
        return stops.learned(habits, *told, SEEN), None

    first = jax.tree.map(jnp.asarray, stops.first_guess()._replace(bias=BIAS))
    return jax.lax.scan(learn, first, (jnp.asarray(given), clicks))[0]


@pytest.mark.parametrize("rises", [(0.8, 0.0), (0.6, 0.6)])
def test_how_much_a_stop_says_is_found_from_clicks_alone(rises):
    """1,500 lists, the last thousand of which count most; tolerances of some four errors."""
    habits = habits_after(rises)
    np.testing.assert_allclose(habits.sated.slopes, rises, atol=0.2)
    log_odds = jax.scipy.special.logit(jnp.stack([habits.after_click, habits.after_skip]))
    np.testing.assert_allclose(log_odds, [0.5, 2.0], atol=0.35)


def test_stops_by_chance_say_nothing():
    """With slopes of 0 both estimates stay within some four errors of it."""
    assert np.all(np.asarray(habits_after((0.0, 0.0)).sated.slopes) < 0.15)


def test_stops_say_nothing_of_scores_that_know_nothing():
    habits = habits_after((0.8, 0.4), known=lambda rng, mine: 1.5 * rng.normal(size=mine.shape))
    assert np.all(np.asarray(habits.sated.slopes) < 0.15)


def test_that_better_documents_keep_readers_is_not_believed():
    slopes = np.asarray(habits_after((-0.8, -0.8)).sated.slopes)
    assert np.all(slopes >= 0.0)
    assert np.all(slopes < 0.1)


def test_a_stop_says_no_more_of_a_document_than_a_click():
    np.testing.assert_allclose(habits_after((3.0, 0.0)).sated.slopes[0], 1.0)


def test_a_list_of_one_and_a_list_that_nobody_saw_decide_nothing():
    habits = habits_after((0.8, 0.4), n=50)
    for seen in (jnp.zeros(K, bool), jnp.arange(K) < 1):
        after = stops.learned(habits, jnp.ones(K), jnp.zeros(K), seen)
        np.testing.assert_allclose(after.sated.slopes, habits.sated.slopes, rtol=1e-12)
        np.testing.assert_allclose(after.after_click, habits.after_click, rtol=1e-12)


@pytest.mark.parametrize("scores", [np.full(K, np.nan), np.r_[1e30, np.zeros(K - 1)]])
def test_scores_that_are_no_numbers_or_huge_spoil_nothing(scores):
    habits = habits_after((0.8, 0.4), n=50)
    clicks = jnp.asarray(np.r_[1.0, 0, 1, np.zeros(K - 3)])
    after = stops.learned(habits, jnp.asarray(scores), clicks, SEEN)
    for leaf in jax.tree.leaves(after):
        assert np.all(np.isfinite(leaf))
    again = stops.learned(after, jnp.zeros(K), clicks, SEEN)
    assert np.all(np.isfinite(again.sated.slopes))


def test_nothing_is_said_until_it_is_known():
    habits = stops.first_guess()
    assert isinstance(habits, cascade.Habits)
    np.testing.assert_array_equal(habits.sated.slopes, np.zeros(2))
