"""What a compiled round is given: the queries on the device, and the protocol.

Queries lie one behind the other in one table of rows, so that a round gathers only what it needs;
lengths may be rounded up, so that the folds of a data set are served by one compiled program.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from olrank.metrics import ndcg as ndcgs
from olrank.types import Array, Dataset, Rows


class Queries(NamedTuple):
    """A data set on the device, its arrays perhaps longer than it is; see `place`.

    Attributes:
        rows: features and grades of all documents.
        relevance: [n_rows] h, zeros where unknown.
        first: [n_queries] int32, first row of each query.
        n_docs: [n_queries] int32.
        ideal: [n_queries] ideal DCG@k.
        slots: [max_docs] int32, 0, 1, ...; at least as many as the largest query has documents.
        n: int32, how many queries there are; what lies behind them has no documents.
    """

    rows: Rows
    relevance: Array
    first: Array
    n_docs: Array
    ideal: Array
    slots: Array
    n: Array


class Protocol(NamedTuple):
    """What is fixed in a compiled step.

    Attributes:
        k: slots shown, and the cut-off of NDCG.
        n_grades: of the scale.
        empty: how test queries without a relevant document count.
        sizes: padded sizes of the buckets, ascending, the largest query's among them.
        n_replicas: of a shard.
        together: shards that are served at once, a divisor of their number.
    """

    k: int
    n_grades: int
    empty: ndcgs.EmptyRule
    sizes: tuple[int, ...]
    n_replicas: int
    together: int = 1


def place(data: Dataset, k: int, *, rounded: bool = False) -> Queries:
    """Put a data set on the device, with its ideal DCG.

    Args:
        data: the set.
        k: the cut-off of the ideal DCG.
        rounded: round the arrays' lengths up, so that sets of about the same size, like the folds
            of one, are served by one compiled program.
    """
    dtype = jnp.result_type(float)
    length = _rounded if rounded else int
    slots = jnp.arange(length(int(data.sizes.max())), dtype=jnp.int32)
    n_rows, n_queries = length(data.n_rows), length(data.n_queries)
    first = jnp.asarray(_filled(data.offsets[:-1], n_queries), jnp.int32)
    n_docs = jnp.asarray(_filled(data.sizes, n_queries), jnp.int32)
    grades = jnp.asarray(_filled(data.grades, n_rows), jnp.int32)
    relevance = np.zeros(data.n_rows) if data.relevance is None else data.relevance
    mask = slots < n_docs[:, None]
    ids = jnp.where(mask, first[:, None] + slots, 0)
    return Queries(
        rows=Rows(jnp.asarray(_filled(data.features, n_rows), dtype), grades),
        relevance=jnp.asarray(_filled(relevance, n_rows), dtype),
        first=first,
        n_docs=n_docs,
        ideal=ndcgs.ideal_dcg(grades[ids], mask, k),
        slots=slots,
        n=jnp.asarray(data.n_queries, jnp.int32),
    )


def _rounded(n: int) -> int:
    """The next number of at most three binary digits and zeros: 1 to 8, 10, 12, 14, 16, 20, ..."""
    step = 1 << max(0, n.bit_length() - 3)
    return -(-n // step) * step


def _filled(values: npt.NDArray[Any], n: int) -> npt.NDArray[Any]:
    """The same with zeros behind, n in all."""
    if len(values) == n:
        return values
    return np.concatenate([values, np.zeros((n - len(values), *values.shape[1:]), values.dtype)])
