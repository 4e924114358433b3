"""olCascade: what an impression leaves in the network, in A_t and in the habits."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rankers.served import Pupil, impression_of

from olrank.errors import ConfigError
from olrank.feedback import cascade, documents, stops
from olrank.feedback.impressions import Batch
from olrank.rankers import certainty, olcascade, scorers, table
from olrank.types import Rows

pytestmark = pytest.mark.usefixtures("x64")

D, K = 3, 4
SETTINGS = {
    "width": 6, "k": K, "history": 5, "history_batch": None, "steps": 1, "learning_rate": 0.05,
    "pull": 2.0, "linear_pull": 0.5, "prior": 0.7, "alpha": 0.1, "preset": "ours",
}  # fmt: skip
PUPIL = Pupil("olcascade", SETTINGS, jax.random.uniform(jax.random.key(1), (6, D)))
ROWS, started, learned = PUPIL.rows, PUPIL.started, PUPIL.learned


def test_one_step_goes_down_the_loss_of_all_that_is_remembered():
    ranker, state = started()
    state = learned(ranker, state, [0, 1, 2, 3], [0, 1, 0, 0])
    after = learned(ranker, state, [4, 2, 5], [1, 0, 1])
    habits = after.history.habits
    shown = [
        ([0, 1, 2, 3], [0.0, 1, 0, 0], [1, 1, 1, 1]),
        ([4, 2, 5, 0], [1.0, 0, 1, 0], [1, 1, 1, 0]),
    ]

    def loss(theta):
        scores = ranker.score(state._replace(theta=theta), ROWS.features)
        found = [
            cascade.log_likelihood(
                scores[jnp.array(rows)], jnp.array(clicks), jnp.array(seen, bool), habits
            )
            for rows, clicks, seen in shown
        ]
        return -sum(found) / 2

    slope = jax.grad(loss)(state.theta)
    for part, pull in ((0, 0.5), (1, 2.0)):
        c = 0.05 * 6 * pull / 2  # rate, width, pull, and two impressions
        expected = jax.tree.map(
            lambda t, g, home, c=c: (t - 0.05 * g + c * home) / (1 + c),
            state.theta[part], slope[part], state.theta_0[part],
        )  # fmt: skip
        jax.tree.map(
            lambda mine, theirs: np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12),
            after.theta[part], expected,
        )  # fmt: skip


@pytest.mark.parametrize("curvature", [False, True])
def test_a_grows_by_the_centred_tangents_of_what_was_read(curvature):
    ranker, state = started(curvature=curvature)
    state = state._replace(theta=jax.tree.map(lambda leaf: leaf + 0.2, state.theta))
    after = learned(ranker, state, [0, 1, 2, 3], [0, 1, 0, 0])
    net = scorers.choose_net(olcascade.Design(width=6))
    g = np.asarray(net.tangents(state.theta, ROWS.features[:K]))
    scores = ranker.score(state, ROWS.features[:K])
    habits = after.history.habits
    weights = np.asarray(
        cascade.p_read(scores, jnp.array([0.0, 1, 0, 0]), jnp.ones(K, bool), habits)
    )
    assert (weights[:2] == 1).all()
    assert (weights[2:] < 1).all()
    if curvature:
        p = 1 / (1 + np.exp(-(np.asarray(scores) + float(habits.bias))))
        weights = weights * p * (1 - p)
    centred = g - weights @ g / weights.sum()
    np.testing.assert_allclose(after.confidence.A, 0.7 + weights @ centred**2, rtol=1e-9)


def test_stops_teach_habits_by_the_scores_before_the_list_and_then_say_something_of_documents():
    ranker, state = started(stops="sated", documents=16, curvature=True)
    state = state._replace(theta=jax.tree.map(lambda leaf: leaf + 0.5, state.theta))
    clicks, seen = jnp.array([0.0, 1, 0, 0]), jnp.ones(K, bool)
    scores = ranker.score(state, ROWS.features[:K])
    before = learned(ranker, state, [0, 1, 2, 3], clicks)  # slopes are 0 until there was a list
    after = learned(ranker, before, [4, 5, 2, 3], clicks)
    habits = before.history.habits
    expected = stops.learned(state.history.habits._replace(bias=habits.bias), scores, clicks, seen)
    jax.tree.map(lambda mine, theirs: np.testing.assert_allclose(mine, theirs), habits, expected)
    assert float(habits.sated.slopes.max()) > 0

    habits = after.history.habits
    scores = ranker.score(before, ROWS.features[jnp.array([4, 5, 2, 3])])
    said = cascade.of_stops(scores, clicks, seen, habits)
    p = jax.nn.sigmoid(scores + habits.bias)
    known = documents.look_up(after.documents, ROWS.features[4:6])
    of_clicks = cascade.p_read(scores, clicks, seen, habits) * p * (1 - p)
    assert float(said.curvatures[:2].max()) > 0
    np.testing.assert_allclose(known.precisions, (of_clicks + said.curvatures)[:2], rtol=1e-9)


def test_a_list_without_a_click_teaches_and_one_that_nobody_saw_does_not():
    ranker, state = started()
    unclicked = learned(ranker, state, [0, 1], [0, 0])
    assert int(unclicked.history.n_impressions) == 1
    assert unclicked.history.habits.bias < 0
    assert ranker.score(unclicked, ROWS.features)[0] < 0
    unseen = learned(ranker, state, [0, 1], [0, 0], seen=jnp.zeros(K, bool))
    assert int(unseen.history.n_impressions) == 0
    for mine, before in zip(
        jax.tree.leaves((unseen.theta, unseen.confidence)),
        jax.tree.leaves((state.theta, state.confidence)),
        strict=True,
    ):
        np.testing.assert_allclose(mine, before, rtol=0, atol=1e-15)


def test_only_as_many_impressions_as_asked_for_are_remembered():
    ranker, state = started()
    for first in range(6):
        state = learned(ranker, state, [first, (first + 1) % 6], [1, 0])
    assert int(state.history.n_impressions) == 6
    np.testing.assert_array_equal(state.history.rows[:, 0], [5, 1, 2, 3, 4])


def net_scores(state):
    return scorers.choose_net(olcascade.Design(width=6)).score(state.theta, ROWS.features)


def test_own_effects_are_those_of_the_documents_that_were_read():
    ranker, state = started(documents=64, effect_prior=2.0)
    after = learned(ranker, state, [0, 1, 2, 3], [0, 1, 0, 0])
    own = ranker.score(after, ROWS.features) - net_scores(after)
    assert own[1] > 0 > own[0]
    np.testing.assert_array_equal(own[4:], np.zeros(2))
    # At theta_0 all scores are 0; the first slot was read for sure and was not clicked.
    p = 1 / (1 + np.exp(-after.history.habits.bias))
    np.testing.assert_allclose(own[0], -p / (2.0 + p * (1 - p)), rtol=1e-9)


def test_the_network_is_fitted_as_without_effects():
    one, other = (learned(*started(**more), [0, 1, 2, 3], [0, 1, 0, 0])
                  for more in ({}, {"documents": 64}))  # fmt: skip
    jax.tree.map(np.testing.assert_array_equal, one.theta, other.theta)


def test_a_documents_own_effect_widens_its_bounds_until_it_is_read():
    ranker, state = started(documents=64)
    state = learned(ranker, state, [0, 1, 2, 3], [0, 1, 0, 0])
    design = olcascade.Design(width=6, k=K, documents=64)
    mask = jnp.ones(6, bool)
    wide = certainty.pair_widths(design, state, ROWS.features, mask)
    alone = certainty.pair_widths(design, state._replace(documents=()), ROWS.features, mask)
    reads = documents.look_up(state.documents, ROWS.features).reads
    np.testing.assert_array_equal(reads[jnp.array([0, 1, 4])], [1, 1, 0])
    own = 1 / (0.7 + reads)
    expected = alone**2 + 0.1**2 * (own[:, None] + own[None, :])
    off = ~np.eye(6, dtype=bool)
    np.testing.assert_allclose(np.asarray(wide**2)[off], np.asarray(expected)[off], rtol=1e-9)


def test_documents_go_with_a_diagonal_only():
    with pytest.raises(ConfigError, match="diagonal"):
        table.make("olcascade", {**SETTINGS, "documents": 8, "confidence": "full"})


def test_alpha_counts_standard_deviations_of_the_scores_in_a_list():
    ranker, state = started(alpha_rule="spread")
    mask = jnp.ones(6, bool)
    spread, constant = (
        olcascade.Design(width=6, k=K, alpha_rule=rule) for rule in ("spread", "constant")
    )
    seen = []
    for shown in ([0, 1, 2, 3], [4, 2, 5, 0], [1, 3, 5, 2]):
        seen.append(np.var(net_scores(state)[jnp.array(shown)]))
        state = learned(ranker, state, shown, [0, 1, 0, 1])
    np.testing.assert_allclose(state.spread, np.mean(seen), rtol=1e-9)
    assert state.spread > 0
    np.testing.assert_allclose(
        certainty.pair_widths(spread, state, ROWS.features, mask),
        certainty.pair_widths(constant, state, ROWS.features, mask) * np.sqrt(np.mean(seen)),
        rtol=1e-9,
    )


def test_within_lists_only_differences_move_the_network():
    rows = Rows(jnp.eye(6), None)
    seen = jnp.array([[True, True, True, False]])
    clicks, none = jnp.array([[0.0, 1, 0, 0]]), jnp.zeros(1, bool)
    batch = Batch(jnp.array([[0, 3, 2, 5]]), clicks, seen, none, cascade.FIRST_GUESS)
    theta, keep = jnp.array([0.3, -0.2, 0.5, 0.1, 0.9, -0.4]), jnp.ones(1, bool)

    def slope(loss):
        def total(theta):
            return loss(lambda features: features @ theta, batch, keep, rows)[0]

        return total(theta), np.asarray(jax.grad(total)(theta))

    value, bound = slope(partial(olcascade._loss_within_lists, partial(olcascade._at_mean, 1.0)))
    shown = np.array([0, 3, 2])
    theta = theta.at[shown].add(-theta[shown].mean())
    level, free = slope(olcascade.CASCADE.loss)
    np.testing.assert_allclose(value, level, rtol=1e-12)
    expected = np.zeros(6)
    expected[shown] = free[shown] - free[shown].mean()
    np.testing.assert_allclose(bound, expected, atol=1e-12)


def test_a_fitted_level_takes_what_all_documents_of_a_list_share():
    rows = Rows(jnp.eye(6), None)
    seen, none = jnp.ones((1, 4), bool), jnp.zeros(1, bool)
    theta, keep = jnp.array([0.3, -0.2, 0.5, 0.1, 0.9, -0.4]), jnp.ones(1, bool)

    def slope(level, clicks):
        clicks = jnp.asarray([clicks])
        batch = Batch(jnp.array([[0, 1, 2, 3]]), clicks, seen, none, cascade.FIRST_GUESS)
        loss = partial(olcascade._loss_within_lists, partial(olcascade._PLACES[level], 1.0))
        found = jax.grad(lambda x: loss(lambda f: f @ x, batch, keep, rows)[0])(theta)
        return np.asarray(found)

    # Where everything is clicked, nothing tells the documents apart but that the higher scores
    # leave less to explain; at a level that explains the clicks, less still.
    for clicks in ([1.0, 1, 1, 1], [1.0, 1, 0, 1]):
        fitted, mean = slope("fitted", clicks), slope("mean", clicks)
        assert abs(fitted.sum()) < 1e-12
        assert np.any(np.abs(fitted - mean) > 1e-3)
    assert np.abs(slope("fitted", [1.0, 1, 1, 1])).max() < np.abs(slope("mean", [1.0] * 4)).max()


def test_the_variance_of_effects_is_estimated_where_the_design_says_so():
    given, estimated = (
        learned(*started(documents=64, effect_variance=rule), [0, 1, 2, 3], [0, 1, 0, 1])
        for rule in ("given", "estimated")
    )
    prior = float(given.numbers.effect_prior)
    assert float(given.documents.prior) == prior
    np.testing.assert_allclose(given.documents.evidence, estimated.documents.evidence)
    expected = documents.estimated(given.documents, given.numbers.effect_prior).prior
    np.testing.assert_allclose(estimated.documents.prior, expected)
    assert float(expected) != prior


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"level": "high"}, "level"),
        ({"effect_variance": "none"}, "effect variance"),
        ({"level": "fitted"}, "within_lists = true"),
    ],
)
def test_unknown_rules_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        olcascade.olcascade(olcascade.Design(**settings))


def test_within_lists_habits_and_effects_do_not_know_the_level_of_a_list():
    ranker, state = started(within_lists=True, documents=64)
    # A line along the ones: it moves the documents of a list apart by nothing, and all of them up.
    rows = Rows(ROWS.features / ROWS.features.sum(1, keepdims=True), None)
    impression = impression_of([0, 1, 2, 3], [0, 1, 0, 0], K)
    raised = state._replace(theta=(state.theta[0] + 5.0, state.theta[1]))
    low, high = (ranker.learn(one, jax.random.key(9), impression, rows) for one in (state, raised))
    for one, other in zip(low.history.habits, high.history.habits, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)  # rows are single precision
    np.testing.assert_allclose(low.documents.evidence, high.documents.evidence, atol=1e-6)
    assert float(jnp.abs(low.documents.evidence).max()) > 1e-3


def test_the_pull_is_divided_by_what_the_impressions_are_worth():
    design = {"documents": 64, "learning_rate": 0.05, "linear_pull": 2.0}
    ranker, state = started(**design)
    for _ in range(3):  # the same list: it is worth less than three
        before, state = state, learned(ranker, state, [0, 1, 2, 3], [0, 1, 0, 0])
    n = 3 * float(state.history.worth)
    assert n < 2.7

    def loss(beta):
        theta = (beta, before.theta[1])
        scores = scorers.choose_net(olcascade.Design(width=6)).score(theta, ROWS.features[:4])
        clicks, seen = jnp.array([0.0, 1, 0, 0]), jnp.ones(4, bool)
        return -cascade.log_likelihood(scores, clicks, seen, state.history.habits)

    c = 0.05 * 6 * 2.0 / n
    expected = (before.theta[0] - 0.05 * jax.grad(loss)(before.theta[0])) / (1 + c)
    np.testing.assert_allclose(state.theta[0], expected, rtol=1e-9)
