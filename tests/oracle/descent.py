"""The loss of Eq. (loss) and its descent, Algorithm 1 line 11; LambdaRank's pair weights.

A training pair is (x_i, x_j, y_ij) with x_i and x_j [d]. `pull` is the lambda of the loss (the
one of A is `prior`); m is the network's width. Weights multiply pair losses; None means 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from . import feedback
from .network import Array, Theta, f, flatten, gradient, sigmoid, unflatten

Pair = tuple[Array, Array, float]
Weights = Sequence[float] | Array | None


def pair_loss(f_ij: float, y_ij: float) -> float:
    """-(1 - y) log(1 - sigma(f_ij)) - y log(sigma(f_ij)), one term of Eq. (loss).

    -log sigma(s) = log(1 + e^-s) and -log(1 - sigma(s)) = log(1 + e^s), safe for huge scores.
    """
    return float((1.0 - y_ij) * np.logaddexp(0.0, f_ij) + y_ij * np.logaddexp(0.0, -f_ij))


def sum_of_losses(theta: Theta, pairs: Sequence[Pair], weights: Weights = None) -> float:
    """The double sum of Eq. (loss), over every pair of the history, without the L2 term."""
    w = _weights(pairs, weights)
    return sum(
        float(w_n) * pair_loss(f(x_i, theta) - f(x_j, theta), y_ij)
        for w_n, (x_i, x_j, y_ij) in zip(w, pairs, strict=True)
    )


def loss(
    theta: Theta, theta_0: Theta, pairs: Sequence[Pair], pull: float, weights: Weights = None
) -> float:
    """L_t(theta) of Eq. (loss), literally: the sum + (m lambda / 2) ||theta - theta_0||^2."""
    m = theta[-1].shape[1]
    distance = flatten(theta) - flatten(theta_0)
    return float(sum_of_losses(theta, pairs, weights) + m * pull / 2.0 * (distance @ distance))


def mean_loss(
    theta: Theta, theta_0: Theta, pairs: Sequence[Pair], pull: float, weights: Weights = None
) -> float:
    """READINGS "scale of the loss": both parts of Eq. (loss) divided by the number of pairs."""
    return loss(theta, theta_0, pairs, pull, weights) / len(pairs)


def sum_gradient(theta: Theta, pairs: Sequence[Pair], weights: Weights = None) -> Array:
    """[p] J (p - y): sum of (sigma(f_ij) - y_ij) g_ij, proof of Lemma B.2 (appendix)."""
    total = np.zeros(flatten(theta).size)
    for w_n, (x_i, x_j, y_ij) in zip(_weights(pairs, weights), pairs, strict=True):
        g_ij = gradient(x_i, theta) - gradient(x_j, theta)
        total += w_n * (sigmoid(f(x_i, theta) - f(x_j, theta)) - y_ij) * g_ij
    return total


def loss_gradient(
    theta: Theta, theta_0: Theta, pairs: Sequence[Pair], pull: float, weights: Weights = None
) -> Array:
    """[p] gradient of `loss`: J (p - y) + m lambda (theta - theta_0), proof of Lemma B.2."""
    m = theta[-1].shape[1]
    distance = flatten(theta) - flatten(theta_0)
    return np.asarray(sum_gradient(theta, pairs, weights) + m * pull * distance)


def explicit_step(
    theta: Theta,
    theta_0: Theta,
    pairs: Sequence[Pair],
    eta: float,
    pull: float,
    weights: Weights = None,
    mean: bool = False,
) -> Theta:
    """theta - eta [J (p - y) + m lambda (theta - theta_0)], the update rule of Lemma B.2.

    With `mean` the bracket is divided by the number of pairs (READINGS "scale of the loss").
    """
    slope = loss_gradient(theta, theta_0, pairs, pull, weights)
    slope = slope / len(pairs) if mean else slope
    return unflatten(flatten(theta) - eta * slope, theta)


def proximal_step(
    theta: Theta,
    theta_0: Theta,
    batch: Sequence[Pair],
    eta: float,
    pull: float,
    n_history: int,
    weights: Weights = None,
) -> Theta:
    """READINGS "scale of the loss": the pair losses explicitly, then the pull implicitly.

    theta' = theta - eta * (mean over the batch of the pair losses' gradients), then
    theta = (theta' + c theta_0) / (1 + c) with c = eta m pull / n: the solution of
    theta = theta' - c (theta - theta_0). The mean divides by the number of pairs in the batch,
    whatever their weights; n is the number of pairs in the whole history.
    """
    m = theta[-1].shape[1]
    stepped = flatten(theta) - eta * sum_gradient(theta, batch, weights) / len(batch)
    c = eta * m * pull / n_history
    return unflatten((stepped + c * flatten(theta_0)) / (1.0 + c), theta)


def descend(
    theta: Theta,
    theta_0: Theta,
    batches: Sequence[Sequence[Pair]],
    eta: float,
    pull: float,
    n_history: int,
) -> Theta:
    """J proximal steps, one for each batch; every batch all of the history is the paper's."""
    for batch in batches:
        theta = proximal_step(theta, theta_0, batch, eta, pull, n_history)
    return theta


def dcg(gains: Sequence[float]) -> float:
    """sum of gain / log2(1 + rank) from the top down."""
    return float(sum(gain / np.log2(1.0 + rank) for rank, gain in enumerate(gains, start=1)))


def lambda_weight(scores: Array, clicks: Sequence[int], i: int, j: int) -> float:
    """|delta NDCG| of exchanging slots i and j of one impression (READINGS "gain").

    Gains are the clicks (2^c - 1 = c), the ranking is that of the current network among the
    examined documents of the impression, the ideal DCG is over the same documents. Both DCGs
    are computed, before and after the exchange. Equal scores keep the shown order.

    Args:
        scores: [n_shown] by the current network, in shown order.
        clicks: [n_shown] 0 or 1.
        i: an examined slot.
        j: another examined slot.
    """
    o = feedback.last_examined(clicks)
    seen = [float(2.0**click - 1.0) for click in clicks[:o]]
    order = sorted(range(o), key=lambda slot: -float(scores[slot]))
    exchanged = [{i: j, j: i}.get(slot, slot) for slot in order]
    difference = dcg([seen[slot] for slot in order]) - dcg([seen[slot] for slot in exchanged])
    return abs(difference) / dcg(sorted(seen, reverse=True))


def _weights(pairs: Sequence[Pair], weights: Weights) -> Sequence[float] | Array:
    return [1.0] * len(pairs) if weights is None else weights
