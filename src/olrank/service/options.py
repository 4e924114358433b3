"""How a service runs; apart from what runs, so that a command line need not load JAX first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from olrank.errors import ConfigError
from olrank.service.limits import Limits

__all__ = ["LearnerOptions", "Limits", "Options", "Retention", "warm_sizes"]

SIZES = (16, 32, 64, 100, 128, 176, 256, 384, 512, 768, 1024)
"""Candidates are padded to one of these; the work grows with the square, and 100 is common."""


@dataclass(frozen=True)
class LearnerOptions:
    """How the learner paces itself.

    Attributes:
        tick_s: longest wait before it looks around again.
        gather_s: least time from one look to the next, so that what comes together is closed,
            learned and published together; a busy service pays for each of these once.
        batch: impressions closed together, at most.
        snapshot_every: impressions trained between automatic snapshots.
        snapshot_s: seconds between automatic snapshots of a model that changed.
    """

    tick_s: float = 0.05
    gather_s: float = 0.1
    batch: int = 64
    snapshot_every: int = 2000
    snapshot_s: float = 900.0


@dataclass(frozen=True)
class Retention:
    """How much of the past is kept.

    Attributes:
        snapshots: automatic ones of each ranker, at least one.
        records_s: age from which closed records may go; until then the same ranking_id gets the
            stored answer, and its events are known again.
    """

    snapshots: int = 3
    records_s: float = 7 * 86_400.0


@dataclass(frozen=True)
class Options:
    """How a service runs.

    Attributes:
        folder: where everything that must survive lies.
        limits: on what clients may ask.
        learner: its pace.
        retention: what is kept, and how long.
        warm_sizes: candidate counts that are compiled before a ranker is ready.
    """

    folder: Path
    limits: Limits = Limits()
    learner: LearnerOptions = LearnerOptions()
    retention: Retention = Retention()
    warm_sizes: tuple[int, ...] = (16, 32, 64, 100)


def warm_sizes(text: str) -> tuple[int, ...]:
    """The compiled sizes that serve these numbers of candidates, given as "16,100"."""
    try:
        counts = [int(part) for part in text.split(",")]
        return tuple(sorted({next(s for s in SIZES if s >= n) for n in counts if n > 0}))
    except (ValueError, StopIteration):
        raise ConfigError(
            f'warm: expected numbers of candidates up to {SIZES[-1]} like "16,100", found "{text}".'
        ) from None
