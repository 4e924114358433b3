"""One look for every figure: readable in grey, safe for colour-blind eyes, always the same bytes.

Each ranker keeps its colour, line and marker in all figures. Colours are Okabe and Ito's palette,
and one of Tol's beside it; lines and markers differ too, so that a print without colour can still
be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.style
from matplotlib.figure import Figure

_RC: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # ships with matplotlib: the same glyphs on every machine
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#444444",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "figure.facecolor": "white",
    "svg.fonttype": "path",
    "svg.hashsalt": "olrank",  # ids inside the SVG come from this instead of chance
}


class Look(NamedTuple):
    """How a ranker's curve is drawn."""

    colour: str
    line: str | tuple[int, tuple[float, ...]]
    marker: str


_DASH_DOT_DOT = (0, (5.0, 1.5, 1.0, 1.5, 1.0, 1.5))

_LOOKS: dict[str, Look] = {
    "olranknet": Look("#D55E00", "-", "o"),
    "ollambdarank": Look("#0072B2", "-", "s"),
    "pairrank": Look("#009E73", "--", "^"),
    "epsilon-greedy": Look("#CC79A7", "-.", "D"),
    "dbgd-linear": Look("#999999", ":", "v"),
    "dbgd-neural": Look("#666666", _DASH_DOT_DOT, "<"),
    "pdgd-linear": Look("#E69F00", "--", "P"),
    "pdgd-neural": Look("#56B4E9", "-.", "X"),
    "skyline": Look("#000000", ":", "*"),
    "olcascade": Look("#AA4499", "-", "h"),
}

_LINES = ("-", "--", "-.", ":", _DASH_DOT_DOT)
_COLOURS = tuple(look.colour for look in _LOOKS.values())
_MARKERS = tuple(look.marker for look in _LOOKS.values())


def looks(rankers: Iterable[str]) -> dict[str, Look]:
    """A look for each label: its own where it is a ranker's name, else the first that is free."""
    chosen: dict[str, Look] = {}
    spare = _spare_looks()
    titles = list(rankers)
    taken = {_LOOKS[title] for title in titles if title in _LOOKS}
    for title in titles:
        if title in _LOOKS:
            chosen[title] = _LOOKS[title]
            continue
        chosen[title] = next(look for look in spare if look not in taken)
    return chosen


def _spare_looks() -> Iterator[Look]:
    """The known looks, then ever new mixes of line, colour and marker."""
    yield from _LOOKS.values()
    step = 0
    while True:
        colour, marker = _COLOURS[step % 9], _MARKERS[(step + step // 9 + 4) % 9]
        yield Look(colour, _LINES[(step + 1) % 5], marker)
        step += 1


@contextmanager
def applied() -> Iterator[None]:
    """Draw in olrank's look, whatever the machine's own matplotlib settings are."""
    with matplotlib.style.context(["default", _RC]):
        yield


def save(figure: Figure, path: Path) -> Path:
    """The figure as SVG without a date or a version, so that a redraw gives the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"Date": None, "Creator": "olrank"}
    figure.savefig(path, format="svg", metadata=metadata)
    return path
