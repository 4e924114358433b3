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
        after_click: chance to read on after a click.
        after_skip: chance to read on after a document that was read and not clicked.
    """

    bias: Any
    after_click: Any
    after_skip: Any


FIRST_GUESS = Habits(bias=0.0, after_click=0.7, after_skip=0.9)


def log_likelihood(scores: Array, clicks: Array, seen: Array, habits: Habits) -> Array:
    """Log-probability of a click pattern, without the decisions above the last click to read on.

    Args:
        scores: [k] in the order shown.
        clicks: [k], 0 where not clicked, else the click's weight: how often it counts.
        seen: [k] bool, the slots that can have been read; no gap before the last of them.
        habits: of the users.

    Returns:
        A scalar; 0 where nothing was seen.
    """
    logits = scores + habits.bias
    above = jnp.arange(clicks.shape[0]) <= _last_click(clicks, seen)
    said_yes = clicks * jax.nn.log_sigmoid(logits)
    said_no = jnp.where(clicks > 0, 0.0, jax.nn.log_sigmoid(-logits))
    known = jnp.sum(jnp.where(above & seen, said_yes + said_no, 0.0))
    ends = _ends(logits, clicks, seen, habits)
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
        level = level + slope / (prior + jnp.sum(read * p * (1.0 - p)))
        level = jnp.clip(level, -_HIGHEST, _HIGHEST)
    return compared + level


def p_read(scores: Array, clicks: Array, seen: Array, habits: Habits) -> Array:
    """[k] the chance that each slot was read, given the clicks: 1 down to the last of them."""
    ends = jax.nn.softmax(_ends(scores + habits.bias, clicks, seen, habits))
    at_least = jnp.cumsum(ends[::-1])[::-1]
    above = jnp.arange(clicks.shape[0]) <= _last_click(clicks, seen)
    return jnp.where(seen, jnp.where(above, 1.0, at_least), 0.0)


def improved(
    scores: Array, clicks: Array, seen: Array, habits: Habits, first_guess: Habits = FIRST_GUESS
) -> Habits:
    """Habits that fit these impressions better: a step of expectation-maximisation.

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


def _ends(logits: Array, clicks: Array, seen: Array, habits: Habits) -> Array:
    """[k] log-probability, given all down to the last click, of no more clicks and ending there.

    -inf where reading cannot have ended: above the last click, and past the last slot.
    """
    slots = jnp.arange(clicks.shape[0])
    last = _last_click(clicks, seen)
    goes_on = jnp.where(clicks > 0, habits.after_click, habits.after_skip)
    # The first slot is always read, so what comes before it does not matter.
    to_here = jnp.log(jnp.roll(goes_on, 1).at[0].set(1.0)) + jax.nn.log_sigmoid(-logits)
    unclicked = jnp.cumsum(jnp.where((slots > last) & seen, to_here, 0.0))
    n_seen = jnp.sum(seen)
    stops = jnp.where(slots == n_seen - 1, 0.0, jnp.log1p(-goes_on))
    can_end = seen & (slots >= jnp.maximum(last, 0))
    nothing = ~jnp.any(seen) & (slots == 0)  # keeps sums over an empty list finite
    return jnp.where(can_end, unclicked + stops, jnp.where(nothing, 0.0, -jnp.inf))


def _last_click(clicks: Array, seen: Array) -> Array:
    """The slot of the last click, counted from 0; -1 without one."""
    slots = jnp.arange(clicks.shape[0])
    return jnp.max(jnp.where((clicks > 0) & seen, slots, -1))
