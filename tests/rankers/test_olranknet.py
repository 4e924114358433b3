"""olRankNet: whole rounds against the oracle, its variants, and the claims of Lemma 1."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import clicks as oracle_clicks
from oracle import confidence, network, order, round
from rankers.served import as_oracle, impression_of

from olrank.errors import ConfigError
from olrank.explore import confidence as conf
from olrank.explore import order as orders
from olrank.feedback import pairs as pairing
from olrank.nets import mlp
from olrank.rankers import table
from olrank.types import Impression, Ranking, Rows
from olrank.users import presets
from olrank.users.user import click

D, N_DOCS = 3, 6
PAPER = {"width": 6, "k": N_DOCS, "history": 20, "history_batch": None, "steps": 3}
NUMBERS = {"learning_rate": 0.05, "pull": 0.4, "prior": 0.8, "alpha": 0.15}


def assert_same_state(state, theirs):
    ours = network.flatten(as_oracle(state.theta))
    np.testing.assert_allclose(ours, network.flatten(theirs.theta), rtol=1e-8, atol=1e-11)
    if theirs.A.ndim == 1:
        np.testing.assert_allclose(state.confidence.A, theirs.A, rtol=1e-8, atol=1e-10)
    else:
        inverse = np.linalg.inv(theirs.A)
        np.testing.assert_allclose(state.confidence.inverse, inverse, rtol=1e-8, atol=1e-10)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    "variant",
    [
        {"confidence": "diagonal"},
        {"confidence": "full", "update": "theta0", "depth": 3},
        {"confidence": "full", "alpha_rule": "lemma", "alpha_scale": 0.03},
    ],
    ids=str,
)
def test_rounds_of_ranking_and_learning_are_the_oracles(variant):
    made = table.make("olranknet", {**PAPER, **NUMBERS, **variant})
    rank, learn = jax.jit(made.ranker.rank, static_argnums=4), jax.jit(made.ranker.learn)
    rng = np.random.default_rng(1)
    n_rounds = 7
    X = rng.normal(size=(n_rounds * N_DOCS, D))
    rows = Rows(jnp.asarray(X))
    state = made.ranker.init(jax.random.key(0), D, made.numbers)
    theirs = round.start(as_oracle(state.theta), 0.8, variant["confidence"] == "diagonal")
    settings = round.Settings(0.15, 0.0, 0.4, 0.05, 3, N_DOCS, None, made.settings["update"])
    n_certain = 0
    for t in range(n_rounds):
        ids = np.arange(t * N_DOCS, (t + 1) * N_DOCS, dtype=np.int32)
        if "alpha_rule" in variant:
            alpha = confidence.alpha_t(theirs.A, 0.8, delta=0.1, nu=0.5, S=1.0, C1=0.03)
            settings = replace(settings, alpha=alpha)
        mask = jnp.ones(N_DOCS, bool)
        ranking = rank(state, jax.random.key(t), rows.features[ids], mask, N_DOCS)
        shown = tuple(ranking.order.tolist())
        omega = round.certain_orders(theirs, X[ids], settings)
        np.testing.assert_array_equal(ranking.certain, omega[np.ix_(shown, shown)])
        assert np.exp(float(ranking.log_p_shown)) == pytest.approx(order.p_list(omega, shown))
        n_certain += omega.sum()

        clicks = (rng.random(N_DOCS) < 1 / (1 + np.exp(-2 * X[ids][list(shown), 0]))).astype(int)
        impression = Impression(jnp.asarray(ids[list(shown)]), jnp.asarray(clicks * 1.0), ranking)
        state = learn(state, jax.random.key(t), impression, rows)
        theirs = round.learn(theirs, X[ids], shown, tuple(clicks), settings, rng)
        assert_same_state(state, theirs)
    assert 0 < n_certain < n_rounds * N_DOCS * (N_DOCS - 1) / 2  # both kinds of pairs occurred


class Small:
    """One impression of two documents, learned from twice by a variant of the ranker."""

    def __init__(self, **variant):
        made = table.make("olranknet", {**PAPER, **NUMBERS, "k": 2, "steps": 1, **variant})
        rng = np.random.default_rng(2)
        self.rows = Rows(jnp.asarray(rng.normal(size=(2, D))))
        self.learn = jax.jit(made.ranker.learn)
        self.states = [made.ranker.init(jax.random.key(0), D, made.numbers)]
        for seed in (1, 2):
            self.states.append(self.after(seed))

    def after(self, seed, clicks=(1, 0)):
        impression = impression_of([0, 1], clicks)
        return self.learn(self.states[-1], jax.random.key(seed), impression, self.rows)


def far(one, other) -> float:
    return max(
        float(abs(a - b).max()) for a, b in zip(as_oracle(one), as_oracle(other), strict=True)
    )


@pytest.mark.usefixtures("x64")
def test_update_says_where_descent_starts():
    theta0, on, anew = (Small(update=name) for name in ("theta0", "continue", "restart"))
    # The same pair twice has the mean loss of one; without a pull theta0 would stand still.
    pair_count = theta0.states[2].history.n_pairs
    assert pair_count == 2
    first, second = theta0.states[1], theta0.states[2]
    assert far(first.theta_0, theta0.states[0].theta) == 0
    assert far(second.theta, first.theta) < far(on.states[2].theta, on.states[1].theta)
    assert far(on.states[1].theta, first.theta) == 0  # the first round starts at theta_0 for both
    assert far(on.states[2].theta_0, on.states[0].theta_0) == 0
    assert far(anew.states[1].theta_0, anew.states[0].theta_0) > 0.1
    assert far(anew.states[2].theta_0, anew.states[1].theta_0) > 0.1


@pytest.mark.usefixtures("x64")
def test_theta0_forgets_where_it_was():
    small = Small(update="theta0")
    elsewhere = small.states[-1]._replace(
        theta=jax.tree.map(lambda W: W + 5.0, small.states[-1].theta)
    )
    again = small.learn(elsewhere, jax.random.key(9), impression_of([0, 1], (0, 0)), small.rows)
    here = small.after(9, (0, 0))
    assert far(again.theta, here.theta) == 0


@pytest.mark.usefixtures("x64")
def test_the_anchor_zero_pulls_to_zero():
    # With a rate this small the gradient moves nothing: theta / (1 + c), c = eta m pull / n.
    small = Small(anchor="zero", learning_rate=1e-9, pull=1e9)
    c = 1e-9 * 6 * 1e9 / 1
    for before, after in zip(small.states[0].theta, small.states[1].theta, strict=True):
        np.testing.assert_allclose(after[0], before[0] / (1 + c), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("update", "theta1"),
        ("anchor", "one"),
        ("order", "topologic"),
        ("pairs", "some"),
        ("pair_weights", "swaps"),
        ("examination", "all"),
        ("alpha_rule", "lemmas"),
        ("confidence", "fulll"),
        ("optimiser", "sdg"),
        ("network", "papr"),
    ],
)
def test_a_word_that_names_no_variant_is_refused(setting, value):
    with pytest.raises(ConfigError, match=f'is called "{value}"'):
        table.make("olranknet", {setting: value})


def test_swap_weights_of_a_list_that_another_ranker_drew_are_refused():
    made = table.make("olranknet", {**PAPER, "k": 2, "pair_weights": "swap"})
    state = made.ranker.init(jax.random.key(0), D, made.numbers)
    with pytest.raises(ConfigError, match="another ranker"):
        made.ranker.learn(
            state, jax.random.key(0), impression_of([0, 1], [1, 0]), Rows(jnp.ones((2, D)))
        )


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("stop", ["clicked", "examined"])
@pytest.mark.parametrize("rule", ["independent", "all"])
def test_equally_relevant_documents_get_no_expected_push_with_swap_weights(rule, stop):
    """By enumerating every list of the topological draw and every click pattern of a user."""
    k, grades = 4, (2, 1, 1, 0, 2)
    p_click, p_stop = oracle_clicks.THREE_GRADES["informational"]

    @jax.jit
    def weights_of(omega, shown, choices, clicks):
        certain = omega[shown[:, None], shown[None, :]]
        ranking = Ranking(shown, jnp.ones(k, bool), choices, jnp.zeros(()), certain)
        rho = orders.swap_weights(ranking, omega, jnp.ones(5, bool))
        impression = Impression(shown, clicks, ranking)
        examined = pairing.p_examined(clicks, ranking.shown, "last-click-plus-one", jnp.ones(()))
        pairs = pairing.select(jax.random.key(0), impression, examined, rule, swap_weights=rho)
        plain = pairing.select(jax.random.key(0), impression, examined, rule)
        return pairs, plain.weights

    push, plain_push = np.zeros((5, 5)), np.zeros((5, 5))
    omega = np.zeros((5, 5), bool)
    omega[0, 1] = omega[2, 3] = True  # orders neither pair of equals, but 0 and 2 set others free
    for shown, p_shown in order.lists(omega, k).items():
        choices = jnp.asarray(order.choices(omega, shown), jnp.int32)
        in_order = [grades[i] for i in shown]
        patterns = oracle_clicks.patterns(in_order, p_click, p_stop, stop)
        for clicks, p in patterns.items():
            pairs, plain = weights_of(
                jnp.asarray(omega), jnp.asarray(shown), choices, jnp.asarray(clicks, float)
            )
            for a, b, w, w_plain in zip(*pairs, plain, strict=True):
                push[shown[a], shown[b]] += p_shown * p * w
                plain_push[shown[a], shown[b]] += p_shown * p * w_plain
    for i, j in ((0, 4), (1, 2)):
        assert abs(push[i, j] - push[j, i]) < 1e-12
    assert max(push[0, 4], push[1, 2]) > 1e-3
    assert max(abs(plain_push[i, j] - plain_push[j, i]) for i, j in ((0, 4), (1, 2))) > 1e-3
    # Documents of different grades still get one, towards the better.
    assert push[0, 3] - push[3, 0] > 1e-3


def test_the_width_covers_what_the_network_does_not_know():
    """Lemma 1: |sigma(f_ij) - sigma(h_ij)| <= CB_ij for at least 1 - delta of unseen pairs.

    The setting that the lemma is about: full A, a wide network (m = 100, p = 300), unit features,
    alpha_t of the lemma with its constant 1 and no eps(m), full-history descent, the well-specified
    user, and h a linearised network with sqrt(m) ||theta* - theta_0|| = S. 300 rounds of lists of
    20, the seed is fixed. Widths stay informative: below 1, and a fiftieth of them covers too few.
    """
    d, width, k, n_rounds, n_train, S, prior, delta = 2, 100, 20, 300, 500, 1.5, 4.0, 0.1
    made = table.make(
        "olranknet",
        {
            "confidence": "full", "alpha_rule": "lemma", "norm_bound": S, "lambda": prior,
            "delta": delta, "width": width, "k": k, "history": n_rounds, "history_batch": None,
            "learning_rate": 0.02,
        },
    )  # fmt: skip
    ranker, net = made.ranker, mlp.paper(width, 2)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_train + 100, d))
    X = jnp.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))
    state = ranker.init(jax.random.key(0), d, made.numbers)
    G = np.asarray(net.tangents(state.theta_0, X))
    directions = np.linalg.svd(G - G.mean(0), full_matrices=False)[2][
        :8
    ]  # those that data can show
    step = rng.normal(size=8) @ directions
    h = jnp.asarray(G @ (S * step / np.linalg.norm(step)))
    user, rows = presets.user("well-specified", 1, k=k), Rows(X)

    def one_round(state, key):
        query_key, rank_key, click_key, learn_key = jax.random.split(key, 4)
        ids = jax.random.choice(query_key, n_train, (k,), replace=False).astype(jnp.int32)
        ranking = ranker.rank(state, rank_key, X[ids], jnp.ones(k, bool), k)
        ids = ids[ranking.order]
        reaction = click(user, click_key, jnp.zeros(k, jnp.int32), h[ids], ranking.shown)
        impression = Impression(ids, reaction.clicks, ranking)
        return ranker.learn(state, learn_key, impression, rows), None

    keys = jax.random.split(jax.random.key(100), n_rounds)
    state, _ = jax.jit(lambda state: jax.lax.scan(one_round, state, keys))(state)

    unseen = X[n_train:]
    mask, upper = jnp.ones(len(unseen), bool), np.triu_indices(len(unseen), 1)
    g = net.tangents(state.theta, unseen)
    norms = conf.pair_norms(conf.kind("full"), state.confidence, g, mask)
    log_ratio = state.confidence.log_det_ratio
    alpha = 0.5 * np.sqrt(log_ratio - 2 * np.log(delta)) + np.sqrt(prior) * S
    widths = np.asarray(alpha * norms, np.float64)[upper]
    f, h_unseen = ranker.score(state, unseen), h[n_train:]
    known = network.sigmoid(np.asarray(f[:, None] - f[None, :], np.float64))
    true = network.sigmoid(np.asarray(h_unseen[:, None] - h_unseen[None, :], np.float64))
    errors = abs(known - true)[upper]

    assert np.mean(errors <= widths) >= 1 - delta
    assert np.mean(widths < 1) > 0.9
    assert np.mean(errors <= widths / 50) < 1 - delta
    before = abs(0.5 - true)[upper]
    assert errors.mean() < before.mean() / 2  # it did learn
