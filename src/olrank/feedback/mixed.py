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
out as well), and are solved by some steps a round (feedback.equations, which finds the pull out).
All that was ever read counts, however short the history; memory is bounded by the tables' sizes.
Where stops say something of documents (feedback.stops), decisions to read on are kept like clicks,
and add to slope and precision what they say.

Tables are addressed by fingerprints. A newcomer that finds no place free takes one over; what was
counted of the one before stays counted.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp

from olrank.feedback import cascade, documents, equations
from olrank.types import Array

_FARTHEST = 4.0  # log-odds from the bias at which reads are weighed: beyond, they leap
_MIX = 0x9E3779B1  # odd: makes one number of a document's fingerprint and its query's


class Sightings(NamedTuple):
    """Documents of queries, [size] each; a document of two queries is two.

    Attributes:
        fingerprints: uint32; 0 where there is none.
        clicks: so far.
        reads: so far, in expectation.
        went_on: [size, 2] how often readers read on after it, in expectation: when they had clicked
            on it, and when not.
        stopped: [size, 2] how often they stopped.
        weights: the precision that each is counted with.
        targets: the log-odds that each is counted with, times that precision.
    """

    fingerprints: Array
    clicks: Array
    reads: Array
    went_on: Array
    stopped: Array
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


_Table = TypeVar("_Table", Sightings, Queries)


class Mixed(NamedTuple):
    """All that the lines follow from, and the lines: of lists not held out, and of all."""

    sightings: Sightings
    queries: Queries
    lines: equations.Lines


class Lesson(NamedTuple):
    """What an impression says, [k] of its documents, and how it is to be taken.

    Attributes:
        features: [k, n_features].
        clicks: [k].
        read: [k] the chance that each was read; 0 where there is none.
        mark: of the query.
        held_out: whether the list teaches only those that are not judged.
        decisions: to read on after each.
        habits: of the users.
        effect_prior: 1 / variance of documents' effects.
        level_prior: 1 / variance of queries' levels.
    """

    features: Array
    clicks: Array
    read: Array
    mark: Array
    held_out: Array
    decisions: cascade.Decisions
    habits: cascade.Habits
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
        Sightings(prints(n), zeros(n), zeros(n), zeros(n, 2), zeros(n, 2), zeros(n), zeros(n)),
        Queries(prints(m), zeros(m, d), zeros(m), zeros(m, d), zeros(m)),
        equations.nothing(2, d),
    )


def forgotten(mixed: Mixed) -> Mixed:
    """The same tables, in which nobody is found any more, and lines that know nothing."""
    sightings, queries, lines = mixed
    return Mixed(
        sightings._replace(fingerprints=jnp.zeros_like(sightings.fingerprints)),
        queries._replace(marks=jnp.zeros_like(queries.marks)),
        equations.nothing(*lines.slope.shape),
    )


def learn(mixed: Mixed, lesson: Lesson) -> Mixed:
    """The model after an impression, its lines some steps nearer to where it puts them."""
    # What is held out has no say in what the first line learns.
    beta = mixed.lines.betas[0]
    place, query, fresh = _query(mixed.queries, lesson)
    places, kept, old, new = _met(mixed.sightings, lesson, fresh)
    x = lesson.features - query.centres
    level = (query.targets - equations.times(query.sums, beta)) / (
        lesson.level_prior + query.weights
    )
    weights, targets = _looks(new, level + equations.times(x, beta), lesson)
    # What is no number would stay in the equations for ever.
    kept = kept & jnp.isfinite(weights + targets)
    x = jnp.where(kept[:, None], x, 0.0)
    more = jnp.where(kept, weights - old.weights, 0.0)
    said = jnp.where(kept, targets - old.targets, 0.0)
    after = query._replace(
        weights=query.weights + jnp.sum(more),
        sums=query.sums + equations.times(more, x),
        targets=query.targets + jnp.sum(said),
    )
    lines = _counted(mixed.lines, x, more, said, query, after, lesson)
    sightings = _written(
        mixed.sightings, places, kept, new._replace(weights=weights, targets=targets)
    )
    queries = _written(mixed.queries, place, jnp.any(kept), after)
    return Mixed(sightings, queries, equations.fitted(lines))


def _query(queries: Queries, lesson: Lesson) -> tuple[Array, Queries, Array]:
    """Where a query's row lies, the row, and whether it is a new one with this list's centre."""
    marks = jnp.maximum(lesson.mark, 1)[None]
    places, found = documents.places(queries.marks, marks, marks)
    place, fresh, is_read = places[0], ~found[0], lesson.read > 0
    n = jnp.maximum(jnp.sum(is_read), 1)
    centre = jnp.sum(jnp.where(is_read[:, None], lesson.features, 0.0), axis=0) / n
    known = Queries(*(column[place] for column in queries))
    sums = (jnp.where(fresh, 0.0, column) for column in known[2:])
    return place, Queries(marks[0], jnp.where(fresh, centre, known.centres), *sums), fresh


def _met(
    sightings: Sightings, lesson: Lesson, fresh: Array
) -> tuple[Array, Array, Sightings, Sightings]:
    """Documents' places, which of them count, and [k] their rows before and after this list.

    Documents that look the same are one; of two that want one place, the upper one gets it.
    """
    is_read = lesson.read > 0
    prints = documents.fingerprints(lesson.features) ^ (lesson.mark * jnp.uint32(_MIX))
    prints = jnp.maximum(prints, 1)
    places, found = documents.places(sightings.fingerprints, prints, prints)
    together = is_read[None, :] & (places[:, None] == places[None, :])
    first = jnp.argmax(together, axis=1)
    kept = is_read & (first == jnp.arange(prints.size))
    is_known = found & ~fresh

    def of_known(column: Array) -> Array:
        kept_in_shape = is_known.reshape(-1, *(1,) * (column.ndim - 1))
        return jnp.where(kept_in_shape, column[places], 0.0)

    old = Sightings(prints, *(of_known(column) for column in sightings[1:]))
    clicked = lesson.clicks > 0
    times = jnp.where(is_read, jnp.where(clicked, lesson.clicks, 1.0) * lesson.read, 0.0)
    same = (together & (prints[:, None] == prints[None, :])).astype(times.dtype)
    kinds = jnp.stack([clicked, ~clicked], axis=1) & is_read[:, None]

    def of_kinds(values: Array) -> Array:
        return equations.times(same, jnp.where(kinds, values[:, None], 0.0))

    new = old._replace(
        clicks=old.clicks + equations.times(same, jnp.where(clicked, times, 0.0)),
        reads=old.reads + equations.times(same, times),
        went_on=old.went_on + of_kinds(lesson.decisions.went_on),
        stopped=old.stopped + of_kinds(lesson.decisions.stopped),
    )
    return places, kept, old, new


def _written(table: _Table, at: Array, kept: Array, rows: _Table) -> _Table:
    """A table with rows at some places, where they are to be kept."""
    size = table[0].shape[0]
    # An index past the end drops the write.
    at = jnp.where(kept, at, size)
    columns = (
        old.at[at].set(new.astype(old.dtype), mode="drop")
        for old, new in zip(table, rows, strict=True)
    )
    return type(table)(*columns)


def _looks(seen: Sightings, foretold: Array, lesson: Lesson) -> tuple[Array, Array]:
    """[k] each: precision of what is known of documents, and it times their log-odds."""
    habits = lesson.habits
    at = jnp.clip(foretold, -_FARTHEST, _FARTHEST)
    p = jax.nn.sigmoid(at + habits.bias)
    w = seen.reads * p * (1.0 - p)
    slope = seen.clicks - seen.reads * p
    if habits.sated != ():
        chances = jnp.stack([jnp.asarray(habits.after_click), jnp.asarray(habits.after_skip)])
        rises = habits.sated.slopes
        decided = seen.went_on + seen.stopped
        p_on = jax.nn.sigmoid(jax.scipy.special.logit(chances) - rises * at[:, None])
        slope = slope + jnp.sum(rises * (decided * p_on - seen.went_on), axis=1)
        w = w + jnp.sum(rises**2 * decided * p_on * (1.0 - p_on), axis=1)
    share = lesson.effect_prior / (lesson.effect_prior + w)
    return share * w, share * (w * at + slope)


def _counted(
    lines: equations.Lines,
    x: Array,
    more: Array,
    said: Array,
    before: Queries,
    after: Queries,
    lesson: Lesson,
) -> equations.Lines:
    """The equations with some documents counted anew, and the query's level summed out anew."""
    was = 1.0 / (lesson.level_prior + before.weights)
    now = 1.0 / (lesson.level_prior + after.weights)
    rows = jnp.concatenate([x, before.sums[None], after.sums[None]])
    curve = jnp.concatenate([more, was[None], -now[None]])
    slope = jnp.concatenate([said, (was * before.targets)[None], (-now * after.targets)[None]])
    teaches = jnp.stack([~lesson.held_out, jnp.ones_like(lesson.held_out)])
    return equations.changed(lines, rows, curve, slope, teaches)
