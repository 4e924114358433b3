"""Compiling takes most of the time of these tests; the arrays are too small to repay it."""

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture(autouse=True, scope="module")
def quick_to_compile() -> Iterator[None]:
    """XLA leaves out its optimisations, which change no result but its rounding."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
