"""olCascade that forgets: it starts anew where too much speaks against what it has learned."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rankers.served import Pupil, impression_of

from olrank.errors import ConfigError
from olrank.feedback.impressions import held
from olrank.rankers import table

pytestmark = pytest.mark.usefixtures("x64")

D, K = 3, 4
SETTINGS = {
    "preset": "third", "width": 6, "k": K, "history": 50, "history_batch": 8, "steps": 1,
    "documents": 64, "learning_rate": 0.05,
}  # fmt: skip
PUPIL = Pupil("olcascade", SETTINGS, jax.random.uniform(jax.random.key(1), (12, D)))
MARK = jnp.uint32(25)
LISTS = [([0, 1, 2, 3], [0, 1, 0, 0]), ([4, 5, 0, 1], [1, 0, 0, 1]), ([6, 7, 8], [0, 0, 1])]


@pytest.fixture(params=["third", "best"])
def either_preset(monkeypatch, request):
    """Experts with given pulls; the line of a mixed model and networks that standardise."""
    monkeypatch.setitem(SETTINGS, "preset", request.param)


@cache
def compiled(learn):
    return jax.jit(learn)


def learned(ranker, state, rows, clicks):
    impression = impression_of(rows, clicks, K, MARK)
    return compiled(ranker.learn)(state, jax.random.key(9), impression, PUPIL.rows)


def taught(lists, **settings):
    ranker, state = PUPIL.started(**settings)
    for rows, clicks in lists:
        state = learned(ranker, state, rows, clicks)
    return ranker, state


def same(mine, theirs):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12), mine, theirs)


def doubted(state, nats):
    """The state with so much doubt, which arose after its second list."""
    known = state.history.doubt._replace(nats=jnp.asarray(nats), since=jnp.int32(2))
    return state._replace(history=state.history._replace(doubt=known))


def test_with_nothing_to_doubt_it_learns_what_one_that_never_forgets_does():
    _, state = taught(LISTS)
    _, other = taught(LISTS, forgets=False)
    assert other.history.doubt == ()
    same(state._replace(history=state.history._replace(doubt=())), other)


@pytest.mark.usefixtures("either_preset")
def test_after_an_alarm_nothing_is_known_but_what_came_since_doubt_arose():
    ranker, state = taught(LISTS)
    _, fresh = PUPIL.started()
    after = learned(ranker, doubted(state, 1000.0), *LISTS[0])
    for name in ("theta", "last", "documents", "confidence"):
        same(getattr(after, name), getattr(fresh, name))
    known, nothing = after.history.experts, fresh.history.experts
    if known.model != ():  # its tables are let be: nobody is found in them any more
        assert not known.model.sightings.fingerprints.any()
        assert not known.model.queries.marks.any()
        same(known.model.lines, nothing.model.lines)
        known, nothing = known._replace(model=()), nothing._replace(model=())
    assert float(known.steepness) > 0  # follows from features alone, and is kept
    kept = {"steepness": nothing.steepness, "moments": nothing.moments}  # so do moments
    assert known.moments == () or float(known.moments.n) == sum(len(rows) for rows, _ in LISTS) + K
    same(known._replace(**kept), nothing)
    assert [int(x) for x in held(after.history)] == [2, 2]
    assert float(after.history.doubt.nats) == 0.0
    same(after.history.habits, learned(ranker, state, *LISTS[0]).history.habits)
    again = learned(ranker, after, *LISTS[1])
    assert [int(x) for x in held(again.history)] == [2, 3]
    assert float(jnp.abs(ranker.score(again, PUPIL.rows.features)).max()) > 0


def test_the_setting_says_how_much_doubt_is_too_much():
    for limit, forgotten in ((20.0, True), (40.0, False)):
        ranker, state = taught(LISTS, doubt=limit)
        after = learned(ranker, doubted(state, 30.0), *LISTS[0])
        assert bool(held(after.history).n == 2) == forgotten


@pytest.mark.usefixtures("either_preset")
def test_it_recovers_from_scores_that_are_no_numbers():
    ranker, state = taught(LISTS)
    (line, network), others = state.theta
    broken = ((jnp.full_like(line, jnp.nan), network), others)
    state = state._replace(theta=broken, last=broken)
    assert bool(jnp.isnan(ranker.score(state, PUPIL.rows.features)).all())
    for _ in range(8):
        state = learned(ranker, state, *LISTS[0])
    kept = jax.tree.leaves((state._replace(history=()), state.history.experts))
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in kept)
    assert bool(jnp.isfinite(ranker.score(state, PUPIL.rows.features)).all())


def test_a_change_of_taste_is_followed():
    likes, hates = ([0, 1, 2, 3], [1, 0, 0, 0]), ([0, 1, 2, 3], [0, 0, 0, 1])
    lists = [likes] * 30 + [hates] * 6
    found = {}
    for forgets in (True, False):
        # A toy's few documents are soon learned again: less doubt than usual must be enough.
        ranker, state = taught(lists, doubt=0.5, forgets=forgets)
        found[forgets] = ranker.score(state, PUPIL.rows.features)
        if forgets:
            assert int(state.history.doubt.first) == 30
    assert float(found[True][3]) > float(found[True][0])
    assert float(found[False][3]) < float(found[False][0])


def test_it_goes_with_the_diagonal_alone():
    settings = {"forgets": True, "confidence": "full", "preset": "ours"}
    with pytest.raises(ConfigError, match="forgets: it goes with confidence"):
        table.make("olcascade", settings)
