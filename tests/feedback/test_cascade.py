"""The likelihood of click patterns, against the enumeration of everything a user can do."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from users.enumerate_clicks import action_patterns, click_patterns

from olrank.feedback import cascade, stops
from olrank.feedback.cascade import Habits
from olrank.users.user import User, click

pytestmark = pytest.mark.usefixtures("x64")

K = 4
SCORES = np.array([0.7, -1.1, 0.2, -0.4])
HABITS = Habits(bias=-0.3, after_click=0.55, after_skip=0.85)
SATED = HABITS._replace(sated=stops.Sated(np.array([0.8, 0.4]), np.zeros((2, 2, 2))))
ALL = jnp.ones(K, bool)


def reader(k, habits=HABITS, scores=SCORES):
    """The user whom the likelihood describes: slot s holds the only document of grade s."""
    p_click = 1 / (1 + np.exp(-(scores[:k] + habits.bias)))
    rises = (0.0, 0.0) if habits.sated == () else habits.sated.slopes

    def p_stop(goes_on, rise):
        odds_to_stop = (1 - goes_on) / goes_on * np.exp(rise * scores[:k])
        return odds_to_stop / (1 + odds_to_stop)

    return User(
        p_click=p_click,
        p_stop_clicked=p_stop(habits.after_click, rises[0]),
        p_stop_unclicked=p_stop(habits.after_skip, rises[1]),
        p_examine=np.ones(k),
        from_relevance=np.zeros(()),
    )


def reading_on(clicks, habits=HABITS):
    """The decisions to read on above the last click, which the likelihood leaves out."""
    last = max((slot for slot, clicked in enumerate(clicks) if clicked), default=0)
    chances = [habits.after_click if clicked else habits.after_skip for clicked in clicks[:last]]
    return np.prod(chances)


@pytest.mark.parametrize("k", [1, 3, K])
def test_the_likelihood_of_every_pattern_is_that_of_the_enumeration(k):
    patterns = click_patterns(reader(k), range(k))
    assert len(patterns) == 2**k
    for clicks, p in patterns.items():
        found = cascade.log_likelihood(
            jnp.asarray(SCORES[:k]), jnp.asarray(clicks, float), ALL[:k], HABITS
        )
        np.testing.assert_allclose(np.exp(found) * reading_on(clicks), p, rtol=1e-12)


@pytest.mark.parametrize("k", [1, 3, K])
def test_where_stops_say_something_all_decisions_are_in_the_likelihood(k):
    for clicks, p in click_patterns(reader(k, SATED), range(k)).items():
        found = cascade.log_likelihood(
            jnp.asarray(SCORES[:k]), jnp.asarray(clicks, float), ALL[:k], SATED
        )
        np.testing.assert_allclose(np.exp(found), p, rtol=1e-12)


def test_decisions_to_read_on_are_those_of_the_enumeration():
    """Of four slots the last is not in view, so that nothing is decided after the third."""
    scores, seen = jnp.asarray(SCORES), jnp.array([True, True, True, False])
    actions = action_patterns(reader(3, SATED), range(3))
    for clicks, p in click_patterns(reader(3, SATED), range(3)).items():
        shown = jnp.asarray([*clicks, 0.0])
        found = cascade.decisions(scores, shown, seen, SATED)
        same = {examined: chance for (c, examined), chance in actions.items() if c == clicks}
        read = sum(chance * np.array([*examined, 0]) for examined, chance in same.items()) / p
        np.testing.assert_allclose(found.went_on, [read[1], read[2], 0, 0], atol=1e-12)
        stopped = [read[0] - read[1], read[1] - read[2], 0, 0]
        np.testing.assert_allclose(found.stopped, stopped, atol=1e-12)


def test_clicks_and_stops_together_are_the_slope_of_the_likelihood():
    for clicks in click_patterns(reader(K, SATED), range(K)):
        given = (jnp.asarray(SCORES), jnp.asarray(clicks, float), ALL, SATED)
        of_stops = cascade.of_stops(*given)
        p_click = 1 / (1 + np.exp(-(SCORES + SATED.bias)))
        of_clicks = np.asarray(cascade.p_read(*given)) * (np.asarray(clicks) - p_click)
        slope = jax.grad(cascade.log_likelihood)(*given)
        np.testing.assert_allclose(of_clicks + of_stops.slopes, slope, atol=1e-12)
        assert np.all(np.asarray(of_stops.curvatures) >= 0)


def test_stops_that_say_nothing_change_nothing():
    nothing = SATED._replace(sated=SATED.sated._replace(slopes=np.zeros(2)))
    for clicks in click_patterns(reader(K), range(K)):
        given = (jnp.asarray(SCORES), jnp.asarray(clicks, float), ALL)
        slopes = [jax.grad(cascade.log_likelihood)(*given, habits) for habits in (HABITS, nothing)]
        np.testing.assert_allclose(*slopes, atol=1e-12)
        placed = [cascade.placed(*given, habits, jnp.ones(K), 1.0) for habits in (HABITS, nothing)]
        np.testing.assert_allclose(*placed, atol=1e-12)


def test_slots_that_never_came_into_view_do_not_count():
    clicks = jnp.array([0.0, 1.0, 0.0, 0.0])
    seen = jnp.array([True, True, True, False])
    short = cascade.log_likelihood(jnp.asarray(SCORES[:3]), clicks[:3], ALL[:3], HABITS)
    np.testing.assert_allclose(
        cascade.log_likelihood(jnp.asarray(SCORES), clicks, seen, HABITS), short, rtol=1e-12
    )
    nobody = jnp.zeros(K, bool)
    value, slope = jax.value_and_grad(cascade.log_likelihood)(
        jnp.asarray(SCORES), jnp.zeros(K), nobody, HABITS
    )
    assert value == 0
    np.testing.assert_array_equal(slope, np.zeros(K))


def test_a_heavier_click_counts_as_often_as_it_weighs():
    once, twice = jnp.array([1.0, 0, 0, 0]), jnp.array([2.0, 0, 0, 0])
    found = [cascade.log_likelihood(jnp.asarray(SCORES), c, ALL, HABITS) for c in (once, twice)]
    p_click = 1 / (1 + np.exp(-(SCORES[0] + HABITS.bias)))
    np.testing.assert_allclose(found[1] - found[0], np.log(p_click), rtol=1e-12)


def test_the_chance_that_a_slot_was_read_is_that_of_the_enumeration():
    actions = action_patterns(reader(K), range(K))
    for clicks, p in click_patterns(reader(K), range(K)).items():
        read = sum(
            chance * np.asarray(examined)
            for (c, examined), chance in actions.items()
            if c == clicks
        )
        found = cascade.p_read(jnp.asarray(SCORES), jnp.asarray(clicks, float), ALL, HABITS)
        np.testing.assert_allclose(found, read / p, rtol=1e-12)


@pytest.mark.parametrize("habits", [HABITS, SATED])
def test_the_expected_slope_is_zero_at_the_truth_and_nowhere_near(habits):
    """Unbiased: with any stop rule, and for equals in any order. That of pairs is not."""
    slope = jax.grad(cascade.log_likelihood)

    def expected(scores):
        patterns = click_patterns(reader(K, habits), range(K)).items()
        return sum(
            p * np.asarray(slope(jnp.asarray(scores), jnp.asarray(clicks, float), ALL, habits))
            for clicks, p in patterns
        )

    np.testing.assert_allclose(expected(SCORES), np.zeros(K), atol=1e-12)
    assert np.abs(expected(SCORES + [0.5, 0, 0, 0])).max() > 0.05


@pytest.mark.parametrize(
    "truth", [Habits(-1.5, 0.4, 0.95), Habits(0.8, 0.9, 0.7), Habits(-0.5, 0.6, 1.0)]
)
def test_habits_are_found_from_clicks_alone(truth):
    """1,000 lists of ten; tolerances are four standard errors or more."""
    n, k = 1000, 10
    rng = np.random.default_rng(5)
    scores = rng.normal(size=(n, k))
    grades = jnp.arange(k)

    def clicks_on(key, mine):
        user = reader(k, truth, mine)
        return click(user, key, grades, jnp.zeros(k), jnp.ones(k, bool)).clicks

    keys = jax.random.split(jax.random.key(3), n)
    seen = jnp.ones((n, k), bool)
    clicks = jnp.stack([clicks_on(key, mine) for key, mine in zip(keys, scores, strict=True)])
    habits = cascade.FIRST_GUESS
    for _ in range(60):
        habits = cascade.improved(jnp.asarray(scores), clicks, seen, habits)
    np.testing.assert_allclose(habits.bias, truth.bias, atol=0.15)
    np.testing.assert_allclose(habits.after_click, truth.after_click, atol=0.06)
    np.testing.assert_allclose(habits.after_skip, truth.after_skip, atol=0.03)


@pytest.mark.parametrize(("habits", "error"), [(HABITS, 2e-3), (SATED, 2e-2)])
@pytest.mark.parametrize("pattern", [[1.0, 1, 0, 1], [1.0, 3, 0, 0]])
def test_a_list_is_placed_where_its_clicks_are_likeliest(pattern, habits, error):
    """Stops curve the likelihood less than they are taken to, and three steps do less far."""
    scores, clicks = jnp.asarray(SCORES), jnp.array(pattern)
    ones = jnp.ones(K)
    found = cascade.placed(scores, clicks, ALL, habits, ones, 1.0)
    compared = cascade.levelled(scores, ALL)
    levels = found - compared
    np.testing.assert_allclose(levels, jnp.full(K, levels[0]), rtol=1e-12)
    grid = np.linspace(-3, 3, 6001)
    value = [cascade.log_likelihood(compared + x, clicks, ALL, habits) - x**2 / 2 for x in grid]
    assert float(levels[0]) == pytest.approx(grid[int(np.argmax(value))], abs=error)
    assert float(levels[0]) > 0.2
    nothing = cascade.placed(scores, jnp.zeros(K), ALL, habits, ones, 1.0) - compared
    assert float(nothing[0]) < 0
    held = cascade.placed(scores, clicks, ALL, habits, ones, 1e9)
    np.testing.assert_allclose(held, compared, atol=1e-8)


def test_moving_a_whole_list_changes_nothing_when_it_is_placed():
    scores, clicks = jnp.asarray(SCORES), jnp.array([0.0, 1, 0, 0])
    rest = {"clicks": clicks, "seen": ALL, "habits": HABITS, "weights": jnp.ones(K), "prior": 1.0}
    place = partial(cascade.placed, **rest)
    np.testing.assert_allclose(place(scores), place(scores + 5.0), rtol=1e-12)
    slopes = jax.grad(lambda x: cascade.log_likelihood(place(x), clicks, ALL, HABITS))(scores)
    assert float(jnp.abs(jnp.sum(slopes))) < 1e-12 < float(jnp.abs(slopes).max())


def test_documents_without_weight_do_not_place_a_list():
    scores, clicks = jnp.asarray(SCORES), jnp.array([1.0, 1, 1, 1])
    found = cascade.placed(scores, clicks, ALL, HABITS, jnp.zeros(K), 1.0)
    np.testing.assert_allclose(found, cascade.levelled(scores, ALL), rtol=1e-12)
