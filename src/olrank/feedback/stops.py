"""What it says of a document that users read on after it, or stop.

Who has found what he wanted reads no further. How much more likely users are to stop after a better
document differs between them, and is found out: the log-odds of reading on are a - b f, apart for
documents that were clicked and others, with f the score of the document that was read last.

(a, b) are kept up to date by one Newton step for each impression (assumed density filtering), with
the scores that the list was drawn with. They must not be those that have learned from it: scores
follow the noise of what they learn from, the more the larger b is, and b would rise with them. What
lies long back counts less, as scores were poor then, and would keep b small for ever.

That better documents keep readers reading is not believed (b is 0 at least), nor that stopping says
more of a document than clicking on it (b is 1 at most).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from olrank.feedback import cascade
from olrank.types import Array

_LASTING = 0.999  # of what was known, that one more impression leaves
_GUESS = (0.5, 10.0)  # precisions of the first guesses of a and of b, which is 0
_FARTHEST = 6.0  # a either way


class Sated(NamedTuple):
    """By how much the log-odds of stopping rise with the score: after a click, and after none.

    Attributes:
        slopes: [2] b.
        precisions: [2, 2, 2] of (a, b).
    """

    slopes: Array
    precisions: Array

    def after(self, clicks: Array) -> Array:
        """The slope that goes with each of some documents, by whether it was clicked."""
        return jnp.where(clicks > 0, self.slopes[0], self.slopes[1])


def first_guess() -> cascade.Habits:
    """Habits of users whose stops are thought to say nothing, until they do."""
    dtype = jnp.result_type(float)
    precisions = jnp.tile(jnp.diag(jnp.asarray(_GUESS, dtype)), (2, 1, 1))
    return cascade.FIRST_GUESS._replace(sated=Sated(jnp.zeros(2, dtype), precisions))


def learned(habits: cascade.Habits, scores: Array, clicks: Array, seen: Array) -> cascade.Habits:
    """The habits after an impression that the scores [k] know nothing of."""
    found = cascade.decisions(scores, clicks, seen, habits)
    chances = jnp.stack([jnp.asarray(habits.after_click), jnp.asarray(habits.after_skip)])
    one = jax.vmap(_stepped, (0, 0, 0, 0, None, None))
    clicked = jnp.stack([clicks > 0, clicks <= 0])
    chances, slopes, precisions = one(
        chances, habits.sated.slopes, habits.sated.precisions, clicked, found, scores
    )
    return habits._replace(
        after_click=chances[0], after_skip=chances[1], sated=Sated(slopes, precisions)
    )


def _stepped(
    chance: Array,
    slope: Array,
    precision: Array,
    counted: Array,
    found: cascade.Decisions,
    scores: Array,
) -> tuple[Array, Array, Array]:
    """One kind of decisions: the chance to read on at score 0, its slope, their precision."""
    a: Any = jax.scipy.special.logit(chance)
    went_on = jnp.where(counted, found.went_on, 0.0)
    decided = went_on + jnp.where(counted, found.stopped, 0.0)
    p = jax.nn.sigmoid(a - slope * scores)
    moves = jnp.stack([jnp.ones_like(scores), -scores])  # of the log-odds, by a and b
    step = moves @ (went_on - decided * p)
    guess = jnp.diag(jnp.asarray(_GUESS, precision.dtype))
    precision = guess + _LASTING * (precision - guess) + (moves * decided * p * (1.0 - p)) @ moves.T
    (of_a, of_both), (_, of_b) = precision
    det = of_a * of_b - of_both**2
    by_a = (of_b * step[0] - of_both * step[1]) / det
    by_b = (of_a * step[1] - of_both * step[0]) / det
    # What is no number would stay for ever.
    fine = jnp.isfinite(by_a + by_b) & jnp.all(jnp.isfinite(precision))
    a = jnp.clip(a + jnp.where(fine, by_a, 0.0), -_FARTHEST, _FARTHEST)
    slope = jnp.clip(slope + jnp.where(fine, by_b, 0.0), 0.0, 1.0)
    return jax.nn.sigmoid(a), slope, jnp.where(fine, precision, guess)
