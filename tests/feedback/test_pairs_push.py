"""By claim: swap weights cancel the push between two equally relevant documents, exactly.

Every list that the topological draw can make and every click pattern of the user is enumerated with
its exact probability; pairs and weights are ours. The push of i over j is the expected weight with
which i beats j minus that with which j beats i: what the pairwise loss sees of the two.
"""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
import pytest
from explore.frequencies import keys, lists_of
from explore.graphs import whole
from feedback.impressions import impression
from oracle import clicks as oracle_clicks
from oracle import order as oracle
from oracle.cases import FIGURE_1

from olrank.explore import order
from olrank.feedback import pairs

K = 4


def loose_chain() -> np.ndarray:
    """0 > 1 > 2 and 3 > 5, with 0 > 2 not certain and 4 free: not transitive."""
    graph = np.zeros((6, 6), bool)
    graph[0, 1] = graph[1, 2] = graph[3, 5] = True
    return graph


# Graph, grades, and two documents of equal grade whose order the graph leaves to chance.
CASES = {
    "figure 1 below its best": (FIGURE_1[1:, 1:], [1, 1, 0, 2, 0], (0, 1)),
    "not transitive": (loose_chain(), [1, 0, 2, 1, 0, 1], (1, 4)),
}


@jax.jit
def draws(keys, certain, scores, mask):
    def one(key):
        return order.draw_topological(key, certain, scores, mask, K, swaps=True)

    return jax.vmap(one)(keys)


@partial(jax.jit, static_argnames="rule")
def taught(clicks, rho, *, rule):
    """[n, n_max] pairs of each click pattern; without swap weights where rho is None."""
    shown, certain = np.ones(K, bool), np.zeros((K, K), bool)

    def one(clicks, rho):
        examined = pairs.p_examined(clicks, shown, "last-click-plus-one", 1.0)
        seen = impression(clicks, shown, certain)
        return pairs.select(jax.random.key(0), seen, examined, rule, swap_weights=rho)

    return jax.vmap(one)(clicks, rho)


def every_outcome(graph, grades, stop: str):
    """Lists [n, K], clicks [n, K], probabilities [n] and swap weights [n, K, K] of all outcomes."""
    case = whole(graph)
    many = jax.tree.map(np.asarray, draws(keys(0, 20_000), graph, case.scores, case.mask))
    row_of = {shown: row for row, shown in enumerate(lists_of(many.order, many.shown))}
    assert row_of.keys() == oracle.lists(graph, K).keys(), "some list was never drawn"
    p_click, p_stop = oracle_clicks.THREE_GRADES["informational"]
    outcomes = [
        (shown, clicks, np.exp(many.log_p_shown[row]) * p, many.memo[row])
        for shown, row in row_of.items()
        for clicks, p in oracle_clicks.patterns(
            [grades[d] for d in shown], p_click, p_stop, stop
        ).items()
    ]
    lists, clicks, p, rho = (np.array(part) for part in zip(*outcomes, strict=True))
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    return lists, clicks.astype(float), p, rho


def expected_wins(lists, clicks, p, rho, rule: str) -> np.ndarray:
    """[n, n] the expected weight with which the row's document beats the column's."""
    found = jax.tree.map(np.asarray, taught(clicks, rho, rule=rule))
    each = np.arange(len(lists))[:, None]
    wins = np.zeros((lists.max() + 1, lists.max() + 1))
    np.add.at(
        wins, (lists[each, found.winners], lists[each, found.losers]), p[:, None] * found.weights
    )
    return wins


@pytest.mark.parametrize("rule", ["independent", "all"])
@pytest.mark.parametrize("stop", ["clicked", "examined"])
@pytest.mark.parametrize("name", CASES)
def test_equally_relevant_documents_get_no_expected_push_with_swap_weights(name, stop, rule, x64):
    graph, grades, (i, j) = CASES[name]
    lists, clicks, p, rho = every_outcome(graph, grades, stop)
    wins = expected_wins(lists, clicks, p, rho, rule)
    push = wins - wins.T
    equal = np.equal.outer(grades, grades)
    assert np.abs(push[equal]).max() < 1e-13
    assert wins[i, j] > 1e-4, "the two never met, so nothing was shown"

    unweighted = expected_wins(lists, clicks, p, None, rule)
    assert abs(unweighted[i, j] - unweighted[j, i]) > 1e-4, "there was nothing to cancel"


@pytest.mark.parametrize("rule", ["independent", "all"])
def test_a_more_relevant_document_is_pushed_up_with_swap_weights(rule, x64):
    grades = [1, 2, 0, 1, 0, 1]
    outcomes = every_outcome(np.zeros((6, 6), bool), grades, "clicked")
    wins = expected_wins(*outcomes, rule)
    push = wins - wins.T
    assert np.all(push[np.greater.outer(grades, grades)] > 0.001)
