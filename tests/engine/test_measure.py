"""Single queries and a taste that changes, asked for in words."""

from __future__ import annotations

import numpy as np
import pytest
from engine.test_lockstep import D, by_features

from olrank.data.synthetic import synthetic_folds
from olrank.data.taste import with_other_taste
from olrank.engine import compiled, lockstep
from olrank.engine.measure import Curves, Line, Options, measure
from olrank.errors import ConfigError
from olrank.users import presets

FOLD = synthetic_folds(
    "small", queries=(15, 6, 40), features=D, mean_docs=6, max_docs=9, relevance="linear", seed=1
)
FOLD.test.grades[FOLD.test.offsets[1] : FOLD.test.offsets[2]] = 0  # a query without a relevant one
HELD_OUT = {"ndcg@4": FOLD.test, "validation_ndcg@4": FOLD.validation}
LINES = [Line({}, user, "clicked") for user in ("perfect", "informational", "near-random")]
KEYS = [lockstep.shard_key("small", "1", seed) for seed in (0, 1)]
# Never learns, so that only the grades can change what is measured.
STILL = by_features(np.random.default_rng(0).normal(size=D))
AT = [5, 9, 10, 11, 20]


def run(**options):
    given = {"rounds": 20, "seeds": (0, 1), "k": 4, "fold": "1", "batch": 2, **options}
    return measure("pdgd-linear", FOLD.train, HELD_OUT, LINES, Options(**given))


def served(train=FOLD.train, test=FOLD.test, **more):
    user = presets.user("perfect", 4, k=4)
    given = {"rounds": 20, "k": 4, "evaluate_after": AT, "chunk": 10, **more}
    return lockstep.run(STILL, [()], [user], KEYS, train, [test], **given)


def other(after=10):
    train, test = (with_other_taste(part, 7) for part in (FOLD.train, FOLD.test))
    return lockstep.Change(after, train, [test])


@pytest.fixture(scope="module")
def plain():
    return run()


@pytest.fixture(scope="module")
def asked():
    return run(per_query=True)


def test_unless_asked_for_there_are_no_single_queries(plain):
    assert plain.by_query == {}
    assert Curves(np.array([1]), {}).by_query == {}


def test_the_mean_of_the_single_queries_is_where_the_curve_ends(asked):
    assert list(asked.by_query) == list(HELD_OUT)
    for name, values in asked.by_query.items():
        assert values.dtype == np.float32
        assert values.shape == (2, len(LINES), HELD_OUT[name].n_queries)
        means = np.nanmean(values.astype(float), axis=-1)
        np.testing.assert_allclose(means, asked.metrics[name][..., -1], atol=1e-6)


def test_asking_for_single_queries_changes_no_bit_of_the_curves(plain, asked):
    for name, values in plain.metrics.items():
        np.testing.assert_array_equal(asked.metrics[name], values)


@pytest.mark.parametrize(("empty", "value"), [("skip", float("nan")), ("zero", 0.0), ("one", 1.0)])
def test_a_query_without_a_relevant_document_counts_as_in_the_mean(empty, value):
    found = served(empty=empty, per_query=True)
    (values,) = found.by_query
    np.testing.assert_array_equal(values[..., 1], value)
    assert np.isfinite(values[..., 0]).all()
    means = np.nanmean(values.astype(float), axis=-1)
    np.testing.assert_allclose(means, found.offline[0, ..., -1], atol=1e-6)


def test_single_queries_are_those_of_the_last_evaluated_round_also_when_the_run_goes_on():
    """A run that is over after that round has them, and one that changes its taste then."""
    over = served(rounds=10, evaluate_after=[10], per_query=True).by_query[0]
    goes_on = served(evaluate_after=[10], per_query=True).by_query[0]
    changes = served(evaluate_after=[10], per_query=True, change=other()).by_query[0]
    np.testing.assert_array_equal(goes_on, over)
    np.testing.assert_array_equal(changes, over)
    changed = served(per_query=True, change=other()).by_query[0]
    assert (changed != over).any(axis=-1).all()


def test_after_the_change_everything_is_measured_by_the_other_grades():
    before, changed, change = served(), served(change=other()), other()
    after = served(change.train, change.held_out[0])
    # Of the evaluated rounds 5, 9, 10 come before the change, and 11, 20 after it.
    np.testing.assert_array_equal(changed.offline[..., :3], before.offline[..., :3])
    np.testing.assert_array_equal(changed.offline[..., 3:], after.offline[..., 3:])
    assert (before.offline != after.offline).all()
    for field in ("online", "regret", "examined_regret"):
        old, mixed, new = (getattr(measured, field) for measured in (before, changed, after))
        np.testing.assert_array_equal(mixed[..., :10], old[..., :10])
        np.testing.assert_array_equal(mixed[..., 10:], new[..., 10:])
        assert (old[..., 10:] != new[..., 10:]).any()


def test_a_chunk_ends_where_the_taste_changes_and_nothing_is_compiled_again():
    told = []
    served(progress=lambda done, of: told.append(done))
    before = compiled.run_chunk._cache_size()
    served(change=other(), progress=lambda done, of: told.append(done))
    assert compiled.run_chunk._cache_size() == before
    assert told == [10, 20] * 2


@pytest.mark.parametrize("cuts", [[], [2500], [1234], [4999], [1, 3000]])
def test_chunks_end_at_every_cut_and_cover_every_round_once(cuts):
    spans = list(lockstep._spans(5000, 500, cuts))
    assert np.concatenate(spans).tolist() == list(range(1, 5001))
    assert set(cuts) <= {int(span[-1]) for span in spans}
    assert max(len(span) for span in spans) <= 500
    if cuts in ([], [2500]):  # half-way: chunks as without a change, and so no other program
        assert [len(span) for span in spans] == [500] * 10


def test_what_was_learned_of_the_old_taste_is_worth_little_after_the_change():
    options = {"rounds": 201, "evaluate_after": (1, 200, 201), "seeds": tuple(range(6))}
    found = run(taste_changes_after=200, **options).metrics["ndcg@4"][:, 0]
    first, learned, lost = found.mean(axis=0)
    assert learned - first > 0.1
    assert learned - lost > 0.2


def test_the_taste_can_only_change_before_the_last_round():
    for after in (0, 20, 21):
        with pytest.raises(ConfigError, match=f"between 1 and 19.*not {after}"):
            run(taste_changes_after=after)
