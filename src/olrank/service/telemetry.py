"""Metrics for Prometheus and logs for machines: one JSON object a line."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """Every number the service counts, in a registry of its own."""

    def __init__(self) -> None:
        """All at zero."""
        self.registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"olrank_{name}", text, labels, registry=self.registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"olrank_{name}", text, labels, registry=self.registry)

        self.requests = Histogram(
            "olrank_request_seconds",
            "Time to answer",
            ("route", "method", "code"),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.rankings = counter("rankings", "Lists served", "ranker", "mode")
        self.slots = counter("slots", "Slots filled; explored: by chance", "ranker", "explored")
        self.pairs = counter("pairs", "Pairs shown", "ranker", "certain")
        self.events = counter("feedback_events", "Feedback events", "ranker", "status")
        self.closed = counter("impressions_closed", "Impressions closed", "ranker", "reason")
        self.trained = counter("impressions_trained", "Impressions learned from", "ranker")
        self.shown = counter("slot_shown", "Times a slot was in view", "ranker", "slot")
        self.clicked = counter("slot_clicked", "Of these, clicked", "ranker", "slot")
        self.join = gauge("join_ratio", "Closed impressions that had feedback", "ranker")
        self.certain = gauge("certain_pair_ratio", "Certain of all pairs shown", "ranker")
        self.explored = gauge("explored_slot_ratio", "Slots filled by chance", "ranker")
        self.version = gauge("model_version", "Times the model changed", "ranker")
        self.diverged = gauge("model_diverged", "1: not finite, not published", "ranker")
        self.drift = gauge("feature_drift", "Largest shift of a mean, in deviations", "ranker")
        self.learner_up = gauge("learner_up", "1 while the learner runs")
        self.learner_starts = counter("learner_starts", "Times the learner was started")
        self.lag_s = gauge("learner_lag_seconds", "From a closing event to its learned model")
        self.lag_records = gauge("learner_lag_records", "Records the learner has not read")
        self.queue = gauge("log_queue", "Requests that wait for the log")
        self.log_position = gauge("log_position", "Records in the log")
        self._join: dict[str, list[int]] = {}
        self._shares: dict[str, list[int]] = {}

    def ranked(
        self, ranker: str, mode: str, choices: Sequence[int], certain: int, uncertain: int
    ) -> None:
        """Count a list."""
        explored = sum(n > 1 for n in choices)
        self.rankings.labels(ranker, mode).inc()
        self.slots.labels(ranker, "true").inc(explored)
        self.slots.labels(ranker, "false").inc(len(choices) - explored)
        self.pairs.labels(ranker, "true").inc(certain)
        self.pairs.labels(ranker, "false").inc(uncertain)
        sums = self._shares.setdefault(ranker, [0, 0, 0, 0])
        for i, more in enumerate((explored, len(choices), certain, certain + uncertain)):
            sums[i] += more
        self.explored.labels(ranker).set(sums[0] / max(sums[1], 1))
        self.certain.labels(ranker).set(sums[2] / max(sums[3], 1))

    def learned(self, ranker: str, tally: Mapping[str, Any]) -> None:
        """Count what the learner did since it last published."""
        joined, closed = self._join.setdefault(ranker, [0, 0]), 0
        for reason, n in tally["closed"].items():
            self.closed.labels(ranker, reason).inc(n)
            closed += n
            joined[0] += 0 if reason == "unshown" else n
        joined[1] += closed
        if joined[1]:
            self.join.labels(ranker).set(joined[0] / joined[1])
        self.trained.labels(ranker).inc(tally["trained"])
        for slot, n in tally["shown"].items():
            self.shown.labels(ranker, str(slot)).inc(n)
        for slot, n in tally["clicked"].items():
            self.clicked.labels(ranker, str(slot)).inc(n)
        if tally["oldest_ms"] is not None:
            self.lag_s.set(max(tally["at_ms"] - tally["oldest_ms"], 0) / 1000)


class Drift:
    """How far the means of the features, as sent, have moved since the ranker's first requests.

    The first `reference` rankings give means and deviations; later ones an average that forgets.
    """

    def __init__(self, n_features: int, reference: int = 500, memory: int = 500) -> None:
        """Nothing seen yet."""
        self._reference, self._memory = reference, memory
        self._n = 0
        self._mean = np.zeros(n_features)
        self._square = np.zeros(n_features)
        self._recent = np.zeros(n_features)

    def see(self, raw: npt.NDArray[np.float64]) -> None:
        """Take in the candidates of one ranking."""
        # Clipped, so that one absurd value neither overflows nor decides everything.
        mean = np.clip(raw.mean(axis=0), -1e12, 1e12)
        self._n += 1
        if self._n <= self._reference:
            self._mean += (mean - self._mean) / self._n
            self._square += (mean**2 - self._square) / self._n
            self._recent = self._mean.copy()
        else:
            self._recent += (mean - self._recent) / self._memory

    def largest(self) -> tuple[float, int] | None:
        """(shift in deviations, feature) of what moved most; None before it is known."""
        if self._n <= self._reference:
            return None
        deviation = np.sqrt(np.maximum(self._square - self._mean**2, 0.0))
        shift = np.abs(self._recent - self._mean)
        floor = 1e-9 + 1e-6 * np.abs(self._mean)
        moved = shift / np.maximum(deviation, floor)
        feature = int(np.argmax(moved))
        return float(moved[feature]), feature


class JsonLines(logging.Formatter):
    """A log record as one JSON object: time, level, message, and the facts given with it."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def log_to_stderr(level: str = "info") -> None:
    """Send the service's logs to standard error as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("olrank", "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level.upper())
