"""What only an optimising compiler can break; other tests of rankers run without optimisations."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from olrank.rankers import table
from olrank.service import blueprint, live


def test_compiled_no_document_stands_certainly_above_itself():
    """A compiler that computes a score twice may round it twice; widths are 0 on the diagonal."""
    made = table.make("olranknet", {"history": 16, "steps": 1, "history_batch": 8})
    state = made.ranker.init(jax.random.key(0), 20, made.numbers)
    rank = jax.jit(made.ranker.rank, static_argnums=4)
    for size, seed in itertools.product((16, 32, 48), range(10)):
        key = jax.random.key(seed)
        moved = jax.tree.map(
            lambda leaf, key=key: leaf + 0.1 * jax.random.normal(key, leaf.shape), state.theta
        )
        sharp = state._replace(
            theta=moved, confidence=state.confidence._replace(A=1e6 * state.confidence.A)
        )
        features = jax.random.uniform(key, (size, 20))
        mask = jnp.arange(size) < 10
        ranking = rank(sharp, key, features, mask, 10)
        # All ten are shown, whatever their order: none waits for itself.
        assert sorted(ranking.order.tolist()) == list(range(10))
        assert not jnp.any(ranking.certain & ranking.certain.T)
        assert (ranking.choices >= 1).all()


@pytest.mark.parametrize("mode", live.MODES)
def test_compiled_a_service_shows_every_candidate_once_in_every_mode(mode: str):
    """Scores are part of the answer there, which is one more reason to compute them again."""
    config = blueprint.resolve(
        algorithm="olranknet", settings={}, k=10, history=16, features=2, seed=0, normalise="query"
    )
    made = blueprint.make(config)
    blank = blueprint.serving_part(made.init())
    for seed in range(20):
        rng = np.random.default_rng(seed)
        moved = [leaf + 0.3 * rng.normal(size=leaf.shape) for leaf in jax.tree.leaves(blank.theta)]
        theta = jax.tree.unflatten(
            jax.tree.structure(blank.theta), [jnp.asarray(leaf, jnp.float32) for leaf in moved]
        )
        confidence = blank.confidence._replace(A=1e6 * blank.confidence.A)
        sharp = live.Serving(blank._replace(theta=theta, confidence=confidence), 1)
        rows = rng.random((10, 2), np.float32)
        rows[3] = rows[7]  # two of a kind: neither may stand above the other
        drawn = live.draw(made, sharp, bytes(32), mode, rows, share=0.5)
        assert sorted(drawn.order.tolist()) == list(range(10))
        assert not np.any(drawn.certain & drawn.certain.T)
        assert (drawn.choices >= 1).all()
