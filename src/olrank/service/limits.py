"""Limits on what a client may ask of the service."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass

_CLIENTS = 10_000  # buckets kept; the ones unused for longest are forgotten


@dataclass(frozen=True)
class Limits:
    """What is refused, whoever asks.

    Attributes:
        body_bytes: of a request's body.
        rate: requests a second of one key or address, on average; 0 for no limit.
        burst: requests that may come at once.
        rankers: that may live in one service.
        model_bytes: memory of one ranker's state.
    """

    body_bytes: int = 16 << 20
    rate: float = 0.0
    burst: int = 200
    rankers: int = 100
    model_bytes: int = 1 << 30


class Buckets:
    """A token bucket for each client.

    Args:
        rate: tokens a second.
        burst: tokens of a full bucket.
    """

    def __init__(self, rate: float, burst: int) -> None:
        """All buckets are full."""
        self._rate = rate
        self._burst = float(burst)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, client: str, now_s: float | None = None) -> float:
        """Take a token: 0, or the seconds until there is one (and none is taken)."""
        if self._rate <= 0:
            return 0.0
        now_s = time.monotonic() if now_s is None else now_s
        tokens, then_s = self._buckets.pop(client, (self._burst, now_s))
        tokens = min(self._burst, tokens + (now_s - then_s) * self._rate)
        short = 1.0 - tokens
        self._buckets[client] = (tokens - 1.0 if short <= 0 else tokens, now_s)
        while len(self._buckets) > _CLIENTS:
            self._buckets.popitem(last=False)
        return max(short, 0.0) / self._rate
