"""Compare how often things were drawn with their exact probabilities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import jax
import numpy as np
from scipy.stats import chisquare

FALSE_ALARM = 1e-6
"""The share of seeds for which a right sampler fails one comparison; every test fixes its seed."""


def keys(seed: int, n: int) -> jax.Array:
    """[n] independent random keys."""
    return jax.random.split(jax.random.key(seed), n)


def assert_drawn_as(expected: Mapping[Any, float], drawn: Iterable[Hashable]) -> None:
    """Every outcome comes up as often as it should (chi-square), and no impossible one does.

    Args:
        expected: each possible outcome with its probability; they must add up to 1.
        drawn: independent draws.
    """
    counts = Counter(drawn)
    assert abs(sum(expected.values()) - 1) < 1e-9
    assert counts.keys() <= expected.keys(), "something impossible was drawn"
    n = sum(counts.values())
    wanted = np.array([n * p for p in expected.values()])
    observed = np.array([counts[outcome] for outcome in expected])
    # Chi-square wants five or more a cell: the rare outcomes share one of the largest one's.
    shared = (wanted < 5) | (np.arange(wanted.size) == wanted.argmax())
    observed = np.append(observed[~shared], observed[shared].sum())
    wanted = np.append(wanted[~shared], wanted[shared].sum())
    assert len(wanted) > 1 or len(expected) == 1, "all outcomes fell into one cell"
    if len(wanted) > 1:
        assert chisquare(observed, wanted).pvalue > FALSE_ALARM


def lists_of(order: Any, shown: Any) -> list[tuple[int, ...]]:
    """The shown documents of many rankings, [n, k] each, as tuples."""
    return [
        tuple(documents[: sum(seen)])
        for documents, seen in zip(
            np.asarray(order).tolist(), np.asarray(shown).tolist(), strict=True
        )
    ]
