"""A line that is fitted to all that was ever read, with a level for each query: a mixed model.

What readers said of a document is explained by a line, a level that all documents of its query
share, and an effect of its own,

    log-odds of a click = bias + beta^T (x - centre of the query) + level + effect,

with level ~ N(0, 1 / level_prior), effect ~ N(0, 1 / effect_prior) and beta ~ N(0, 1 / pull). Lists
of one query show ever the same few documents once these are known to be liked, so that a list by
itself says little: its documents are all good. With one level a query, what was shown once and not
liked is held against what is shown now, however far apart that was.

Nothing has to be gone through again for it. Of each document are kept the clicks c and the reads r
so far. When it is read, p is what the line foretells, and its reads are worth one look at its
log-odds (less the bias),

    y = foretold + (c - r p) / w     with precision     w = r p (1 - p),

and with the effect summed out one at y with precision w effect_prior / (effect_prior + w): many
reads of one document say no more of others than one look at its log-odds. So the line is the
solution of normal equations, which change by a few rows with each impression (the levels summed
out as well), and are solved by some steps of conjugate gradients from where the line stood. All
that was ever read counts, however short the history; memory is bounded by the tables' sizes.

The pull is found out (empirical Bayes): each round makes a step of expectation-maximisation,

    1 / pull <- E ||beta||^2 / n_features = (||beta||^2 + tr (curvature + pull I)^-1) / n_features,

the trace by Hutchinson's estimate, whose probes are solved for beside the line.

Tables are addressed by fingerprints. A newcomer that finds no place free takes one over; what was
counted of the one before stays counted.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from olrank.feedback import documents
from olrank.types import Array

_STEPS = 4  # of conjugate gradients a round
_FARTHEST = 4.0  # log-odds from the bias at which reads are weighed: beyond, they leap
_MIX = 0x9E3779B1  # odd: makes one number of a document's fingerprint and its query's
_PROBES = 4  # of the trace
_FIRST_PULL = 30.0
_GUESS_WORTH = 2.0  # features that the first guess of the pull weighs as much as


class Sightings(NamedTuple):
    """Documents of queries, [size] each; a document of two queries is two.

    Attributes:
        fingerprints: uint32; 0 where there is none.
        clicks: so far.
        reads: so far, in expectation.
        weights: the precision that each is counted with.
        targets: the log-odds that each is counted with, times that precision.
    """

    fingerprints: Array
    clicks: Array
    reads: Array
    weights: Array
    targets: Array


class Queries(NamedTuple):
    """Queries by their marks (documents.mark): [n], or [n, n_features], sums over documents.

    Attributes:
        marks: uint32; 0 where there is none.
        centres: mean features of the first list.
        weights: of precisions.
        sums: of precisions times features less the centre.
        targets: of precisions times log-odds.
    """

    marks: Array
    centres: Array
    weights: Array
    sums: Array
    targets: Array


class Lines(NamedTuple):
    """Two lines, of lists that are not held out and of all: their equations, and what solves them.

    Attributes:
        curvature: [2, n_features, n_features], without the pull.
        slope: [2, n_features].
        pulls: [2].
        betas: [2, n_features].
        probes: [2, n_probes, n_features] solutions with a probe in the slope's place.
    """

    curvature: Array
    slope: Array
    pulls: Array
    betas: Array
    probes: Array


class Mixed(NamedTuple):
    """The lines, and all that they follow from."""

    sightings: Sightings
    queries: Queries
    lines: Lines


class Lesson(NamedTuple):
    """What an impression says, [k] of its documents, and how it is to be taken.

    Attributes:
        features: [k, n_features].
        clicks: [k].
        read: [k] the chance that each was read; 0 where there is none.
        mark: of the query.
        held_out: whether the list teaches only those that are not judged.
        bias: of the users' habits.
        effect_prior: 1 / variance of documents' effects.
        level_prior: 1 / variance of queries' levels.
    """

    features: Array
    clicks: Array
    read: Array
    mark: Array
    held_out: Array
    bias: Any
    effect_prior: Any
    level_prior: Any


def empty(n_features: int, n_documents: int, n_queries: int) -> Mixed:
    """Nothing known yet; with places for so many documents and queries."""
    dtype = jnp.result_type(float)

    # One array each: donated buffers must not alias.
    def zeros(*shape: int) -> Array:
        return jnp.zeros(shape, dtype)

    def prints(n: int) -> Array:
        return jnp.zeros(n, jnp.uint32)

    n, m, d = n_documents, n_queries, n_features
    return Mixed(
        Sightings(prints(n), zeros(n), zeros(n), zeros(n), zeros(n)),
        Queries(prints(m), zeros(m, d), zeros(m), zeros(m, d), zeros(m)),
        _no_lines(d, dtype),
    )


def forgotten(mixed: Mixed) -> Mixed:
    """The same tables, in which nobody is found any more, and lines that know nothing."""
    sightings, queries, lines = mixed
    return Mixed(
        sightings._replace(fingerprints=jnp.zeros_like(sightings.fingerprints)),
        queries._replace(marks=jnp.zeros_like(queries.marks)),
        _no_lines(lines.slope.shape[1], lines.slope.dtype),
    )


def learn(mixed: Mixed, lesson: Lesson) -> Mixed:
    """The model after an impression, its lines some steps nearer to where it puts them."""
    # What is held out has no say in what the first line learns.
    beta = mixed.lines.betas[0]
    is_read = lesson.read > 0
    place, fresh = _place_of_query(mixed.queries, lesson.mark)
    query = _query_at(mixed.queries, lesson.mark, place, fresh, lesson.features, is_read)
    prints = documents.fingerprints(lesson.features) ^ (lesson.mark * jnp.uint32(_MIX))
    prints = jnp.maximum(prints, 1)
    places, found = documents.places(mixed.sightings.fingerprints, prints, prints)
    # Documents that look the same are one; of two that want one place, the upper one gets it.
    together = is_read[None, :] & (places[:, None] == places[None, :])
    same = together & (prints[:, None] == prints[None, :])
    first = jnp.argmax(together, axis=1)
    kept = is_read & (first == jnp.arange(prints.size))
    before = [jnp.where(found & ~fresh, column[places], 0.0) for column in mixed.sightings[1:]]
    times = jnp.where(is_read, jnp.where(lesson.clicks > 0, lesson.clicks, 1.0) * lesson.read, 0.0)
    clicks = before[0] + same.astype(times.dtype) @ jnp.where(lesson.clicks > 0, times, 0.0)
    reads = before[1] + same.astype(times.dtype) @ times
    x = jnp.where(kept[:, None], lesson.features - query.centres, 0.0)
    level = (query.targets - query.sums @ beta) / (lesson.level_prior + query.weights)
    weights, targets = _looks(clicks, reads, level + _times(x, beta), lesson)
    # What is no number would stay in the equations for ever.
    kept = kept & jnp.isfinite(weights + targets)
    weights, targets = jnp.where(kept, weights, 0.0), jnp.where(kept, targets, 0.0)
    more = jnp.where(kept, weights - before[2], 0.0)
    said = jnp.where(kept, targets - before[3], 0.0)
    after = query._replace(
        weights=query.weights + jnp.sum(more),
        sums=query.sums + _times(more, x),
        targets=query.targets + jnp.sum(said),
    )
    lines = _counted(mixed.lines, x, more, said, query, after, lesson)
    # An index past the end drops the write.
    at = jnp.where(kept, places, mixed.sightings.fingerprints.size)
    columns = (prints, clicks, reads, weights, targets)
    sightings = Sightings(
        *(
            old.at[at].set(new.astype(old.dtype), mode="drop")
            for old, new in zip(mixed.sightings, columns, strict=True)
        )
    )
    row = jnp.where(jnp.any(kept), place, mixed.queries.marks.size)
    queries = Queries(
        *(old.at[row].set(new, mode="drop") for old, new in zip(mixed.queries, after, strict=True))
    )
    return Mixed(sightings, queries, fitted(lines))


def _no_lines(n_features: int, dtype: Any) -> Lines:
    d = n_features
    return Lines(
        curvature=jnp.zeros((2, d, d), dtype),
        slope=jnp.zeros((2, d), dtype),
        pulls=jnp.full(2, _FIRST_PULL, dtype),
        betas=jnp.zeros((2, d), dtype),
        probes=jnp.zeros((2, _PROBES, d), dtype),
    )


def fitted(lines: Lines, n_steps: int = _STEPS) -> Lines:
    """The lines some steps nearer to the solutions of their equations, and their pulls."""
    n_features = lines.slope.shape[1]
    signs = jnp.asarray(_signs(n_features), lines.slope.dtype)

    def one(lines: Lines) -> Lines:
        wanted = jnp.concatenate([lines.slope[None], signs])
        start = jnp.concatenate([lines.betas[None], lines.probes])
        found = _solved(lines.curvature, lines.pulls, wanted, start, n_steps)
        trace = jnp.sum(signs * found[1:]) / _PROBES
        # No less than with all eigenvalues alike, however far the probes are from solved.
        least = n_features**2 / (jnp.trace(lines.curvature) + n_features * lines.pulls)
        squares = jnp.sum(found[0] ** 2) + jnp.maximum(trace, least)
        pull = (n_features + _GUESS_WORTH) / (squares + _GUESS_WORTH / _FIRST_PULL)
        return lines._replace(pulls=pull, betas=found[0], probes=found[1:])

    both: Lines = jax.vmap(one)(lines)
    return both


def _solved(curvature: Array, pull: Array, wanted: Array, start: Array, n_steps: int) -> Array:
    """[n, d] nearer to (curvature + pull I)^-1 wanted, by conjugate gradients from the start."""
    scale = 1.0 / (jnp.diagonal(curvature) + pull)

    def applied(v: Array) -> Array:
        return _times(v, curvature) + pull * v

    def step(_: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        at, left, way, length = carry
        bent = applied(way)
        share = _ratio(length, jnp.sum(way * bent, axis=1, keepdims=True))
        at, left = at + share * way, left - share * bent
        new = jnp.sum(left * scale * left, axis=1, keepdims=True)
        return at, left, scale * left + _ratio(new, length) * way, new

    left = wanted - applied(start)
    length = jnp.sum(left * scale * left, axis=1, keepdims=True)
    found: Array = jax.lax.fori_loop(0, n_steps, step, (start, left, scale * left, length))[0]
    return found


def _looks(clicks: Array, reads: Array, foretold: Array, lesson: Lesson) -> tuple[Array, Array]:
    """[k] each: precision of what is known of documents, and it times their log-odds."""
    at = jnp.clip(foretold, -_FARTHEST, _FARTHEST)
    p = jax.nn.sigmoid(at + lesson.bias)
    w = reads * p * (1.0 - p)
    share = lesson.effect_prior / (lesson.effect_prior + w)
    return share * w, share * (w * at + clicks - reads * p)


def _counted(
    lines: Lines,
    x: Array,
    more: Array,
    said: Array,
    before: Queries,
    after: Queries,
    lesson: Lesson,
) -> Lines:
    """The equations with some documents counted anew, and the query's level summed out anew."""
    was = 1.0 / (lesson.level_prior + before.weights)
    now = 1.0 / (lesson.level_prior + after.weights)
    rows = jnp.concatenate([x, before.sums[None], after.sums[None]])
    curve = jnp.concatenate([more, was[None], -now[None]])
    slope = jnp.concatenate([said, (was * before.targets)[None], (-now * after.targets)[None]])
    teaches = jnp.stack([~lesson.held_out, jnp.ones_like(lesson.held_out)]).astype(x.dtype)
    bent, moved = _times(rows.T, curve[:, None] * rows), _times(slope, rows)
    return lines._replace(
        curvature=lines.curvature + teaches[:, None, None] * bent,
        slope=lines.slope + teaches[:, None] * moved,
    )


def _place_of_query(queries: Queries, mark: Array) -> tuple[Array, Array]:
    """Where a query's sums lie, and whether it is new there."""
    marks = jnp.maximum(mark, 1)[None]
    places, found = documents.places(queries.marks, marks, marks)
    return places[0], ~found[0]


def _query_at(
    queries: Queries, mark: Array, place: Array, fresh: Array, features: Array, is_read: Array
) -> Queries:
    """One query's row; of a new one, with the centre of its first list."""
    n = jnp.maximum(jnp.sum(is_read), 1)
    centre = jnp.sum(jnp.where(is_read[:, None], features, 0.0), axis=0) / n
    known = Queries(*(column[place] for column in queries))
    return Queries(
        jnp.maximum(mark, 1), jnp.where(fresh, centre, known.centres),
        *(jnp.where(fresh, 0.0, column) for column in known[2:]),
    )  # fmt: skip


def _ratio(above: Array, below: Array) -> Array:
    """Their ratio, 0 where there is nothing to divide by."""
    return jnp.where(below > 0, above / jnp.where(below > 0, below, 1.0), 0.0)


def _times(a: Array, b: Array) -> Array:
    # A GPU's default rounds to ten bits.
    return jnp.matmul(a, b, precision="highest")


@cache
def _signs(n_features: int) -> npt.NDArray[np.float64]:
    """[n_probes, n_features] of 1 and -1, always the same."""
    return np.random.Generator(np.random.PCG64(20)).choice([-1.0, 1.0], (_PROBES, n_features))
