"""Impressions for tests of feedback: a shown list and its clicks, nothing else known."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from olrank.feedback.pairs import Pairs
from olrank.types import Impression, Ranking


def impression(clicks, shown, certain) -> Impression:
    """An impression of the list of documents 0, 1, 2, ...; all arguments are arrays of k slots."""
    k = shown.shape[0]
    ranking = Ranking(jnp.arange(k), shown, jnp.ones(k, int), jnp.zeros(()), certain)
    return Impression(jnp.arange(k), clicks, ranking)


def in_slots(values: Sequence[float], k: int) -> np.ndarray:
    """[k] float, these values and zeros behind them."""
    return np.array([*values, *[0.0] * (k - len(values))])


def as_dict(pairs: Pairs) -> dict[tuple[int, int], float]:
    """{(winner, loser): weight} of the pairs that are there; none may come twice."""
    triples = [
        (int(winner), int(loser), float(weight))
        for winner, loser, weight in zip(*map(np.asarray, pairs), strict=True)
        if weight != 0
    ]
    found = {(winner, loser): weight for winner, loser, weight in triples}
    assert len(found) == len(triples), "a pair came twice"
    return found
