"""Experts beside a network: each takes its step, all are weighed, and together they serve."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rankers.served import Pupil, impression_of

from olrank.errors import ConfigError
from olrank.feedback import cascade, documents, experts
from olrank.feedback.impressions import Batch, gather
from olrank.nets import mlp, standard
from olrank.rankers import olcascade, scorers, table, weighed
from olrank.types import Rows

pytestmark = pytest.mark.usefixtures("x64")

D, K, WIDTH = 3, 4, 6
SETTINGS = {
    "experts": True, "within_lists": True, "documents": 64, "width": WIDTH, "k": K, "history": 5,
    "history_batch": None, "steps": 1, "learning_rate": 0.05, "pull": 2.0, "prior": 0.7,
    "alpha": 0.1, "trust": 1.0, "novelty": 0.0, "panel": "second", "preset": "ours",
}  # fmt: skip
PUPIL = Pupil("olcascade", SETTINGS, jax.random.uniform(jax.random.key(1), (6, D)))
ROWS, started = PUPIL.rows, PUPIL.started
TO_LEARN_FROM, HELD_OUT = jnp.uint32(25), jnp.uint32(24)  # marks of lists, for all panels
learned = partial(PUPIL.learned, memo=TO_LEARN_FROM)
NET = scorers.expert_net(olcascade.Design(width=WIDTH))
PANEL = experts.PANELS["second"]


def slope_of(score, params, habits):
    """Of the loss of documents 0 to 3, the second of which was clicked."""
    clicks, seen = jnp.array([0.0, 1, 0, 0]), jnp.ones(4, bool)

    def loss(params):
        scores = cascade.levelled(score(params, ROWS.features[:4]), seen)
        return -cascade.log_likelihood(scores, clicks, seen, habits)

    return jax.grad(loss)(params)


def test_what_serves_is_the_weighted_mean_of_lines_and_networks_beside_the_network():
    ranker, state = started(steps=3)
    for rows, clicks in (([0, 1, 2, 3], [0, 1, 0, 0]), ([4, 5, 0, 1], [1, 0, 0, 1])):
        state = learned(ranker, state, rows, clicks)
    of_lines, of_nets = experts.weights(state.history.experts, PANEL, jnp.asarray(1.0))
    (line, _), others = state.theta
    assert float(jnp.abs(line).max()) > 0
    np.testing.assert_allclose(
        jnp.sqrt(1.0 * WIDTH) * line, of_lines @ state.history.experts.betas, rtol=1e-12
    )
    np.testing.assert_allclose(others.weights, of_nets, rtol=1e-12)


def test_averaged_experts_serve_and_descent_goes_on_from_the_last_ones():
    ranker, state = started(average=True, averaging=0.9, steps=3)
    first = learned(ranker, state, [0, 1, 2, 3], [0, 1, 0, 0])
    after = learned(ranker, first, [4, 5, 0, 1], [1, 0, 0, 1])
    served = jax.tree.map(lambda old, new: (2 * old + new) / 3, first.theta, after.last)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-9), after.theta, served)
    moved = jax.tree.map(lambda x, y: float(jnp.abs(x - y).max()), after.theta[1], after.last[1])
    assert max(jax.tree.leaves(moved)) > 1e-6


def test_a_line_takes_the_step_that_its_pull_and_the_steepness_allow():
    ranker, state = started()
    after = learned(ranker, state, [0, 1, 2, 3], [0, 1, 0, 0])
    shown = np.asarray(ROWS.features[:4], np.float64)
    steepness = 0.25 * np.sum((shown - shown.mean(axis=0)) ** 2)
    known = after.history.experts
    np.testing.assert_allclose(known.steepness, steepness, rtol=1e-6)
    slope = np.asarray(slope_of(experts.line, jnp.zeros(D), after.history.habits))
    for beta, pull in zip(known.betas, PANEL.lines, strict=True):
        np.testing.assert_allclose(beta, -slope / steepness / (1 + pull / steepness), rtol=1e-5)


@pytest.mark.parametrize("name", ["first", "second"])
def test_a_network_takes_the_step_of_its_own_rate_and_pull(name):
    ranker, state = started(panel=name)
    after = learned(ranker, state, [0, 1, 2, 3], [0, 1, 0, 0])
    panel = experts.PANELS[name]
    unit = 1 / float(after.history.experts.steepness) if panel.relative else 1.0
    assert unit != 1.0 or not panel.relative
    for i, (pull, share) in enumerate(panel.networks):
        rate = share * unit
        before, found = (
            jax.tree.map(lambda leaf, i=i: leaf[i], one.theta[1].thetas) for one in (state, after)
        )
        slope = slope_of(NET.score, before, after.history.habits)
        c = rate * WIDTH * pull  # of one impression; it is pulled to where it is
        expected = jax.tree.map(lambda t, g, step=rate / (1 + c): t - step * g, before, slope)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-7), found, expected)


@pytest.mark.parametrize("head_start", [0.0, 9.0])
def test_a_network_that_standardises_is_pulled_to_where_its_hidden_layers_are_0(head_start):
    ranker, state = started(panel="fourth", head_start=head_start)
    after = learned(ranker, state, [0, 1, 2, 3], [0, 1, 0, 0])
    shown = ROWS.features[:4]
    seen = standard.after(standard.none(D), shown, jnp.ones(4, bool))
    jax.tree.map(np.testing.assert_array_equal, after.history.experts.moments, seen)
    jax.tree.map(np.testing.assert_array_equal, after.theta[1].moments, seen)
    net = mlp.plain(WIDTH, 2)

    def score(params, features):
        return net.score(params, (features - seen.mean) / jnp.sqrt(seen.variance))

    for i, (pull, rate) in enumerate(experts.PANELS["fourth"].networks):
        before, found = (
            jax.tree.map(lambda leaf, i=i: leaf[i], one.theta[1].thetas) for one in (state, after)
        )
        slope = slope_of(score, before, after.history.habits)
        # Of one impression; the last layer is pulled to where it is.
        c = rate * pull / (1 + head_start)
        step = jax.tree.map(lambda t, g, rate=rate: t - rate * g, before, slope)
        hidden = jax.tree.map(lambda t, c=c: t / (1 + c), step[:-1])
        last = jax.tree.map(lambda t, home, c=c: (t + c * home) / (1 + c), step[-1], before[-1])
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), found, (*hidden, last)
        )


def test_the_network_beside_them_leaves_experts_alone():
    ranker, state = started(steps=3, learning_rate=0.05)
    _, same = started(steps=3, learning_rate=0.0)
    moved = learned(ranker, state, [0, 1, 2, 3], [0, 1, 0, 0])
    still = learned(ranker, same, [0, 1, 2, 3], [0, 1, 0, 0])
    jax.tree.map(np.testing.assert_array_equal, moved.theta[1], still.theta[1])
    np.testing.assert_array_equal(moved.theta[0][0], still.theta[0][0])
    assert any(
        not np.array_equal(a, b)
        for a, b in zip(
            jax.tree.leaves(moved.theta[0][1]), jax.tree.leaves(still.theta[0][1]), strict=True
        )
    )


def test_lists_that_are_held_out_are_evidence_and_teach_effects_alone():
    ranker, state = started(steps=3)
    state = learned(ranker, state, [0, 1, 2, 3], [0, 1, 0, 0])
    np.testing.assert_array_equal(state.history.experts.judged, 0.0)
    judged = learned(ranker, state, [2, 3, 4, 5], [0, 1, 0, 1], memo=HELD_OUT)
    assert float(jnp.abs(judged.history.experts.judged).max()) > 1e-6
    assert judged.history.held_out.tolist() == [False, True, False, False, False]
    assert float(jnp.abs(judged.documents.evidence - state.documents.evidence).max()) > 1e-3


def test_with_recency_old_judgements_fade_and_late_lists_are_replayed_more():
    seen = []
    for recency in (0, 1):
        ranker, state = started(steps=3, history_batch=4, recency=recency)
        state = learned(ranker, state, [4, 5, 0, 1], [1, 0, 0, 1])
        for _ in range(2):
            state = learned(ranker, state, [2, 3, 4, 5], [0, 1, 0, 1], memo=HELD_OUT)
        before = state.history.experts.judged
        state = learned(ranker, state, [0, 1, 2, 3], [0, 1, 0, 0])
        np.testing.assert_allclose(
            state.history.experts.judged, before * (1 - recency / 4), rtol=1e-12
        )
        seen.append(state.history.experts.betas)
    assert float(jnp.abs(seen[0] - seen[1]).max()) > 1e-6


def test_only_lists_that_are_held_out_are_left_out_of_the_loss():
    ranker, state = started()
    for memo in (TO_LEARN_FROM, HELD_OUT):
        state = learned(ranker, state, [0, 1, 2, 3], [0, 1, 0, 0], memo=memo)
    batch = gather(state.history, jnp.arange(2))
    loss = partial(olcascade._loss_to_experts, partial(olcascade._at_mean, 1.0))
    teaching = weighed.Teaching(state.documents, jnp.ones(()), jnp.zeros(()))
    score = partial(experts.line, jnp.arange(1.0, D + 1))
    found, n = loss(teaching, score, batch, jnp.ones(2, bool), ROWS)
    scores = cascade.levelled(score(ROWS.features[:4]), jnp.ones(4, bool))
    clicks, habits = jnp.array([0.0, 1, 0, 0]), state.history.habits
    expected = -cascade.log_likelihood(scores, clicks, jnp.ones(4, bool), habits)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert int(n) == 1


def test_a_document_that_is_known_teaches_by_what_it_is_worth():
    ranker, state = started()
    for _ in range(3):
        state = learned(ranker, state, [0, 1], [0, 1])
    prior, worth = state.numbers.effect_prior, jnp.asarray(0.5)
    known = documents.look_up(state.documents, ROWS.features[:4])
    shares = np.asarray(prior / (prior + known.precisions))
    assert shares[0] < 0.9
    assert shares[3] == 1.0
    for novelty, expected in ((0.0, np.ones(4)), (1.0, shares / 0.5)):
        teaching = weighed.Teaching(state.documents, worth, jnp.asarray(novelty))
        np.testing.assert_allclose(weighed.weights(teaching, ROWS.features[:4]), expected)

    seen, clicks, habits = jnp.ones(4, bool), jnp.array([0.0, 1, 0, 0]), state.history.habits
    batch = Batch(jnp.arange(4)[None], clicks[None], seen[None], jnp.zeros(1, bool), habits)

    def taught(scores):
        loss = partial(olcascade._loss_to_experts, partial(olcascade._at_mean, 1.0), teaching)
        return loss(lambda _: scores, batch, seen[:1], ROWS)[0]

    def plain(scores):
        return -cascade.log_likelihood(scores, clicks, seen, habits)

    each = np.asarray(jax.grad(plain)(jnp.zeros(4))) * shares / 0.5
    np.testing.assert_allclose(jax.grad(taught)(jnp.zeros(4)), each - each.mean(), rtol=1e-6)


def test_a_ranking_remembers_which_query_it_was_drawn_for():
    ranker, state = started()
    mask = jnp.array([True] * 5 + [False])
    marks = [ranker.rank(state, jax.random.key(i), ROWS.features, mask, K).memo for i in range(3)]
    assert len({int(mark) for mark in marks}) == 1
    assert int(marks[0]) == int(documents.mark(ROWS.features[:5], jnp.ones(5, bool)))


def test_a_list_that_nobody_saw_leaves_the_experts_as_they_are():
    ranker, state = started()
    after = learned(ranker, state, [0, 1, 2], [0, 0, 0], seen=jnp.zeros(K, bool))
    jax.tree.map(np.testing.assert_array_equal, state.history.experts, after.history.experts)


def judged_after(n_rounds, n_features, relevance):
    """Judgements after lists of new documents that are clicked by their relevance."""
    settings = {**SETTINGS, "history": n_rounds, "history_batch": 32, "steps": 5}
    made = table.make("olcascade", {**settings, "width": 16, "documents": 16_384})
    keys = jax.random.split(jax.random.key(3), 3)
    rows = Rows(jax.random.normal(keys[0], (4 * n_rounds, n_features)), None)

    def one(state, key):
        draw, click, learn = jax.random.split(key, 3)
        shown = jax.random.choice(draw, rows.features.shape[0], (K,), replace=False)
        p = jax.nn.sigmoid(relevance(rows.features[shown]))
        impression = impression_of(range(K), [0] * K, K)._replace(
            rows=shown.astype(jnp.int32), clicks=jax.random.bernoulli(click, p).astype(float)
        )
        return made.ranker.learn(state, learn, impression, rows), None

    state = made.ranker.init(jax.random.key(7), n_features, made.numbers)
    rounds = jax.random.split(keys[2], n_rounds)
    state, _ = jax.jit(lambda s: jax.lax.scan(one, s, rounds))(state)
    return np.asarray(state.history.experts.judged)


def test_lines_are_held_back_where_features_tell_nothing_and_let_go_where_they_do():
    n_lines = PANEL.n_lines
    nothing = judged_after(200, 40, lambda x: jnp.zeros(K))
    assert np.argmax(nothing[:n_lines, 0]) == n_lines - 1
    clear = judged_after(200, 3, lambda x: jnp.sum(x, axis=1))
    assert np.argmax(clear[:n_lines, 0]) == 0


def test_a_network_is_trusted_where_no_line_can_tell():
    judged = judged_after(600, 2, lambda x: 4.0 * (jnp.abs(x[:, 0]) - 0.8))
    lines, nets = np.split(judged, [PANEL.n_lines])
    assert nets.max() > lines.max() + 20.0


@pytest.mark.parametrize(
    "lacking", [{"within_lists": False}, {"linear_part": False}, {"update": "theta0"}]
)
def test_experts_need_a_line_and_differences_within_lists(lacking):
    with pytest.raises(ConfigError, match=r"^experts: they go with linear_part = true"):
        started(**lacking)


def test_a_panel_that_nobody_knows_is_refused():
    with pytest.raises(ConfigError, match='no panel is called "tenth"'):
        started(panel="tenth")


LISTS = (([0, 1, 2, 3], [0, 1, 0, 0]), ([4, 5, 0, 1], [1, 0, 0, 1]), ([2, 3, 4, 5], [0, 0, 1, 0]))


TWINS = ("third", "fourth")


def same(one, other):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12), one, other)


@pytest.mark.parametrize("panel", TWINS)
def test_twins_are_the_same_as_long_as_nothing_is_held_out(panel):
    ranker, state = started(panel=panel, steps=3)
    for rows, clicks in LISTS:
        state = learned(ranker, state, rows, clicks)
    known = state.history.experts
    assert float(jnp.abs(known.betas).max()) > 1e-3
    same(known.serving, known.betas)
    assert max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(known.moved)) > 1e-6


@pytest.mark.parametrize("panel", TWINS)
def test_those_that_serve_learn_from_held_out_lists_and_those_that_are_judged_do_not(panel):
    ranker, state = started(panel=panel, steps=3)
    state = learned(ranker, state, *LISTS[0], memo=HELD_OUT)
    known = state.history.experts
    np.testing.assert_array_equal(known.betas, 0.0)
    assert float(jnp.abs(known.serving).max()) > 1e-3
    homes = state.theta_0[1].thetas
    if panel == "fourth":  # they are nearer to 0 than they were at home, and that is all
        shorter = jax.tree.map(lambda gone, home: gone / home, known.moved[:-1], homes[:-1])
        for of_layer in jax.tree.leaves(shorter):
            of_net = of_layer.reshape(of_layer.shape[0], -1)
            same(of_net, jnp.broadcast_to(of_net[:, :1], of_net.shape))
            assert (of_net < 0).all()
    moved = known.moved[-1:] if panel == "fourth" else known.moved
    jax.tree.map(lambda leaf: np.testing.assert_allclose(leaf, 0.0, atol=1e-12), moved)
    gone = jax.tree.map(lambda a, b: float(jnp.abs(a - b).max()), state.theta[1].thetas, homes)
    assert max(jax.tree.leaves(gone)) > 1e-3


def test_what_serves_are_the_twins_that_learn_from_all_weighed_by_those_that_are_judged():
    ranker, state = started(panel="third", steps=3)
    for i, (rows, clicks) in enumerate(LISTS):
        state = learned(ranker, state, rows, clicks, memo=HELD_OUT if i == 1 else TO_LEARN_FROM)
    known = state.history.experts
    assert float(jnp.abs(known.judged).max()) > 1e-6
    of_lines, of_nets = experts.weights(known, experts.PANELS["third"], jnp.asarray(1.0))
    (line, _), others = state.theta
    same(jnp.sqrt(1.0 * WIDTH) * line, of_lines @ known.serving)
    same(others.weights, of_nets)


def test_a_judgement_is_of_the_twin_that_does_not_know_the_list():
    ranker, state = started(panel="third", steps=3)
    for _ in range(3):
        state = learned(ranker, state, *LISTS[0], memo=HELD_OUT)
    lines = state.history.experts.judged[: PANEL.n_lines]
    # Lines that are judged have learned nothing: all foretell the same.
    same(lines, jnp.broadcast_to(lines[0, 0], lines.shape))
    assert float(jnp.abs(state.history.experts.serving).max()) > 1e-3


def test_the_line_of_a_mixed_model_is_what_its_equations_say_of_every_list_that_was_read():
    ranker, state = started(panel="fourth", steps=3)
    for i, (rows, clicks) in enumerate(LISTS):
        state = learned(ranker, state, rows, clicks, memo=HELD_OUT if i == 1 else TO_LEARN_FROM)
    known = state.history.experts
    assert int(jnp.sum(known.model.queries.marks > 0)) == 2
    # Two lists of one query, one of the other, four documents each; some stood in both lists.
    assert int(jnp.sum(known.model.sightings.reads > 0)) == 6 + 4
    same(known.betas[0], known.model.lines.betas[0])
    same(known.serving[0], known.model.lines.betas[1])
    assert float(jnp.abs(known.serving - known.betas).max()) > 1e-4
