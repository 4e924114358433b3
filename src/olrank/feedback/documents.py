"""What is known of single documents beyond their features: an effect of their own on each score.

A document that comes back for the same query has the same features. Whatever users have said about
it before, and the network cannot say with its few parameters (or is kept from saying by its pull),
is kept as a number b that is added to its score: f(x) = f_net(x; theta) + b(x), with
b ~ N(0, variance) and apart for each document. This is the random effect of a mixed model. A
document that nobody has judged yet has b = 0, so that what the network has learned holds for it
unchanged.

Effects are kept up to date by one Newton step for each impression (assumed density filtering): with
the slope s_i and the curvature c_i of the impression's log-likelihood in the score of document i,

    precision_i <- precision_i + c_i,     b_i <- b_i + s_i / (1 / variance + precision_i).

What is stored is the evidence b_i (1 / variance + precision_i), to which such a step adds
s_i + c_i b_i: then effects follow at once when the variance is thought to be another one. It may be
estimated (`estimated`): users whose clicks say little give effects that are mostly noise, and what
is noise must be held back more.

They lie in a table of fixed size. A document's features, bit by bit, say where it may lie and what
its fingerprint is; a document that finds others in all of its few places takes one over.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from olrank.types import Array

_NOBODY = np.uint32(0xFFFFFFFF)  # no fingerprint is higher
_PLACES = 8  # that a fingerprint may take: with one, a table half full loses a fifth
_GUESS_WORTH = 20.0  # known documents that the first guess of their variance weighs as much as


class Documents(NamedTuple):
    """Known documents; what is not known has effect 0.

    Attributes:
        fingerprints: [size] uint32, of the document that each place belongs to; 0 for none.
        evidence: [size] b (prior + precision).
        precisions: [size] curvature seen so far, without the prior.
        reads: [size] how often each was read, in the weights that A_t takes them with.
        prior: 1 / variance of effects.
    """

    fingerprints: Array
    evidence: Array
    precisions: Array
    reads: Array
    prior: Array


class Known(NamedTuple):
    """What the table says of some documents, [n] each: their effects, precisions and reads.

    `shares` is how much of each score is left to what holds for all documents; 1 for unknown ones.
    With a precision of P about its own effect, a document's score follows the network's by
    prior / (prior + P), and all its reads together are worth that share of as many reads of
    documents that nobody knew.
    """

    effects: Array
    precisions: Array
    reads: Array
    shares: Array


def empty(size: int, prior: Array) -> Documents:
    """Nothing known yet."""
    zeros = jnp.zeros(size, jnp.result_type(float))
    # One array each: donated buffers must not alias.
    own = jnp.array(prior, zeros.dtype, copy=True)
    return Documents(jnp.zeros(size, jnp.uint32), zeros, jnp.array(zeros), jnp.array(zeros), own)


def look_up(documents: Documents, features: Array) -> Known:
    """What is known of the documents with these features [n, n_features]."""
    places, found, _ = _where(documents, features)
    columns = (documents.evidence, documents.precisions, documents.reads)
    evidence, precisions, reads = (jnp.where(found, column[places], 0.0) for column in columns)
    whole = documents.prior + precisions
    return Known(evidence / whole, precisions, reads, documents.prior / whole)


def mark(features: Array, counted: Array) -> Array:
    """A number that lists of mostly the same documents mostly share: the least fingerprint.

    Args:
        features: [n, n_features] of the documents.
        counted: [n] bool, those that there are.
    """
    return jnp.min(fingerprints(features), where=counted, initial=_NOBODY)


def fingerprints(features: Array) -> Array:
    """[n] uint32, 1 or more: the same for documents that look the same, [n, n_features]."""
    prints: Array = _hashes(features)[:, 1]
    return prints


def places(table: Array, starts: Array, prints: Array) -> tuple[Array, Array]:
    """[n] each: where fingerprints lie in a table of them, and whether they are there already.

    Its own place where one has it, else the first free one of the few it may take, else the first.

    Args:
        table: [size] uint32; 0 where it is free.
        starts: [n] uint32, which say with the fingerprints what places each may take.
        prints: [n] uint32.
    """
    # Steps of their own: neighbours in one place would be neighbours in all.
    steps = (prints[:, None] | 1) * jnp.arange(_PLACES, dtype=jnp.uint32)
    tried = (starts[:, None] + steps) % table.shape[0]
    there = table[tried]
    own, free = there == prints[:, None], there == 0
    best = jnp.argmax(jnp.where(own, 2, jnp.where(free, 1, 0)), axis=1)
    found = jnp.take_along_axis(tried, best[:, None], axis=1)[:, 0]
    return found.astype(jnp.int32), jnp.any(own, axis=1)


def learn(
    documents: Documents,
    features: Array,
    slopes: Array,
    curvatures: Array,
    reads: Array,
) -> Documents:
    """The table after an impression.

    Args:
        documents: before it.
        features: [k, n_features] of the shown documents.
        slopes: [k] of the log-likelihood in each score.
        curvatures: [k] likewise, not negative.
        reads: [k] how much each adds to what A_t knows; 0 leaves the document as it is.
    """
    size = documents.evidence.shape[0]
    places, _, prints = _where(documents, features)
    known, is_read = look_up(documents, features), reads > 0
    # Documents that look the same are one; of two that want one place, the upper one gets it.
    together = is_read[None, :] & (places[:, None] == places[None, :])
    same = (together & (prints[:, None] == prints[None, :])).astype(slopes.dtype)
    precisions = known.precisions + same @ curvatures
    evidence = known.effects * (documents.prior + precisions) + same @ slopes
    first = jnp.argmax(together, axis=1)
    # An index past the end drops the write.
    at = jnp.where(is_read & (prints == prints[first]), places, size)
    return Documents(
        documents.fingerprints.at[at].set(prints, mode="drop"),
        documents.evidence.at[at].set(evidence, mode="drop"),
        documents.precisions.at[at].set(precisions, mode="drop"),
        documents.reads.at[at].set(known.reads + same @ reads, mode="drop"),
        documents.prior,
    )


def estimated(documents: Documents, guess: Array) -> Documents:
    """The table with a variance that explains its effects better: expectation-maximisation.

    Each round makes one step: the mean over known documents of what b squared is expected to be,
    with the variance 1 / `guess` counted as that of some documents more.
    """
    whole = documents.prior + documents.precisions
    squares = (documents.evidence / whole) ** 2 + 1.0 / whole
    known = documents.precisions > 0
    total = jnp.sum(jnp.where(known, squares, 0.0)) + _GUESS_WORTH / guess
    return documents._replace(prior=(jnp.sum(known) + _GUESS_WORTH) / total)


def worth(documents: Documents) -> Array:
    """What one read is worth as evidence about documents that nobody has read yet, in (0, 1].

    All reads of a document share its effect b, so that together they say no more about others than
    one look at f + b would (see `Known`). The mean over all reads; 1 before the first.
    """
    n_reads = jnp.sum(documents.reads)
    shares = documents.prior / (documents.prior + documents.precisions)
    counted = jnp.sum(documents.reads * shares)
    return jnp.where(n_reads > 0, counted / jnp.where(n_reads > 0, n_reads, 1.0), 1.0)


def _where(documents: Documents, features: Array) -> tuple[Array, Array, Array]:
    """[n] each: places, whether the documents are known there, fingerprints."""
    hashes = _hashes(features)
    return *places(documents.fingerprints, hashes[:, 0], hashes[:, 1]), hashes[:, 1]


def _hashes(features: Array) -> Array:
    """[n, 2] uint32 from the bits of float32 features: where they begin to look, fingerprints."""
    # Adding 0 makes one zero of the two that there are. Sums of integers do not depend on order.
    bits = jax.lax.bitcast_convert_type(features.astype(jnp.float32) + 0.0, jnp.uint32)
    mixed = jnp.sum(bits[:, None, :] * _multipliers(features.shape[1]), axis=-1, dtype=jnp.uint32)
    mixed = (mixed ^ (mixed >> 16)) * jnp.uint32(0x85EBCA6B)
    mixed = (mixed ^ (mixed >> 13)) * jnp.uint32(0xC2B2AE35)
    mixed = mixed ^ (mixed >> 16)
    found: Array = mixed.at[:, 1].max(1)
    return found


@cache
def _multipliers(n_features: int) -> npt.NDArray[np.uint32]:
    """[2, n_features] odd numbers, the same for ever: models in files were made with them."""
    found = np.random.Generator(np.random.PCG64(20)).integers(0, 2**31, (2, n_features))
    return (2 * found + 1).astype(np.uint32)
