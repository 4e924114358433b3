"""What the paper proves, measured: coverage of the widths, growth of log det A_t, dimensions.

Paper                                         Here                      Where
|sigma(f_ij) - sigma(h_ij)| <= CB_ij          "coverage" of `follow`    Lemma 1, event E_t
(i, j) in omega_t implies sigma(h_ij) > 1/2   "certain_right"           Corollary 1
log(det A_t / det lambda I)                   "log_det_ratio"           alpha_t; proof of Theorem 1
d~_N of a data set                            `dimensions`              Eq. (effectivedn)

They need data whose h is known and, for the first two, the user that the theory assumes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl

from olrank.data.normalise import normalise
from olrank.engine import lockstep, protocol
from olrank.errors import DataError
from olrank.nets import ntk
from olrank.rankers import certainty, table
from olrank.rankers.scorers import choose_net
from olrank.types import Array, Dataset, Impression, Key, PyTree, Ranker
from olrank.users import presets
from olrank.users.user import User, click

METRICS = ("coverage", "certain_right", "certain_share", "log_det_ratio")


class Case(NamedTuple):
    """Held-out queries, padded: features [q, v, d], relevance [q, v], mask [q, v]."""

    features: Array
    relevance: Array
    mask: Array


def follow(
    ranker: str,
    settings: Mapping[str, Any],
    data: Dataset,
    test: Dataset,
    *,
    user: str = "well-specified",
    rounds: int = 1000,
    seeds: int = 5,
    k: int = 10,
    fold: str = "1",
    label: str = "",
    at: Sequence[int] | None = None,
) -> pl.DataFrame:
    """Let a ranker with confidence widths learn, and hold the widths against the true h.

    Args:
        ranker: a name of the table that knows certainty.
        settings: of the ranker.
        data: queries are drawn from it, exactly as the engine draws them; its h must be known.
        test: held-out queries with known h; all pairs inside them are looked at.
        user: who clicks; "well-specified" is the theory's.
        rounds: T.
        seeds: how many.
        k: slots shown.
        fold: in rows and in the random keys.
        label: what rows say of the settings.
        at: rounds to look after; log-spaced and even ones when None.

    Returns:
        Rows as an experiment's, with the metrics of `METRICS`.
    """
    for part in (data, test):
        if part.relevance is None:
            raise DataError(f"{part.name}: its true relevance h is not known. Use synthetic data.")
    made = table.make(ranker, {**settings, "k": k})
    design = made.entry.design(**{name: made.settings[name] for name in made.entry.design._fields})
    someone = presets.user(user, max(data.max_grade, test.max_grade), "clicked", k)
    queries, case = protocol.place(data, k), _case(test)
    keys = jnp.stack([lockstep.shard_key(data.name, fold, seed) for seed in range(seeds)])
    states = jax.vmap(
        lambda key: made.ranker.init(jax.random.fold_in(key, 0), data.n_features, made.numbers)
    )(keys)
    looked = sorted(set(at or lockstep.evaluation_rounds(rounds)))
    lines = []
    for first, last in zip([0, *looked[:-1]], looked, strict=True):
        span = jnp.int32(first + 1), jnp.int32(last - first)
        states = _play(made.ranker, k, someone, queries, keys, states, *span)
        found = _look(design, states, case)
        for metric, values in zip(METRICS, found, strict=True):
            lines += [(seed, last, metric, float(v)) for seed, v in enumerate(np.asarray(values))]
    frame = pl.DataFrame(lines, ["seed", "round", "metric", "value"], orient="row")
    told = {"ranker": ranker, "settings": label, "dataset": data.name, "fold": fold, "user": user}
    conventions = f"k={k} normalise={data.normalise} confidence={made.settings['confidence']}"
    return frame.select(
        *(pl.lit(value).alias(name) for name, value in told.items()),
        pl.lit("clicked").alias("stop"),
        "seed",
        "round",
        "metric",
        pl.lit(conventions).alias("conventions"),
        "value",
    )


def _case(test: Dataset) -> Case:
    n_most = int(test.sizes.max())
    mask = np.arange(n_most) < test.sizes[:, None]
    ids = np.where(mask, test.offsets[:-1, None] + np.arange(n_most), 0)
    dtype = jnp.result_type(float)
    assert test.relevance is not None
    features = np.where(mask[:, :, None], test.features[ids], 0.0)
    return Case(
        jnp.asarray(features, dtype), jnp.asarray(test.relevance[ids], dtype), jnp.asarray(mask)
    )


@partial(jax.jit, static_argnums=(0, 1))
def _play(
    ranker: Ranker,
    k: int,
    user: User,
    queries: protocol.Queries,
    keys: Array,
    states: PyTree,
    first: Array,
    n_rounds: Array,
) -> PyTree:
    """States after rounds first, first + 1, ...; one program whatever the number of rounds."""

    def one(key: Key, state: PyTree) -> PyTree:
        return jax.lax.fori_loop(
            first,
            first + n_rounds,
            lambda t, now: _one_round(ranker, k, user, queries, now, jax.random.fold_in(key, t)),
            state,
        )

    return jax.vmap(one)(keys, states)


def _one_round(
    ranker: Ranker, k: int, user: User, queries: protocol.Queries, state: PyTree, key: Key
) -> PyTree:
    """A round as the engine plays it, without what it measures."""
    query_key, rank_key, click_key, learn_key, _ = jax.random.split(key, 5)
    query = jax.random.randint(query_key, (), 0, queries.first.shape[0])
    mask = queries.slots < queries.n_docs[query]
    ids = queries.first[query] + jnp.where(mask, queries.slots, 0)
    features = jnp.where(mask[:, None], queries.rows.features[ids], 0.0)
    ranking = ranker.rank(state, rank_key, features, mask, k)
    shown = ids[ranking.order]
    assert queries.rows.grades is not None
    grades = queries.rows.grades[shown]
    clicks = click(user, click_key, grades, queries.relevance[shown], ranking.shown).clicks
    return ranker.learn(state, learn_key, Impression(shown, clicks, ranking), queries.rows)


@partial(jax.jit, static_argnums=0)
def _look(design: Any, states: PyTree, case: Case) -> tuple[Array, ...]:
    """[S] each of `METRICS`, over all pairs of all queries of the case."""
    net = choose_net(design)

    def query(state: PyTree, features: Array, relevance: Array, mask: Array) -> Array:
        scores = net.score(state.theta, features)
        widths = certainty.pair_widths(design, state, features, mask)
        p_ours = jax.nn.sigmoid(scores[:, None] - scores[None, :])
        p_true = jax.nn.sigmoid(relevance[:, None] - relevance[None, :])
        pairs = jnp.triu(mask[:, None] & mask[None, :], 1)
        certain = (p_ours - widths > 0.5) | (p_ours.T - widths > 0.5)
        right = (p_ours - 0.5) * (p_true - 0.5) > 0
        covered = jnp.abs(p_ours - p_true) <= widths
        return jnp.stack([jnp.sum(pairs & x) for x in (mask[:, None] | True, covered, certain,
                                                       certain & right)])  # fmt: skip

    def one(state: PyTree) -> tuple[Array, ...]:
        # Query by query: tangents of a full A are large.
        counts = jax.lax.map(lambda q: query(state, *q), tuple(case))
        n, n_covered, n_certain, n_right = jnp.sum(counts, 0).astype(jnp.result_type(float))
        right = jnp.where(n_certain > 0, n_right / jnp.maximum(n_certain, 1), jnp.nan)
        return n_covered / n, right, n_certain / n, state.confidence.log_det_ratio

    found: tuple[Array, ...] = jax.vmap(one)(states)
    return found


def dimensions(
    data: Dataset,
    depths: Sequence[int] = (1, 2, 3),
    priors: Sequence[float] = (0.1, 1.0, 10.0),
    max_docs: int = 1000,
    seed: int = 0,
) -> pl.DataFrame:
    """The effective dimension of a sample of a set, for networks of several depths.

    Args:
        data: features are brought to norm 1 first, as the theory wants them.
        depths: L; 1 is a linear ranker.
        priors: lambda.
        max_docs: whole queries are drawn up to this many documents.
        seed: of the draw.

    Returns:
        dataset, n_queries, n_docs, n_features, depth, prior, dimension.
    """
    order = np.random.default_rng(seed).permutation(data.n_queries)
    chosen = np.sort(order[np.cumsum(data.sizes[order]) <= max_docs])
    sample = normalise(data.select(chosen if chosen.size else order[:1]), "unit")
    lines = []
    for depth in depths:
        # In 64 bits: the determinant is a product of a thousand eigenvalues.
        with jax.enable_x64(True):
            kernel = ntk.kernels(jnp.asarray(sample.features, jnp.float64), depth).tangent
        for prior in priors:
            found = ntk.effective_dimension(np.asarray(kernel), prior, sample.offsets)
            shape = (data.name, sample.n_queries, sample.n_rows, data.n_features)
            lines.append((*shape, depth, float(prior), found))
    columns = ["dataset", "n_queries", "n_docs", "n_features", "depth", "prior", "dimension"]
    return pl.DataFrame(lines, columns, orient="row")
