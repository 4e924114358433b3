"""Live draws: keys nobody can steer, lists that follow the propensity that is logged."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from math import exp

import jax
import numpy as np
import pytest
from explore.frequencies import FALSE_ALARM, assert_drawn_as
from scipy.stats import chisquare
from service.running import D, Service, candidates

from olrank.rankers import table
from olrank.service import blueprint as blueprints
from olrank.service import live

CLICK_LEARNERS = [name for name in table.names() if not table.entry(name).sees_grades]
X = np.random.default_rng(8).random((4, D)).astype(np.float32)


def test_a_draws_key_depends_on_everything_it_should():
    given = (b"s" * 32, "a", 1, 2, "r")
    keys = {live.ranking_key(*given)}
    for other in [
        (b"t" * 32, "a", 1, 2, "r"),
        (b"s" * 32, "b", 1, 2, "r"),
        (b"s" * 32, "a", 3, 2, "r"),
        (b"s" * 32, "a", 1, 3, "r"),
        (b"s" * 32, "a", 1, 2, "q"),
        (b"s" * 32, "a1", 1, 2, "r"),
        (b"s" * 32, "a", 12, 2, "r"),  # parts must not run into each other
        (b"s" * 32, "a", 1, 22, "r"),
    ]:
        keys.add(live.ranking_key(*other))
    assert len(keys) == 9
    assert live.ranking_key(*given) in keys


def test_sizes_cover_every_number_of_candidates():
    assert [live.padded_size(n) for n in (1, 16, 17, 1000)] == [16, 16, 32, 1024]


@pytest.mark.parametrize("algorithm", CLICK_LEARNERS)
@pytest.mark.parametrize("mode", ["explore", "greedy", "shadow"])
def test_padding_never_shows_and_never_changes_a_list(algorithm: str, mode: str):
    settings = {"width": 4} if "width" in table.entry(algorithm).design._fields else {}
    config = blueprints.resolve(
        algorithm=algorithm, settings=settings, k=3, history=20, features=D, normalise="none",
        seed=1, explore_share=0.0, keep_candidates=0.0, window_s=1.0, limit_s=1.0,
    )  # fmt: skip
    blueprint = blueprints.make(config)
    state = blueprints.serving_part(blueprint.init())
    key, serving = live.ranking_key(b"s" * 32, "a", 1, 0, "r"), live.Serving(state, 0)
    drawn = live.draw(blueprint, serving, key, mode, X)
    assert sorted([*drawn.order.tolist(), *drawn.rest.tolist()]) == [0, 1, 2, 3]
    assert len(drawn.order) == 3
    assert drawn.log_p <= 0
    again = live.draw(blueprint, serving, key, mode, X)
    assert (again.order.tolist(), again.log_p) == (drawn.order.tolist(), drawn.log_p)
    short = live.draw(blueprint, serving, key, mode, X[:2])
    assert sorted(short.order.tolist()) == [0, 1]
    assert short.certain.shape == (2, 2)


@pytest.fixture(scope="module")
def taught(service: Service) -> str:
    """A ranker that is certain of some pairs and not of others; it learns no more.

    It learns from lists that no draw decides, one batch each, so that model, version and with them
    every later draw are always the same.
    """
    service.runtime.secret = bytes(range(32))
    service.create("drawn", "pairrank", settings={"alpha": 0.55}, k=3)
    service.client.switch("drawn", serve=False)
    rng = np.random.default_rng(4)
    for number in range(15):
        x = rng.random((6, D))
        ranking = service.client.rank("drawn", candidates(x))
        good = [f"d{i}" for i in range(3) if x[i, 0] > 0.5]
        service.client.feedback("drawn", ranking, good, close=True)
        service.wait_trained("drawn", number + 1)
    service.client.switch("drawn", learn=False, serve=True)
    return "drawn"


@pytest.mark.parametrize("share", [None, 0.4])
def test_lists_served_over_http_come_as_often_as_their_logged_propensity_says(
    service: Service, taught: str, share: float | None
):
    """Chi-square on live draws at the false-alarm rate of explore/frequencies; always the same."""
    x = np.array([[0.9, 0.2, 0.1], [0.6, 0.5, 0.9], [0.3, 0.9, 0.2], [0.35, 0.1, 0.4]])
    more = {}
    if share is not None:
        more = {"baseline_order": ["d3", "d1", "d0", "d2"], "explore_share": share}
    p_of: dict[tuple[str, ...], float] = {}
    lists = []
    certain = set()
    for number in range(500):
        one = service.client.rank(taught, candidates(x), ranking_id=f"chi-{share}-{number}", **more)
        shown = tuple(item["id"] for item in one["items"])
        p = exp(one["log_propensity"])
        assert p_of.setdefault(shown, p) == pytest.approx(p, rel=1e-5)
        lists.append(shown)
        certain.add(one["certain_pairs"])
    assert max(certain) > 0, "some order must be certain for the test to mean anything"
    assert 4 < len(p_of) < 24, "some lists must be possible, and some not"
    # Lists that were never drawn make up what is missing to 1.
    missing = 1 - sum(p_of.values())
    assert -1e-4 < missing < 0.03
    if missing > 1e-9:
        p_of[("another list",)] = missing
    total = sum(p_of.values())
    assert_drawn_as({shown: p / total for shown, p in p_of.items()}, lists)


def test_draws_of_different_ids_are_independent_of_the_request_order(service: Service, taught: str):
    """Two services with one secret would serve the same list for the same id and version."""
    ranker = service.runtime.find(taught)
    assert ranker.serving is not None
    seen = []
    for ranking_id in ("i", "j", "i"):
        key = live.ranking_key(bytes(32), taught, ranker.birth, 5, ranking_id)
        drawn = live.draw(ranker.blueprint, ranker.serving, key, "explore", X)
        seen.append(drawn.order.tolist())
    assert seen[0] == seen[2]


def test_first_slots_are_uniform_before_anything_is_learned():
    config = blueprints.resolve(
        algorithm="olranknet", settings={"width": 4}, k=2, history=20, features=D,
        normalise="none", seed=0, explore_share=0.0, keep_candidates=0.0, window_s=1.0, limit_s=1.0,
    )  # fmt: skip
    blueprint = blueprints.make(config)
    serving = live.Serving(blueprints.serving_part(blueprint.init()), 0)
    counts: Counter[tuple[int, ...]] = Counter()
    for number in range(2400):
        key = live.ranking_key(b"k" * 32, "a", 1, 0, str(number))
        counts[tuple(live.draw(blueprint, serving, key, "explore", X).order.tolist())] += 1
    every = list(permutations(range(4), 2))
    assert chisquare([counts[one] for one in every]).pvalue > FALSE_ALARM


def test_a_memo_survives_the_log_in_order():
    for algorithm in ("pdgd-neural", "dbgd-neural"):
        config = blueprints.resolve(
            algorithm=algorithm, settings={"width": 4}, k=3, history=20, features=D,
            normalise="none", seed=0,
        )  # fmt: skip
        memo = blueprints.make(config).memo
        assert len(jax.tree.leaves(memo)) == 2
        assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(memo))
