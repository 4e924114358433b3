"""The net that a design names, and the experts' nets where it has any."""

from __future__ import annotations

from typing import Any

from olrank.errors import unknown_name
from olrank.feedback.experts import PANELS
from olrank.nets import linear, mixture, mlp, residual
from olrank.nets.net import Net


def choose_net(design: Any) -> Net:
    """The net that a design names, with experts beside it where it has any."""
    net = single_net(design)
    if not getattr(design, "experts", False):
        return net
    panel = PANELS[design.panel]
    return mixture.beside(net, expert_net(design), len(panel.networks), panel.standard)


def expert_net(design: Any) -> Net:
    """A network that stands beside the one that serves."""
    if PANELS[design.panel].standard:
        return mlp.plain(design.width, design.depth)
    return mlp.paper(design.width, design.depth)


def single_net(design: Any) -> Net:
    """The net that a design names, without experts."""
    if design.network == "linear":
        return linear.linear()
    if design.network == "paper":
        net = mlp.paper(design.width, design.depth)
    elif design.network == "plain":
        net = mlp.plain(design.width, design.depth, getattr(design, "activation", "relu"))
    else:
        raise unknown_name("network", design.network, ("paper", "plain", "linear"))
    return residual.with_linear(net) if getattr(design, "linear_part", False) else net
