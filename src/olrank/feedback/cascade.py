"""The likelihood of a whole click pattern, when nobody knows where the user stopped reading.

The user reads from the top. A document that is read is clicked with sigma(f + bias); after a click
the user reads on with chance `after_click`, after none with `after_skip`. Everything down to the
last click was read. What lies below was read down to some slot that left no trace: its likelihood
is the sum over all slots where the user can have stopped.

Pairs of clicked and skipped documents are not independent of where reading stopped: a click is more
often the end. So the share of pairs that the upper document wins is off even between equals, and
the pairs below the last click are a guess. Read in order, though, each decision given all before it
is a fair coin, and the product of the coins is a likelihood without that bias. It also uses every
document that was read, where independent pairs use one contrast of two.

Where users stop says something, too: who has found what he wanted reads no further. With habits
that know by how much (`sated`, feedback.stops), the log-odds of stopping rise with the score of the
document that was read last, and decisions to read on are decisions like others. Without them they
say nothing of documents, and those above the last click are left out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from olrank.types import Array

_PRIOR_READS = 2.0  # how many decisions to read on the first guess of a habit is worth
_LEVEL_STEPS = 3  # of Newton's method; it doubles the right digits with each
_HIGHEST = 4.0  # level either way: where few clicks curve the likelihood, steps may leap


class Habits(NamedTuple):
    """What users have in common, whatever they read; scalars.

    Attributes:
        bias: log-odds of a click on a read document whose score is 0.
        after_click: chance to read on after a click on a document whose score is 0.
        after_skip: chance to read on after such a document that was read and not clicked.
        sated: feedback.stops.Sated, by how much the log-odds of stopping rise with the score; ()
            where stops say nothing of documents.
    """

    bias: Any
    after_click: Any
    after_skip: Any
    sated: Any = ()


FIRST_GUESS = Habits(bias=0.0, after_click=0.7, after_skip=0.9)


def log_likelihood(scores: Array, clicks: Array, seen: Array, habits: Habits) -> Array:
    """Log-probability of a click pattern.

    Unless stops say something of documents, without the decisions above the last click to read on.

    Args:
        scores: [k] in the order shown.
        clicks: [k], 0 where not clicked, else the click's weight: how often it counts.
        seen: [k] bool, the slots that can have been read; no gap before the last of them.
        habits: of the users.

    Returns:
        A scalar; 0 where nothing was seen.
    """
    logits = scores + habits.bias
    slots, last = jnp.arange(clicks.shape[0]), _last_click(clicks, seen)
    said_yes = clicks * jax.nn.log_sigmoid(logits)
    said_no = jnp.where(clicks > 0, 0.0, jax.nn.log_sigmoid(-logits))
    known = jnp.sum(jnp.where((slots <= last) & seen, said_yes + said_no, 0.0))
    if habits.sated != ():
        goes_on, _ = _on_or_not(scores, clicks, habits)
        known = known + jnp.sum(jnp.where((slots < last) & seen, goes_on, 0.0))
    ends = _ends(scores, clicks, seen, habits)
    tail: Array = jax.nn.logsumexp(ends)
    return known + jnp.where(jnp.any(seen), tail, 0.0)


def levelled(scores: Array, counted: Array) -> Array:
    """Scores less their mean over what is counted along the last axis; the level of a list."""
    n = jnp.maximum(jnp.sum(counted, axis=-1, keepdims=True), 1)
    return scores - jnp.sum(jnp.where(counted, scores, 0.0), axis=-1, keepdims=True) / n


def placed(
    scores: Array, clicks: Array, seen: Array, habits: Habits, weights: Array, prior: Array
) -> Array:
    """[k] scores less their mean, at the level that explains the clicks on this list best.

    Lists differ in how much there is to click, and the bias is one for all. The level is fitted to
    the clicks, with a normal prior, and held fixed where gradients are taken: what is left to
    explain is how the documents of a list compare.

    Args:
        scores: [k] in the order shown.
        clicks: [k].
        seen: [k] bool.
        habits: of the users.
        weights: [k] by how much each document counts.
        prior: 1 / variance of lists' levels.
    """
    compared = levelled(scores, seen)
    fixed, clicked = jax.lax.stop_gradient(compared), clicks > 0
    level = jnp.zeros((), scores.dtype)
    for _ in range(_LEVEL_STEPS):
        at = fixed + level
        p = jax.nn.sigmoid(at + habits.bias)
        read = weights * p_read(at, clicks, seen, habits) * jnp.where(clicked, clicks, 1.0)
        slope = jnp.sum(read * (clicked - p)) - prior * level
        curvature = jnp.sum(read * p * (1.0 - p))
        if habits.sated != ():
            said = of_stops(at, clicks, seen, habits)
            slope = slope + jnp.sum(weights * said.slopes)
            curvature = curvature + jnp.sum(weights * said.curvatures)
        level = level + slope / (prior + curvature)
        level = jnp.clip(level, -_HIGHEST, _HIGHEST)
    return compared + level


def p_read(scores: Array, clicks: Array, seen: Array, habits: Habits) -> Array:
    """[k] the chance that each slot was read, given the clicks: 1 down to the last of them."""
    ends = jax.nn.softmax(_ends(scores, clicks, seen, habits))
    at_least = jnp.cumsum(ends[::-1])[::-1]
    above = jnp.arange(clicks.shape[0]) <= _last_click(clicks, seen)
    return jnp.where(seen, jnp.where(above, 1.0, at_least), 0.0)


class Decisions(NamedTuple):
    """[k] each, in expectation: whether the user read on after a slot, and whether he stopped.

    Both are 0 where nothing was decided: where nobody read, and after the last slot there was.
    """

    went_on: Array
    stopped: Array


def decisions(scores: Array, clicks: Array, seen: Array, habits: Habits) -> Decisions:
    """What was decided after each slot, given the clicks; arguments as of `log_likelihood`."""
    read = p_read(scores, clicks, seen, habits)
    went_on = jnp.roll(read, -1).at[-1].set(0.0)
    there_was_more = jnp.roll(seen, -1).at[-1].set(False)
    return Decisions(went_on, jnp.where(there_was_more, read - went_on, 0.0))


class Said(NamedTuple):
    """[k] each: slopes of a log-likelihood in the scores, and curvatures, never negative."""

    slopes: Array
    curvatures: Array


def of_stops(scores: Array, clicks: Array, seen: Array, habits: Habits) -> Said:
    """What decisions to read on say of documents, where they say anything."""
    found = decisions(scores, clicks, seen, habits)
    rises = habits.sated.after(clicks)
    goes_on, stops = (jnp.exp(log_p) for log_p in _on_or_not(scores, clicks, habits))
    decided = found.went_on + found.stopped
    return Said(rises * (found.stopped - decided * stops), rises**2 * decided * goes_on * stops)


def improved(
    scores: Array, clicks: Array, seen: Array, habits: Habits, first_guess: Habits = FIRST_GUESS
) -> Habits:
    """Habits that fit these impressions better: a step of expectation-maximisation.

    Where stops say something of documents the chances to read on stay: see feedback.stops.

    Args:
        scores: [n, k] in the order shown.
        clicks: [n, k].
        seen: [n, k] bool; rows without any count for nothing.
        habits: as they were thought to be.
        first_guess: weighs as much as a few impressions.
    """
    read = jax.vmap(p_read, (0, 0, 0, None))(scores, clicks, seen, habits)
    p = jax.nn.sigmoid(scores + habits.bias)
    clicked = clicks > 0
    # One Newton step for the bias; the 1 keeps it finite before anything was read.
    slope = jnp.sum(read * (clicked - p))
    bias = habits.bias + slope / (1.0 + jnp.sum(read * p * (1.0 - p)))
    if habits.sated != ():
        return habits._replace(bias=bias)
    more = jnp.roll(seen, -1, axis=1).at[:, -1].set(False) & seen
    went_on = jnp.roll(read, -1, axis=1) * more

    def share(where: Array, guess: Any) -> Array:
        n_on = jnp.sum(jnp.where(where, went_on, 0.0))
        n_all = jnp.sum(jnp.where(where, read * more, 0.0))
        found: Array = (n_on + _PRIOR_READS * guess) / (n_all + _PRIOR_READS)
        return found

    return Habits(
        bias, share(clicked, first_guess.after_click), share(~clicked, first_guess.after_skip)
    )


def _on_or_not(scores: Array, clicks: Array, habits: Habits) -> tuple[Array, Array]:
    """[k] log-probabilities to read on and to stop, after each slot."""
    goes_on = jnp.where(clicks > 0, habits.after_click, habits.after_skip)
    if habits.sated == ():
        return jnp.log(goes_on), jnp.log1p(-goes_on)
    log_odds = jax.scipy.special.logit(goes_on) - habits.sated.after(clicks) * scores
    on = jax.nn.log_sigmoid(log_odds)
    return on, on - log_odds


def _ends(scores: Array, clicks: Array, seen: Array, habits: Habits) -> Array:
    """[k] log-probability, given all down to the last click, of no more clicks and ending there.

    -inf where reading cannot have ended: above the last click, and past the last slot.
    """
    slots = jnp.arange(clicks.shape[0])
    last = _last_click(clicks, seen)
    goes_on, stops_here = _on_or_not(scores, clicks, habits)
    # The first slot is always read, so what comes before it does not matter.
    to_here = jnp.roll(goes_on, 1).at[0].set(0.0) + jax.nn.log_sigmoid(-(scores + habits.bias))
    unclicked = jnp.cumsum(jnp.where((slots > last) & seen, to_here, 0.0))
    n_seen = jnp.sum(seen)
    stops = jnp.where(slots == n_seen - 1, 0.0, stops_here)
    can_end = seen & (slots >= jnp.maximum(last, 0))
    nothing = ~jnp.any(seen) & (slots == 0)  # keeps sums over an empty list finite
    return jnp.where(can_end, unclicked + stops, jnp.where(nothing, 0.0, -jnp.inf))


def _last_click(clicks: Array, seen: Array) -> Array:
    """The slot of the last click, counted from 0; -1 without one."""
    slots = jnp.arange(clicks.shape[0])
    return jnp.max(jnp.where((clicks > 0) & seen, slots, -1))
