"""Rankers beside each other, weighed by what they foretell.

How far a model must be held back to rank documents that it has not seen differs by orders of
magnitude between data sets: some have few queries and many features, some the opposite, and in some
no line can tell what is relevant. So there are several, the experts: lines that are pulled to zero
more or less, and networks that are more or less free; and clicks say which of them to trust. An
expert is judged by how well it foretells what users do with queries that it knows nothing of: by
the log-likelihood of clicks on lists of some queries, from which none that is judged learns. (New
documents of known queries are no such test: those who know the queries pass it.) What users have
said of these documents before is counted in, so that the same is not asked twice. Each expert is
judged at several scales, as one that ranks well may be too sure of itself. Weights are the softmax
of the sums of judgements times `trust`, and what serves is the weighted mean of all.

Panels say which experts there are. Rates of the first one's networks are given; those of the second
one's are shares of the longest step that the loss allows, as features of some sets are many times
longer than those of others: a network that steps too far is too sure of itself, and ranks better
than it foretells. There one list says no more than a bound against an expert, so that one that went
astray for a moment does not drown all that was judged before. The third panel's experts are those
of the second, but each has a twin: one is judged, the other serves and learns from all lists, also
from those that judge. What a query teaches is not lost then, and more queries can judge: where
there are few, a handful of them says little about which expert to trust.

In the fourth panel one line stands for all lines: its pull is found out instead of chosen among
four, and it is fitted to all that was ever read (feedback.mixed). Its networks see features
standardised (nets.standard): then one rate and a few pulls do for all data sets, and what no line
can say is learned much sooner. And not experts alone are judged, but means of several, too, every
set of them: what experts of different kinds get wrong is not the same, and cancels in their mean.
Weights that follow from judgements of single experts never find that out; after some hundreds of
lists nearly all goes to the one that is a little better.

Experts learn from click patterns (feedback.cascade), and from differences within lists only. What
is shown again and again is what users are known to like, whatever its features say: counted read by
read, it would teach experts that features say little. So each read of a document counts by what it
is worth as evidence about others, to the power `novelty`. How they are fitted is rankers.weighed.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from olrank.feedback import cascade, mixed
from olrank.types import Array, PyTree


class Network(NamedTuple):
    """One of the networks: how much it is pulled to where it started, and its learning rate."""

    pull: float
    learning_rate: float


class Panel(NamedTuple):
    """Which experts there are beside the lines, and how all of them are judged.

    Attributes:
        networks: the networks.
        relative: whether their rates are shares of the longest step that a line may take.
        scales: at which experts are judged.
        bound: how far behind the best one list can put an expert, in nats.
        one_in: of so many queries one is held out, to judge by.
        twins: whether those that serve are others than those that are judged.
        lines: their pulls; () for the one line of a mixed model (feedback.mixed), which goes with
            twins.
        standard: whether networks see features standardised. They are plain ones then, and their
            hidden layers are pulled to zero.
        means: whether means of several experts are judged, too.
    """

    networks: tuple[Network, ...]
    relative: bool
    scales: tuple[float, ...]
    bound: float
    one_in: int = 8
    twins: bool = False
    lines: tuple[float, ...] = (10.0, 60.0, 400.0, 2500.0)
    standard: bool = False
    means: bool = False

    @property
    def n_lines(self) -> int:
        """How many lines there are."""
        return len(self.lines) or 1

    @property
    def mixtures(self) -> npt.NDArray[np.float64]:
        """[n_judged, n_experts] what is judged: shares of the experts, lines first."""
        n = self.n_lines + len(self.networks)
        if not self.means:
            return np.eye(n)
        sets = np.array(list(product([0.0, 1.0], repeat=n))[1:])
        shares: npt.NDArray[np.float64] = sets / sets.sum(axis=1, keepdims=True)
        return shares


_FIRST = Panel((Network(1.0, 1e-2), Network(100.0, 1e-3)), False, (1.0, 0.5, 0.25), math.inf)
_SECOND = Panel(
    # The last is for data that no line and no small step does justice to.
    (Network(1.0, 0.1), Network(100.0, 0.01), Network(0.1, 0.5)),
    True,
    (1.0, 0.5, 0.25, 0.1),
    10.0,
)
_THIRD = _SECOND._replace(one_in=3, twins=True)
_FOURTH = _THIRD._replace(
    networks=(Network(50.0, 0.02), Network(150.0, 0.02), Network(500.0, 0.02)),
    relative=False,
    lines=(),
    standard=True,
    means=True,
)
PANELS = {"first": _FIRST, "second": _SECOND, "third": _THIRD, "fourth": _FOURTH}
_A_QUERY = 8  # documents that a mixed model reckons with for each of its queries
_RECENT = 0.01  # least share of the newest impression in how steep the loss is


class Experts(NamedTuple):
    """What is known of the experts; networks' parameters are kept with those that serve.

    Attributes:
        betas: [n_lines, n_features] the lines that are judged.
        judged: [n_judged, n_scales] summed log-likelihoods of clicks on held-out lists, less their
            mean: sums of millions of impressions would lose the differences.
        steepness: running bound on the curvature of an impression's loss in a line; 0 before the
            first.
        serving: [n_lines, n_features] the lines that serve, where they are others; () elsewhere.
        moved: how far the judged networks are from where they started, where others serve; ()
            elsewhere.
        model: what the line follows from, where it is that of a mixed model; () elsewhere.
        moments: of the features that networks see standardised; () where they do not.
    """

    betas: Array
    judged: Array
    steepness: Array
    serving: Any = ()
    moved: Any = ()
    model: Any = ()
    moments: Any = ()


def empty(
    n_features: int,
    panel: Panel,
    networks: PyTree = (),
    n_documents: int = 0,
    moments: PyTree = (),
) -> Experts:
    """Nothing learned yet by the lines and the panel's networks.

    Args:
        n_features: of a document.
        panel: which experts there are.
        networks: shapes of their parameters, stacked; needed for twins only.
        n_documents: that a mixed model has places for.
        moments: of no features, where networks see them standardised.
    """
    dtype = jnp.result_type(float)
    lines = (panel.n_lines, n_features)
    known = Experts(
        jnp.zeros(lines, dtype),
        jnp.zeros((len(panel.mixtures), len(panel.scales)), dtype),
        jnp.zeros((), dtype),
        moments=moments,
    )
    if not panel.lines:
        n_queries = max(1, n_documents // _A_QUERY)
        known = known._replace(model=mixed.empty(n_features, n_documents, n_queries))
    if not panel.twins:
        return known
    moved = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), networks)
    return known._replace(serving=jnp.zeros(lines, dtype), moved=moved)


def weights(experts: Experts, panel: Panel, trust: Array) -> tuple[Array, Array]:
    """[n_lines] and [n_nets], what to multiply the experts' scores with."""
    shares = jax.nn.softmax(trust * experts.judged, axis=(0, 1))
    found = shares @ jnp.asarray(panel.scales, shares.dtype)
    if panel.means:
        found = jnp.matmul(found, jnp.asarray(panel.mixtures, found.dtype), precision="highest")
    return found[: panel.n_lines], found[panel.n_lines :]


def line(beta: Array, features: Array) -> Array:
    """[n] scores of one line."""
    return jnp.matmul(features, beta, precision="highest")


def is_held_out(mark: Array, panel: Panel) -> Array:
    """Whether the lists with this mark (feedback.documents) are for judging only."""
    return mark % panel.one_in == 0


def foretold(
    panel: Panel, scores: Array, served: Array, effects: Array, shares: Array, seen: Array
) -> Array:
    """[n_judged, n_scales, k] what experts and means of them make of documents, some of them known.

    A known document's score is f + b, and b is what its reads have added to the f that served:
    without it, a share of the score (see feedback.documents) would have followed another f.

    Args:
        panel: says at which scales.
        scores: [n_experts, k] of the shown documents, lines first.
        served: [k] f.
        effects: [k] b.
        shares: [k].
        seen: [k] bool.
    """
    scales = jnp.asarray(panel.scales, scores.dtype)
    if panel.means:
        scores = jnp.matmul(jnp.asarray(panel.mixtures, scores.dtype), scores, precision="highest")
    each = scales[:, None] * cascade.levelled(scores, seen)[:, None]
    f = cascade.levelled(served, seen)
    return jnp.where(seen, f + effects + shares * (each - f), 0.0)


def judge(
    experts: Experts,
    panel: Panel,
    scores: Array,
    clicks: Array,
    seen: Array,
    habits: cascade.Habits,
) -> Experts:
    """The experts after they were judged by an impression that they have not learned from.

    Args:
        experts: before it.
        panel: says how much one list can say.
        scores: [n_judged, n_scales, k] of the shown documents, as each foretold them.
        clicks: [k].
        seen: [k] bool.
        habits: of the users.
    """
    each = jax.vmap(jax.vmap(cascade.log_likelihood, (0, None, None, None)), (0, None, None, None))
    found = each(scores, clicks, seen, habits)
    found = jnp.maximum(found, jnp.max(found) - panel.bound)
    return experts._replace(judged=experts.judged + found - jnp.mean(found))


def faded(experts: Experts, n: Array, recency: int) -> Experts:
    """The experts with judgements that count by when they were made, to the power `recency`.

    Args:
        experts: before.
        n: impressions so far: the s-th of them comes to count (s / n) ** recency.
        recency: 0 lets all of them count the same for ever.
    """
    if not recency:
        return experts
    left = 1.0 - recency / jnp.maximum(n, recency).astype(experts.judged.dtype)
    return experts._replace(judged=experts.judged * left)


def longest_step(experts: Experts) -> Array:
    """The rate of a step that a line may take, however curved the loss is; 0 before the first."""
    steep = experts.steepness
    return jnp.where(steep > 0, 1.0 / jnp.where(steep > 0, steep, 1.0), 0.0)


def steepened(experts: Experts, features: Array, seen: Array, n: Array) -> Experts:
    """The experts with an impression in their steepness.

    Args:
        experts: before it.
        features: [k, n_features] of the shown documents.
        seen: [k] bool.
        n: impressions so far, with this one.
    """
    centred = jnp.where(seen, cascade.levelled(features.T, seen), 0.0)
    # No decision curves the log-likelihood by more than a quarter.
    bound = 0.25 * jnp.sum(centred**2)
    share = jnp.where(jnp.any(seen), jnp.maximum(1.0 / jnp.maximum(n, 1), _RECENT), 0.0)
    return experts._replace(steepness=experts.steepness + share * (bound - experts.steepness))
