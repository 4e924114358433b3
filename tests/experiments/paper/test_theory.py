"""Coverage, log det A_t and dimensions, on cases small enough to check by other means."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest

from olrank.data.synthetic import synthetic
from olrank.engine import lockstep, protocol
from olrank.errors import DataError
from olrank.experiments.paper import theory
from olrank.rankers import table
from olrank.users import presets

SMALL = {"width": 8, "history": 64, "steps": 2, "history_batch": 16}


@pytest.fixture(scope="module")
def data():
    return synthetic("small", queries=12, features=6, mean_docs=8, max_docs=12, noise=0.0, seed=3)


@pytest.fixture(scope="module")
def followed(data):
    kinds = {"narrow": {"alpha": 1e-6}, "wide": {"alpha": 1e6}, "full": {"confidence": "full"}}
    return {
        name: theory.follow(
            "olranknet", {**SMALL, **kind}, data, data, rounds=12, seeds=2, at=(2, 12), label=name
        )
        for name, kind in kinds.items()
    }


def values(rows: pl.DataFrame, metric: str, at: int = 12) -> list[float]:
    return rows.filter(metric=metric, round=at).sort("seed")["value"].to_list()


def test_widths_without_end_cover_every_pair_and_make_none_certain(followed):
    assert values(followed["wide"], "coverage") == [1.0, 1.0]
    assert values(followed["wide"], "certain_share") == [0.0, 0.0]
    assert all(np.isnan(values(followed["wide"], "certain_right")))


def test_widths_of_nothing_cover_next_to_nothing_and_make_all_certain(followed):
    assert max(values(followed["narrow"], "coverage")) < 0.02
    assert min(values(followed["narrow"], "certain_share")) > 0.98


@pytest.mark.parametrize("kind", ["wide", "full"])
def test_log_det_starts_above_zero_and_only_grows(followed, kind):
    early, late = (values(followed[kind], "log_det_ratio", at) for at in (2, 12))
    assert all(0 < a < b for a, b in zip(early, late, strict=True))


def test_rounds_are_those_of_the_engine(data):
    """The same A after the same rounds: followed here, and served by the engine's own step."""
    made = table.make("olranknet", SMALL)
    someone = presets.user("well-specified", data.max_grade, "clicked", 10)
    key = lockstep.shard_key(data.name, "1", 0)
    queries = protocol.place(data, 10)
    kept: list[float] = []
    learn = made.ranker.learn

    def spying(state, key, impression, rows):
        state = learn(state, key, impression, rows)
        jax.debug.callback(lambda x: kept.append(float(np.max(x))), state.confidence.log_det_ratio)
        return state

    lockstep.run(
        made.ranker._replace(learn=spying), [made.numbers], [someone], [key], data, [data],
        rounds=5, evaluate_after=[5],
    )  # fmt: skip
    jax.effects_barrier()
    states = jax.vmap(lambda k: made.ranker.init(jax.random.fold_in(k, 0), 6, made.numbers))(
        jnp.stack([key])
    )
    span = jnp.int32(1), jnp.int32(5)
    states = theory._play(made.ranker, 10, someone, queries, jnp.stack([key]), states, *span)
    assert float(states.confidence.log_det_ratio[0]) == pytest.approx(kept[-1], rel=1e-4)


def test_data_without_a_known_h_is_refused(data):
    blind = replace(data, relevance=None)
    with pytest.raises(DataError, match="true relevance h is not known"):
        theory.follow("olranknet", SMALL, blind, data)


def test_dimensions_grow_with_depth_and_shrink_with_the_prior(data):
    found = theory.dimensions(data, depths=(1, 2), priors=(0.1, 10.0), max_docs=60)
    by = {(line["depth"], line["prior"]): line["dimension"] for line in found.to_dicts()}
    assert by[2, 0.1] > by[2, 10.0]
    assert by[2, 0.1] > by[1, 0.1]
    # A linear ranker has no more directions than features, each worth at most log(1 + n |H| / p).
    n = found["n_docs"][0]
    assert by[1, 0.1] <= 6 * np.log1p(n * (n + 1) / 0.1) / np.log1p(n / 0.1)
