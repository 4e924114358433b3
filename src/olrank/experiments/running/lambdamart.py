"""LightGBM's LambdaMART on all labels: an outside skyline, made by none of our code.

It sees the grades of every train query before the first round, which no online ranker does, and
stops by those of the validation part.
"""

from __future__ import annotations

from importlib.metadata import version as version_of
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import polars as pl

from olrank.engine import protocol
from olrank.errors import ConfigError
from olrank.metrics import ndcg as ndcgs
from olrank.types import Dataset, Fold

_TREES = 500  # at most; the validation part says when to stop
_PATIENCE = 30
_WORTH_THREADS = 50_000  # documents
_SETTINGS: dict[str, Any] = {
    "objective": "lambdarank",
    "learning_rate": 0.05,
    "num_leaves": 31,
    "min_data_in_leaf": 20,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "verbosity": -1,
    "deterministic": True,
    "force_row_wise": True,
}


def available() -> bool:
    """Whether LightGBM is installed."""
    return find_spec("lightgbm") is not None


def version() -> str:
    """LightGBM's, as another one may grow other trees."""
    return version_of("lightgbm")


def lambdamart(fold: Fold, seeds: tuple[int, ...] = (0,), k: int = 10) -> pl.DataFrame:
    """The mean of `by_query` for every seed.

    Returns:
        Rows of ranker "lambdamart" for user and stop rule "-", in round 0: it met no user.
    """
    values = by_query(fold, seeds, k)
    lines = [(seed, f"ndcg@{k}", _mean(of)) for seed, of in zip(seeds, values, strict=True)]
    frame = pl.DataFrame(lines, ["seed", "metric", "value"], orient="row")
    told = {"ranker": "lambdamart", "settings": "", "dataset": fold.train.name, "fold": fold.name}
    return frame.select(
        *(pl.lit(value).alias(name) for name, value in told.items()),
        pl.lit("-").alias("user"),
        pl.lit("-").alias("stop"),
        "seed",
        pl.lit(0, pl.Int64).alias("round"),
        "metric",
        pl.lit(f"k={k} empty=skip labels=all").alias("conventions"),
        "value",
    )


def by_query(
    fold: Fold, seeds: tuple[int, ...] = (0,), k: int = 10, empty: ndcgs.EmptyRule = "skip"
) -> npt.NDArray[np.float32]:
    """Fit LambdaMART to the train part, stop by the validation part, measure on the test part.

    Returns:
        [n_seeds, n_queries] NDCG@k of each test query in the part's order, NaN where the rule for
        queries without a relevant document leaves one out.
    """
    if not available():
        raise ConfigError("LambdaMART needs LightGBM. Install with: pip install lightgbm")
    found = [_ndcg(fold.test, _scores(fold, seed, k), k, empty) for seed in seeds]
    return np.stack(found).astype(np.float32)


def _scores(fold: Fold, seed: int, k: int) -> npt.NDArray[np.float64]:
    import lightgbm

    judged = fold.validation if fold.validation.n_queries else fold.train
    train = lightgbm.Dataset(fold.train.features, fold.train.grades, group=fold.train.sizes)
    held_back = train.create_valid(judged.features, judged.grades, group=judged.sizes)
    # Small sets lose more by waking a second thread than they gain.
    n_threads = 1 if fold.train.n_rows < _WORTH_THREADS else 0
    model = lightgbm.train(
        {**_SETTINGS, "seed": seed, "eval_at": [k], "num_threads": n_threads},
        train,
        num_boost_round=_TREES,
        valid_sets=[held_back],
        callbacks=[lightgbm.early_stopping(_PATIENCE, verbose=False)],
    )
    return np.asarray(model.predict(fold.test.features), np.float64)


def _ndcg(
    test: Dataset, scores: npt.NDArray[np.float64], k: int, empty: ndcgs.EmptyRule = "skip"
) -> npt.NDArray[np.floating[Any]]:
    """[n_queries] NDCG@k as everywhere here: exponential gain, ties broken at random."""
    queries = protocol.place(test, k)
    mask = queries.slots < queries.n_docs[:, None]
    ids = jnp.where(mask, queries.first[:, None] + queries.slots, 0)
    assert queries.rows.grades is not None
    found = ndcgs.evaluate_ndcg(
        jax.random.key(0),
        jnp.asarray(scores)[ids],
        queries.rows.grades[ids],
        mask,
        queries.ideal,
        k,
    )
    return np.asarray(ndcgs.count_empty(found, queries.ideal > 0, empty))


def _mean(values: npt.NDArray[np.floating[Any]]) -> float:
    """Over the queries that are not left out."""
    return float(ndcgs.mean_over_queries(jnp.asarray(values), jnp.isfinite(values), "skip"))
