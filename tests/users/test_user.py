from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chisquare
from users.enumerate_clicks import action_patterns

from olrank.errors import ConfigError
from olrank.users.dcm import dcm
from olrank.users.pbm import pbm
from olrank.users.presets import names, user
from olrank.users.user import Clicks, User, click, validate

ALWAYS, NEVER = 1.0, 0.0
FALSE_ALARM = 1e-6  # of each chi-square test; the seeds are fixed

one_click = jax.jit(click)
many_clicks = jax.jit(jax.vmap(click, in_axes=(None, 0, None, None, None)))


def act(shopper: User, grades, key=0, shown=None, relevance=None) -> Clicks:
    n = len(grades)
    return one_click(
        shopper,
        jax.random.key(key),
        jnp.asarray(grades),
        jnp.zeros(n) if relevance is None else jnp.asarray(relevance),
        jnp.ones(n, dtype=bool) if shown is None else jnp.asarray(shown),
    )


def assert_frequencies_follow_the_enumeration(shopper: User, grades, relevance, seed) -> None:
    n_keys, k = 20_000, len(grades)
    keys = jax.random.split(jax.random.key(seed), n_keys)
    done = many_clicks(
        shopper, keys, jnp.asarray(grades), jnp.asarray(relevance), jnp.ones(k, dtype=bool)
    )
    both = np.concatenate([np.asarray(done.clicks), np.asarray(done.examined)], axis=1).astype(int)
    seen = Counter((tuple(row[:k].tolist()), tuple(row[k:].tolist())) for row in both)

    expected = action_patterns(shopper, grades, relevance)
    assert seen.keys() <= expected.keys(), "something impossible happened"
    wanted = np.array([n_keys * p for p in expected.values()])
    observed = np.array([seen[pattern] for pattern in expected])
    # Chi-square wants five or more a cell: the rare patterns share the largest one's.
    # The largest cell, one of them, takes in what is too rare to count alone.
    shared = (wanted < 5) | (np.arange(len(wanted)) == wanted.argmax())
    observed = np.append(observed[~shared], observed[shared].sum())
    wanted = np.append(wanted[~shared], wanted[shared].sum())
    if len(wanted) > 1:
        assert chisquare(observed, wanted).pvalue > FALSE_ALARM


SCALES = {1: [[1, 0, 1], [0, 0, 1, 1]], 2: [[2, 0, 1], [0, 1, 2, 0]], 4: [[4, 2, 0], [0, 1, 3, 4]]}


@pytest.mark.parametrize("max_grade", [1, 2, 4])
@pytest.mark.parametrize("stop", ["clicked", "examined"])
@pytest.mark.parametrize("name", names())
def test_frequencies_of_all_patterns_follow_exact_enumeration(name, stop, max_grade):
    for seed, grades in enumerate(SCALES[max_grade]):
        relevance = np.linspace(-1.5, 2.0, len(grades))
        shopper = user(name, max_grade, stop, k=len(grades))
        assert_frequencies_follow_the_enumeration(shopper, grades, relevance, seed)


def test_frequencies_follow_enumeration_when_every_coin_matters():
    shopper = validate(
        User(
            p_click=jnp.array([0.3, 0.8]),
            p_stop_clicked=jnp.array([0.2, 0.6]),
            p_stop_unclicked=jnp.array([0.4, 0.1]),
            p_examine=jnp.array([0.9, 0.5, 0.7, 0.4]),
            from_relevance=jnp.zeros(()),
        )
    )
    assert_frequencies_follow_the_enumeration(shopper, [0, 1, 1, 0], np.zeros(4), seed=11)


def test_a_user_who_always_clicks_and_stops_sees_only_the_top():
    done = act(dcm([ALWAYS], [ALWAYS], "clicked", 3), [0, 0, 0])
    assert done.clicks.tolist() == [1, 0, 0]
    assert done.examined.tolist() == [True, False, False]


def test_the_rule_clicked_never_stops_at_an_unclicked_document():
    # Grade 0 is never clicked and grade 1 always; the stop coin always says stop.
    done = act(dcm([NEVER, ALWAYS], [ALWAYS, ALWAYS], "clicked", 4), [0, 0, 1, 1])
    assert done.clicks.tolist() == [0, 0, 1, 0]
    assert done.examined.tolist() == [True, True, True, False]


def test_the_rule_examined_stops_at_an_unclicked_document():
    done = act(dcm([NEVER, ALWAYS], [ALWAYS, ALWAYS], "examined", 4), [0, 0, 1, 1])
    assert done.clicks.tolist() == [0, 0, 0, 0]
    assert done.examined.tolist() == [True, False, False, False]


def test_a_slot_that_is_not_examined_is_neither_clicked_nor_stopped_at():
    curve = [NEVER, ALWAYS, ALWAYS]
    stopper = pbm([ALWAYS], curve)._replace(
        p_stop_clicked=jnp.array([ALWAYS]), p_stop_unclicked=jnp.array([ALWAYS])
    )
    done = act(stopper, [0, 0, 0])
    assert done.clicks.tolist() == [0, 1, 0]
    assert done.examined.tolist() == [False, True, False]


@pytest.mark.parametrize("stop", ["clicked", "examined"])
def test_the_perfect_user_examines_everything_and_is_sure_of_the_extreme_grades(stop):
    for key in range(20):
        done = act(user("perfect", 4, stop), [0, 4, 0, 4, 0, 4, 0, 0, 4, 0], key)
        assert done.clicks.tolist() == [0, 1, 0, 1, 0, 1, 0, 0, 1, 0]
        assert done.examined.all()


def test_the_well_specified_user_follows_h_and_not_the_grades():
    done = act(user("well-specified", 1, k=2), [0, 1], relevance=[100.0, -100.0])
    assert done.clicks.tolist() == [1, 0]
    assert done.examined.all()


@pytest.mark.parametrize("stop", ["clicked", "examined"])
@pytest.mark.parametrize("name", names())
def test_padding_is_never_touched_and_changes_nothing(name, stop):
    shopper = user(name, 2, stop, k=10)
    for key in range(50):
        short = act(shopper, [0, 2, 1], key)
        padded = act(shopper, [0, 2, 1, 2, 2], key, shown=[True] * 3 + [False] * 2)
        assert padded.clicks.tolist() == [*short.clicks.tolist(), 0, 0]
        assert padded.examined.tolist() == [*short.examined.tolist(), False, False]


def test_documents_shown_below_do_not_change_what_happens_above():
    shopper = user("informational", 2, "examined", k=10)
    for key in range(50):
        short, long = act(shopper, [0, 2, 1], key), act(shopper, [0, 2, 1, 2, 0, 1], key)
        assert long.clicks[:3].tolist() == short.clicks.tolist()
        assert long.examined[:3].tolist() == short.examined.tolist()


def test_an_empty_list_gets_no_clicks():
    done = act(user("informational", 1, k=3), [1, 1, 1], shown=[False] * 3)
    assert not done.clicks.any()
    assert not done.examined.any()


def test_the_same_key_gives_the_same_clicks_and_other_keys_give_others():
    shopper = user("informational", 4)
    grades = [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]
    assert act(shopper, grades, 3).clicks.tolist() == act(shopper, grades, 3).clicks.tolist()
    assert len({tuple(act(shopper, grades, key).clicks.tolist()) for key in range(20)}) > 1


def test_different_users_stack_along_a_vmap_axis():
    crowd = [user(name, 4, stop) for name in names() for stop in ("clicked", "examined")]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *crowd)
    grades, h = jnp.arange(10) % 5, jnp.linspace(-1.0, 1.0, 10)
    shown, key = jnp.arange(10) < 8, jax.random.key(5)
    together = jax.jit(jax.vmap(click, in_axes=(0, None, None, None, None)))(
        stacked, key, grades, h, shown
    )
    for i, one in enumerate(crowd):
        alone = click(one, key, grades, h, shown)
        assert together.clicks[i].tolist() == alone.clicks.tolist()
        assert together.examined[i].tolist() == alone.examined.tolist()


def test_in_float64_coins_and_clicks_are_float64():
    with jax.enable_x64(True):
        shopper = user("navigational", 4)
        assert shopper.p_click.dtype == jnp.float64
        assert act(shopper, [4, 0, 3]).clicks.dtype == jnp.float64
        assert_frequencies_follow_the_enumeration(shopper, [4, 0, 3], np.zeros(3), seed=2)


def test_a_list_longer_than_the_examination_curve_is_refused():
    with pytest.raises(ConfigError, match="p_examine: covers 2 slots, but the list has 3"):
        act(user("perfect", 1, k=2), [0, 1, 0])


GOOD = user("navigational", 2, k=3)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("p_click", [0.1, 0.2, 1.5]),
        ("p_stop_clicked", [0.1, -0.2, 0.5]),
        ("p_stop_unclicked", [0.1, float("nan"), 0.5]),
        ("p_stop_unclicked", [0.1, 0.5]),
        ("p_stop_clicked", [0.1, 0.5, 0.5, 0.5]),
        ("p_examine", []),
        ("p_examine", [[1.0, 1.0]]),
        ("p_examine", [2.0]),
        ("from_relevance", [1.0]),
    ],
)
def test_a_user_that_cannot_be_is_refused_with_the_name_of_the_field(field, value):
    with pytest.raises(ConfigError, match=field):
        validate(GOOD._replace(**{field: jnp.array(value)}))


def test_a_good_user_passes_validation_unchanged():
    assert validate(GOOD) is GOOD
