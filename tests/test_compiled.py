"""What only an optimising compiler can break; other tests of rankers run without optimisations."""

import itertools

import jax
import jax.numpy as jnp

from olrank.rankers import table


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
