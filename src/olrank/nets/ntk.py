"""The neural tangent kernel of the paper's network, by the recursion of its appendix.

Paper                                  Here                   Where
Sigma^(l), H~^(l)                      kernels                Definition (NTK), appendix
H = (H~^(L) + Sigma^(L)) / 2           Kernels.average        the same
d~_N, of documents and pairs           effective_dimension    Eq. (effectivedn)

For ReLU both expectations have closed forms (Cho and Saul 2009). With an angle theta between u and
v and standard deviations a and b,

    2 E[phi(u) phi(v)]   = a b (sin theta + (pi - theta) cos theta) / pi,
    2 E[phi'(u) phi'(v)] = (pi - theta) / pi.

With the paper's own variances of theta_0 it is H~ that G^T G of wide networks tends to, not the
average that the definition calls H: both are given. The definition asks for inputs of norm 1; the
recursion holds for any.

The pairs of d~_N are differences of documents, so that with D = [I, pairs] the determinant of
I + D^T H D / lambda is that of I + H D D^T / lambda: a matrix over documents, never over pairs.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from olrank.errors import ConfigError
from olrank.types import Array


class Kernels(NamedTuple):
    """Kernels between the rows of two tables, [n, n_other] each.

    Attributes:
        tangent: H~^(L), the limit of G^T G at theta_0.
        output: Sigma^(L), the part of it that belongs to the last layer.
    """

    tangent: Array
    output: Array

    @property
    def average(self) -> Array:
        """H of the definition, (H~ + Sigma) / 2."""
        return (self.tangent + self.output) / 2


def kernels(features: Array, depth: int, other: Array | None = None) -> Kernels:
    """The kernels of a network with `depth` L layers.

    Args:
        features: [n, n_features].
        depth: L >= 1; at 1 all kernels are the inner products.
        other: [n_other, n_features]; the same rows when None.

    Returns:
        Kernels [n, n_other].
    """
    if depth < 1:
        raise ConfigError(f"depth: a network has at least 1 layer, not {depth}.")
    others = features if other is None else other
    # ReLU keeps E[2 phi(u)^2] = Var(u), so that norms are those of the inputs in every layer.
    scale = jnp.sqrt(jnp.sum(features**2, 1))[:, None] * jnp.sqrt(jnp.sum(others**2, 1))[None, :]
    cosine = _bounded(features @ others.T, scale)
    if other is None:  # rounding turns the angle of a document with itself into 1e-4 and more
        cosine = jnp.fill_diagonal(cosine, jnp.diagonal(scale) > 0, inplace=False)
    output = tangent = cosine * scale
    for _ in range(depth - 1):
        angle = jnp.arccos(cosine)
        slope = jnp.where(scale > 0, (jnp.pi - angle) / jnp.pi, 0.0)
        cosine = (jnp.sin(angle) + (jnp.pi - angle) * cosine) / jnp.pi
        cosine = jnp.where(scale > 0, jnp.clip(cosine, -1.0, 1.0), 0.0)
        output = cosine * scale
        tangent = tangent * slope + output
    return Kernels(tangent, output)


def _bounded(products: Array, scale: Array) -> Array:
    """Cosines in [-1, 1]; 0 beside a document that is all zero."""
    return jnp.where(scale > 0, jnp.clip(products / jnp.where(scale > 0, scale, 1.0), -1, 1), 0.0)


def effective_dimension(
    kernel: npt.ArrayLike, prior: float, offsets: npt.ArrayLike | None = None
) -> float:
    """How many directions of the kernel matter: d~_N of the appendix.

    Args:
        kernel: [n, n] a kernel between documents, symmetric.
        prior: lambda of A_1 = lambda I.
        offsets: [n_queries + 1] first document of each query, and the end; pairs are then those
            inside a query, the only ones that a list compares. All pairs when None, as written.

    Returns:
        log det(I + H^ / prior) / log(1 + N / prior), H^ over all N documents and pairs; at least 0,
        and not above min(n, N).
    """
    H = np.asarray(kernel, np.float64)
    n = H.shape[0]
    if prior <= 0:
        raise ConfigError(f"prior: must be above 0, not {prior}.")
    edges = np.asarray([0, n] if offsets is None else offsets, np.int64)
    sizes = np.diff(edges)
    query = np.repeat(np.arange(len(sizes)), sizes)
    # D D^T = I + the Laplacian of the graph of pairs.
    together = query[:, None] == query[None, :]
    squared = np.diag(1.0 + sizes[query]) - together
    sign, log_det = np.linalg.slogdet(np.eye(n) + H @ squared / prior)
    if sign <= 0:
        raise ConfigError("kernel: not positive semi-definite; it is no kernel of documents.")
    n_all = n + int(np.sum(sizes * (sizes - 1) // 2))
    return float(log_det / np.log1p(n_all / prior))
