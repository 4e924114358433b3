"""Doubt: what knowing nothing would have explained better is counted, and leads to an alarm."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rankers.served import impression_of

from olrank.feedback import cascade, doubt
from olrank.feedback.impressions import empty, held, with_impression

pytestmark = pytest.mark.usefixtures("x64")

HABITS = cascade.Habits(bias=-0.5, after_click=0.7, after_skip=0.9)
PRIOR = jnp.asarray(1.0)
SEEN = jnp.ones(4, bool)
ALARM = 20.0


def after(known, scores, clicks, n=1, seen=SEEN):
    given = jnp.asarray(scores, float), jnp.asarray(clicks, float)
    return doubt.after(known, *given, seen, HABITS, PRIOR, jnp.int32(n))


def explained(scores, clicks):
    placed = cascade.placed(scores, clicks, SEEN, HABITS, jnp.ones(4), PRIOR)
    return float(cascade.log_likelihood(placed, clicks, SEEN, HABITS))


def test_doubt_is_what_no_scores_explain_better_than_those_that_a_list_was_drawn_with():
    scores, clicks = jnp.array([1.0, 0.5, -0.5, -1.0]), jnp.array([0.0, 0, 0, 1])
    better = explained(jnp.zeros(4), clicks) - explained(scores, clicks)
    assert better > 0
    assert float(after(doubt.none(), scores, clicks).nats) == pytest.approx(better, rel=1e-12)
    twice = after(after(doubt.none(), scores, clicks), scores, clicks)
    assert float(twice.nats) == pytest.approx(2 * better, rel=1e-12)


def test_what_scores_explain_takes_doubt_away_and_never_below_nothing():
    scores, surprising, expected = [1.0, 0.5, -0.5, -1.0], [0, 0, 0, 1], [1, 0, 0, 0]
    high = after(doubt.none(), scores, surprising, n=1)
    low = after(high, scores, expected, n=2)
    assert 0 <= float(low.nats) < float(high.nats)
    assert float(after(doubt.none(), scores, expected).nats) == 0.0


def test_it_is_remembered_where_doubt_arose():
    scores, surprising, expected = [2.0, 1.0, -1.0, -2.0], [0, 0, 0, 1], [1, 1, 0, 0]
    known = doubt.none()
    for n, clicks in enumerate([expected, expected, surprising, surprising], 1):
        known = after(known, scores, clicks, n)
    assert float(known.nats) > 0
    assert int(known.since) == 2
    forgotten = doubt.forgotten(known, jnp.int32(4))
    assert (float(forgotten.nats), int(forgotten.since), int(forgotten.first)) == (0.0, 4, 2)


@pytest.mark.parametrize("scale", [1.0, jnp.nan])
def test_one_list_says_no_more_than_a_bound(scale):
    scores = jnp.array([900.0, 500.0, -500.0, -900.0]) * scale
    assert float(after(doubt.none(), scores, [0, 0, 0, 1]).nats) == 4.0


def test_a_list_that_nobody_saw_leaves_it_as_it_is():
    known = after(doubt.none(), [1.0, 0.5, -0.5, -1.0], [0, 0, 0, 1])
    same = after(known, [1.0, 0.5, -0.5, -1.0], [0, 0, 0, 0], seen=jnp.zeros(4, bool))
    assert float(same.nats) == pytest.approx(float(known.nats), abs=1e-12)


def drawn(key, tastes):
    """[n, 4] clicks of users who read all that they are shown and want `tastes` [n, 4]."""
    return jax.random.bernoulli(key, jax.nn.sigmoid(tastes + HABITS.bias)).astype(float)


@pytest.mark.parametrize("strength", [0.3, 1.0, 3.0])
def test_no_alarm_while_what_was_learned_holds_and_one_soon_after_it_does_not(strength):
    # 2,000 lists; by exp(20) lists on average to a false alarm, one in 240,000 such tests has one.
    n, keys = 2000, jax.random.split(jax.random.key(3), 4)
    scores = strength * jax.random.normal(keys[0], (n, 4))
    others = strength * jax.random.normal(keys[1], (n, 4))
    habits = HABITS._replace(after_click=1.0, after_skip=1.0)

    def step(known, given):
        scores, clicks, number = given
        known = doubt.after(known, scores, clicks, SEEN, habits, PRIOR, number)
        return known, known.nats

    def nats(key, tastes):
        given = scores, drawn(key, tastes), jnp.arange(1, n + 1, dtype=jnp.int32)
        return np.asarray(jax.lax.scan(step, doubt.none(), given)[1])

    assert nats(keys[2], scores).max() < ALARM
    alarm = np.flatnonzero(nats(keys[3], others) > ALARM)
    assert alarm.size
    assert alarm[0] < {0.3: 1900, 1.0: 300, 3.0: 60}[strength]


def test_what_came_before_the_doubt_is_not_drawn_from_any_more():
    memory = empty(3, 2, doubt=doubt.none())
    for _ in range(5):
        memory = with_impression(memory, impression_of([0, 1], [1, 0]))
    assert [int(x) for x in held(memory)] == [2, 3]  # the ring's own length
    for first, expected in ((1, [2, 3]), (4, [4, 1]), (5, [5, 0])):
        known = memory.doubt._replace(first=jnp.int32(first))
        assert [int(x) for x in held(memory._replace(doubt=known))] == expected
