"""Mixed replicas come back in order, whatever the batches; buckets change no result."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import numpy as np
import pytest

from olrank.data.synthetic import synthetic_folds
from olrank.engine import lockstep, sweep
from olrank.errors import ConfigError
from olrank.rankers import table
from olrank.users import presets

K = 4
FOLD = synthetic_folds(
    "small", queries=(20, 1, 10), features=5, mean_docs=14, max_docs=40, relevance="linear", seed=1
)
SMALL = {"k": K, "width": 6, "history": 64, "steps": 2, "history_batch": 8}
CURVES = ("offline", "online", "regret", "examined_regret", "certain_ratio")
KEYS = [lockstep.shard_key("train", "1", seed) for seed in (0, 1)]


def replica(user="informational", name="olranknet", **settings):
    fields = table.entry(name).design._fields
    small = {key: value for key, value in SMALL.items() if key in fields}
    made = table.make(name, {**small, **settings})
    return sweep.Replica(made.ranker, made.numbers, presets.user(user, 4, k=K))


MIX = [
    replica(alpha=0.3),
    replica("perfect", name="pdgd-linear"),
    replica("perfect", alpha=0.01),
    replica("navigational", name="pdgd-linear", learning_rate=0.01),
    replica("navigational", alpha=0.3),
]


def measure(replicas, rounds=12, **more):
    return sweep.run(replicas, KEYS, FOLD.train, [FOLD.test], rounds=rounds, k=K, **more)


def test_replicas_of_several_rankers_come_back_in_their_order():
    told = []
    together = measure(MIX, progress=lambda done, of: told.append((done, of)))
    assert together.online.shape == (2, len(MIX), 12)
    assert told[-1] == (12, 12)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    for at, one in enumerate(MIX):
        alone = measure([one, one])
        np.testing.assert_allclose(together.online[:, at], alone.online[:, 0], atol=1e-5)
    assert not np.allclose(together.online[:, 0], together.online[:, 2])  # they do differ


def test_batches_padded_to_one_size_give_the_same_bits():
    three = [MIX[0], MIX[2], MIX[4]]
    split, other = measure(three, batch=2), measure([three[0], three[2], three[1]], batch=2)
    for field in CURVES:
        mine, theirs = getattr(split, field), getattr(other, field)[..., [0, 2, 1], :]
        np.testing.assert_array_equal(mine, theirs)


def test_single_queries_come_back_in_the_order_of_the_replicas():
    together = measure(MIX, batch=2, per_query=True)
    (by_query,) = together.by_query
    assert by_query.shape == (2, len(MIX), FOLD.test.n_queries)
    for at, one in enumerate(MIX):
        alone = measure([one, one], per_query=True).by_query[0][:, 0]
        np.testing.assert_allclose(by_query[:, at], alone, atol=1e-5)
    assert not np.allclose(by_query[:, 0], by_query[:, 2])  # they do differ


def test_the_padded_width_of_every_batch_is_told():
    widths = []
    measure(MIX, batch=2, batched=widths.append)
    assert widths == [2, 2, 2]  # three replicas of olranknet, padded to four; two of PDGD


def test_running_out_of_memory_halves_the_batch_and_goes_on(monkeypatch):
    tried = []
    real = lockstep.run

    def small_device(ranker, numbers, users, *given, **more):
        tried.append(len(numbers))
        if len(numbers) > 2:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")
        return real(ranker, numbers, users, *given, **more)

    whole = measure([MIX[0]] * 5, batch=2)
    monkeypatch.setattr(lockstep, "run", small_device)
    halved = measure([MIX[0]] * 5, batch=5)
    assert tried == [5, 2, 2, 2]
    np.testing.assert_array_equal(halved.online, whole.online)


def test_running_out_of_memory_serves_fewer_shards_at_once_before_it_halves_the_batch(monkeypatch):
    tried = []
    real = lockstep.run

    def small_device(ranker, numbers, *given, together, **more):
        tried.append((len(numbers), together))
        if together > 1:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")
        return real(ranker, numbers, *given, together=together, **more)

    whole = measure([MIX[0]] * 3, batch=2)
    monkeypatch.setattr(lockstep, "run", small_device)
    # As on a GPU: both shards at once while two batches of them may be served.
    monkeypatch.setattr(
        lockstep, "shards_together", lambda n_shards, n, at_once: min(n_shards, at_once // n)
    )
    fewer = measure([MIX[0]] * 3, batch=2)
    assert tried == [(2, 2), (2, 1), (2, 1)]
    np.testing.assert_array_equal(fewer.online, whole.online)


def test_other_errors_of_the_device_are_not_hidden(monkeypatch):
    def broken(*given, **more):
        raise jax.errors.JaxRuntimeError("INTERNAL: something else")

    monkeypatch.setattr(lockstep, "run", broken)
    with pytest.raises(jax.errors.JaxRuntimeError, match="something else"):
        measure(MIX)


def test_a_replica_that_can_never_fit_is_refused_with_its_size(monkeypatch):
    monkeypatch.setattr(sweep, "_CPU_BYTES", 10_000)
    with pytest.raises(ConfigError, match=r"one replica needs about 0\.\d GB"):
        measure(MIX)
    with pytest.raises(ConfigError, match="at least one replica"):
        measure([])


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", ["olranknet", "pdgd-neural"])
def test_buckets_give_the_rows_of_the_plain_scan_however_many_shards_share_one(name):
    """In float64 over 200 rounds; the plain scan pads every query to the largest."""
    one = replica(name=name)
    keys = [lockstep.shard_key("train", "1", seed) for seed in range(4)]

    def run(**given):
        return lockstep.run(
            one.ranker, [one.numbers], [one.user], keys, FOLD.train, [FOLD.test],
            rounds=200, k=K, **given,
        )  # fmt: skip

    plain = run(sizes=[int(FOLD.train.sizes.max())], together=1)
    for together in (1, 2, 4):
        bucketed = run(together=together)
        for field in CURVES:
            np.testing.assert_allclose(
                getattr(bucketed, field), getattr(plain, field), rtol=1e-9, atol=1e-12
            )


def test_a_gpu_serves_as_many_shards_at_once_as_keep_it_busy(monkeypatch):
    """Up to 192 replicas, in equal parts of the shards; a processor serves one after the other."""
    assert lockstep.shards_together(30, 6) == 1
    monkeypatch.setattr(jax, "devices", lambda: [SimpleNamespace(platform="gpu")])
    found = [lockstep.shards_together(*given) for given in ((30, 6), (30, 12), (7, 60), (10, 144))]
    assert found == [30, 15, 1, 1]


@pytest.mark.parametrize("together", [1, 12])
def test_shards_meet_queries_of_their_own(together):
    """A bucket sequence shared between seeds would hide part of the variance between queries."""
    from engine.test_lockstep import in_order

    keys = [lockstep.shard_key("train", "1", seed) for seed in range(12)]
    served = lockstep.run(
        in_order(False), [()], [MIX[0].user], keys, FOLD.train, [FOLD.test],
        rounds=200, k=K, together=together,
    ).regret[:, 0]  # fmt: skip
    # Means of independent draws spread as the draws do over sqrt(rounds); a chi-square of 11
    # degrees lies between 1.8 and 34 with a false-alarm rate of 1e-3.
    expected = served.var() / served.shape[1]
    spread = served.mean(axis=1).var(ddof=1) * (len(keys) - 1) / expected
    assert 1.8 < spread < 34
    correlation = np.corrcoef(served)[np.triu_indices(len(keys), 1)]
    assert np.abs(correlation).max() < 0.35  # a shared sequence would give 1; 66 pairs, 4.9 sigma
