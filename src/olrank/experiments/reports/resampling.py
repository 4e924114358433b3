"""Test queries drawn anew: how far an offline mean could be off because of which queries there are.

Every resample draws each fold's test queries with replacement, the values of a query being means
over seeds. To that the variance of the seeds is added: the same resample draws each fold's seeds
with replacement, too, and adds by how much their mean is off the mean of all seeds. All rankers,
users and stop rules of a data set share the draws, so differences are paired; data sets are drawn
apart. Folds weigh the same, as in the means over (fold, seed).

What seeds did to single queries is in both, a little: the bounds are on the safe side.

Who learned from labels outside of the contest is drawn along: the same queries, and no seeds.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from olrank.errors import DataError

Floats = npt.NDArray[np.float64]
Who = tuple[str, str, str]
"""(ranker, user, stop)."""

N_RESAMPLES = 2000


def resample(
    queries: pl.DataFrame,
    units: pl.DataFrame,
    n_resamples: int = N_RESAMPLES,
    seed: int = 0,
    outside: pl.DataFrame | None = None,
) -> dict[str, dict[Who, Floats]]:
    """Means over folds in every resample.

    Args:
        queries: ranker, dataset, fold, user, stop, query, value: means over seeds.
        units: ranker, dataset, fold, user, stop, seed, value: means over queries.
        n_resamples: how many.
        seed: of the draws.
        outside: as `queries`, of rankers that are drawn along; they move no draw of the others.

    Returns:
        data set -> (ranker, user, stop) -> [n_resamples].
    """
    found: dict[str, dict[Who, Floats]] = {}
    along = queries.clear() if outside is None else outside
    datasets = queries["dataset"].unique(maintain_order=True)
    for index, dataset in enumerate(datasets):
        rng = np.random.default_rng([seed, index])
        here, runs = queries.filter(dataset=dataset), units.filter(dataset=dataset)
        others = along.filter(dataset=dataset)
        means = []
        for fold in here["fold"].unique().sort():
            single, of_runs, apart = (x.filter(fold=fold) for x in (here, runs, others))
            means.append(_of_fold(rng, single, of_runs, apart, n_resamples))
        found[dataset] = {who: np.mean([fold[who] for fold in means], axis=0) for who in means[0]}
    return found


def _of_fold(
    rng: np.random.Generator,
    queries: pl.DataFrame,
    units: pl.DataFrame,
    outside: pl.DataFrame,
    n_resamples: int,
) -> Mapping[Who, Floats]:
    of_queries, who = _wide(queries, "query")
    of_seeds, same = _wide(units, "seed")
    if who != same:
        raise DataError("rows and queries are of different rankers; evaluate again.")
    shares = _shares(rng, n_resamples, len(of_queries))
    drawn = shares @ of_queries
    off = _shares(rng, n_resamples, len(of_seeds)) @ (of_seeds - of_seeds.mean(axis=0))
    found = dict(zip(who, (drawn + off).T, strict=True))
    if outside.is_empty():
        return found
    if set(outside["query"]) != set(queries["query"]):
        raise DataError("the outside skyline is of other queries than the rows; run it again.")
    # A product of its own: more columns in the one above could move the last bit of the others.
    of_others, others = _wide(outside, "query")
    return found | dict(zip(others, (shares @ of_others).T, strict=True))


def _wide(frame: pl.DataFrame, unit: str) -> tuple[Floats, list[Who]]:
    """[n_units, n_who] values, and who they are of."""
    groups = frame.sort(unit).group_by("ranker", "user", "stop", maintain_order=True)
    columns = {(str(r), str(u), str(s)): part["value"].to_numpy() for (r, u, s), part in groups}
    who = sorted(columns)
    if len({len(values) for values in columns.values()}) != 1:
        raise DataError(f"rankers do not have the same {unit} values; evaluate again.")
    return np.stack([columns[one] for one in who], axis=1).astype(np.float64), who


def _shares(rng: np.random.Generator, n_resamples: int, n: int) -> Floats:
    """[n_resamples, n] what share of each resample is which unit."""
    drawn: Floats = rng.multinomial(n, np.full(n, 1 / n), size=n_resamples) / n
    return drawn
