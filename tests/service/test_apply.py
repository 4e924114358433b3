"""What an impression teaches: merged clicks, what was in view, once, in one order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
import pytest

import olrank
from olrank.service import blueprint as blueprints
from olrank.service.apply import Model, lesson_of, n_in_view
from olrank.service.records import Kind, StoredRanking, clicks_of

K, D = 4, 3


@dataclass
class Fact:
    """A record, as far as applying it is concerned."""

    kind: Kind
    position: int
    header: dict[str, Any]
    arrays: dict[str, Any] = field(default_factory=dict)
    at_ms: int = 0


def blueprint(algorithm: str = "olranknet", **settings: Any) -> blueprints.Blueprint:
    config = blueprints.resolve(
        algorithm=algorithm, settings=settings, k=K, history=10, features=D, normalise="none",
        seed=3, window_s=1.0, limit_s=1.0, explore_share=0.0, keep_candidates=0.0,
    )  # fmt: skip
    return blueprints.make(config)


def event(clicks=(), upto=None, status="accepted") -> Any:
    pairs = [[item, weight] for item, weight in dict(clicks).items()]
    return Fact(Kind.FEEDBACK, 1, {"status": status, "clicks": pairs, "shown_upto": upto})


def stored(events: list[Any], x: np.ndarray, *, n: int = K, trains: bool = True) -> Any:
    shown = [f"d{i}" for i in range(n)]
    arrays = {
        "features": x[:n].astype(np.float32),
        "choices": np.arange(n, 0, -1, dtype=np.int32),
        "certain": np.zeros((n, n), bool),
        "log_p": np.asarray(-1.0, np.float32),
    }
    header = {"ranking_id": "r", "shown": shown, "trains": trains}
    return StoredRanking(Fact(Kind.RANKING, 1, header, arrays), tuple(events), None)  # type: ignore[arg-type]


X = np.random.default_rng(0).random((K, D)).astype(np.float32)


def test_clicks_are_merged_by_the_heaviest_and_paused_events_do_not_count():
    events = [
        event({"d0": 1.0, "d2": 0.5}),
        event({"d2": 2.0}),
        event({"d2": 1.5}),
        event({"d1": 9.0}, status="paused"),
    ]
    lesson = lesson_of(stored(events, X), blueprint())
    assert lesson is not None
    assert lesson.clicks.tolist() == [1.0, 0.0, 2.0, 0.0]
    assert lesson.seen.tolist() == [True] * K


@pytest.mark.parametrize(
    ("events", "n_seen"),
    [
        ([], 0),
        ([event({"d0": 1.0}, status="paused")], 0),
        ([event()], 4),
        ([event(upto=0)], 0),
        ([event(upto=2)], 2),
        ([event(upto=1), event(upto=3), event()], 3),
        ([event(upto=1), event({"d2": 1.0})], 3),  # a click was seen, whatever is said
        ([event(upto=0), event({"d0": 0.0})], 0),  # weight 0 is no click
    ],
)
def test_what_was_in_view(events, n_seen: int):
    one = stored(events, X)
    clicks = clicks_of(one.events, one.record.header["shown"])
    assert n_in_view(one.events, clicks) == n_seen
    assert (lesson_of(one, blueprint()) is None) == (n_seen == 0)


def test_lists_that_the_ranker_cannot_learn_from_teach_nothing():
    assert lesson_of(stored([event({"d0": 1.0})], X, trains=False), blueprint()) is None


def batch(model: Model, number: int, events: list[Any], x: np.ndarray) -> None:
    """A close and its batch record, as the learner reads them."""
    at = 10 * number
    one = stored(events, x)
    close = Fact(Kind.CLOSE, at, {"ranking_id": "r", "reason": "window"})
    for record in (close, Fact(Kind.BATCH, at + 1, {})):
        model.apply(record, lambda _: one, lambda _: {})  # type: ignore[arg-type]


def test_it_learns_what_the_library_learns_from_the_same_clicks():
    """The service's learning is OnlineRanker's, bit for bit, where both see the same lists."""
    plan = blueprint(width=4, steps=2, history_batch=4)
    model = Model(plan, plan.init())
    settings = {"width": 4, "steps": 2, "history_batch": 4, "history": 10}
    other = olrank.OnlineRanker(
        "olranknet", n_features=D, k=K, settings=settings, normalise="none", seed=3
    )
    rng = np.random.default_rng(1)
    for number in range(1, 9):
        ranking = other.rank(rng.random((K, D)))
        clicks = rng.choice([0.0, 1.0, 2.5], K)
        other.learn(ranking, clicks)
        weights = {f"d{i}": float(clicks[i]) for i in range(K)}
        batch(model, number, [event(weights)], np.asarray(ranking.features))
    for ours, theirs in zip(
        jax.tree.leaves(model.state["ranker"].theta),
        jax.tree.leaves(other._state["ranker"].theta),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)
    assert (model.n_trained, model.version, model.position) == (8, 8, 81)
    np.testing.assert_array_equal(model.state["rows"], other._state["rows"])


def test_a_batchs_size_moves_no_bit():
    plan = blueprint(width=4, steps=2, history_batch=4)
    rng = np.random.default_rng(2)
    xs = rng.random((6, K, D)).astype(np.float32)
    apart, together = Model(plan, plan.init()), Model(plan, plan.init())
    for number, x in enumerate(xs, 1):
        batch(apart, number, [event({"d1": 1.0})], x)
    found = {f"r{i}": stored([event({"d1": 1.0})], x) for i, x in enumerate(xs)}

    def fetch(close: Fact) -> object:
        return found[close.header["ranking_id"]]

    for i in range(6):
        close = Fact(Kind.CLOSE, 100 + i, {"ranking_id": f"r{i}", "reason": "window"})
        together.apply(close, fetch, lambda _: {})  # type: ignore[arg-type]
        assert not together.at_boundary
    together.apply(Fact(Kind.BATCH, 106, {}), fetch, lambda _: {})  # type: ignore[arg-type]
    assert together.at_boundary
    assert together.digest() == apart.digest()
    assert (together.version, apart.version) == (1, 6)


def test_the_learn_switch_counts_where_the_close_stands():
    plan = blueprint(width=4)
    model = Model(plan, plan.init())
    before = model.digest()
    off, on = ({"switches": {"learn": value}} for value in (False, True))
    model.apply(Fact(Kind.SWITCH, 1, off), lambda _: None, lambda _: {})  # type: ignore[arg-type]
    batch(model, 1, [event({"d1": 1.0})], X)
    assert (model.digest(), model.n_trained) == (before, 0)
    model.apply(Fact(Kind.SWITCH, 20, on), lambda _: None, lambda _: {})  # type: ignore[arg-type]
    batch(model, 3, [event({"d1": 1.0})], X)
    assert model.digest() != before


def test_after_a_roll_back_no_random_number_is_used_again():
    plan = blueprint(width=4, history_batch=3)  # three of two pairs: another draw, another step
    model = Model(plan, plan.init())
    clicks = [event({"d1": 1.0, "d3": 1.0})]
    batch(model, 1, clicks, X)
    again = Fact(Kind.PROMOTE, 20, {"snapshot_id": "s"})
    assert model.apply(again, lambda _: None, lambda _: plan.init())  # type: ignore[arg-type]
    assert (model.version, model.n_trained) == (2, 1)
    fresh = Model(plan, plan.init())
    assert model.digest() == fresh.digest()
    batch(model, 3, clicks, X)
    batch(fresh, 3, clicks, X)
    assert model.digest() != fresh.digest()


def test_the_tally_counts_slots_and_reasons():
    plan = blueprint(width=4)
    model = Model(plan, plan.init())
    batch(model, 1, [event({"d1": 1.0}, upto=2)], X)
    batch(model, 2, [], X)
    assert model.tally.closed == {"window": 2}
    assert (model.tally.shown, model.tally.clicked) == ({0: 1, 1: 1}, {1: 1})
    assert model.tally.trained == 1


def test_a_configuration_spells_out_every_setting():
    config = blueprint("pairrank").config
    again = blueprints.make({**config, "settings": dict(config["settings"])})
    assert config["settings"]["alpha"] == again.config["settings"]["alpha"] == 0.1
    assert "preset" in config["settings"]
    plan = blueprint("pairrank")
    assert plan.size_bytes == sum(leaf.nbytes for leaf in jax.tree.leaves(plan.init()))
