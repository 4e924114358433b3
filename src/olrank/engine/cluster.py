"""Spread jobs over a Ray cluster: each to a free worker, and to another one when that is lost.

A job is two values: a large one that many jobs share (it travels once to a machine) and a small
one. Workers tell how far they are, and the results come back as they are ready. What a job computes
is its own affair; here is only where and when.

Nothing is reported to Ray's makers, and a local cluster answers to this run alone.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from olrank.errors import ClusterError, ConfigError, OlrankError

Tell = Callable[[int, int], None]
Work = Callable[[Any, Any, Tell], Any]
"""Called in a worker with (large, small, tell); `tell(done, total)` says how far it is."""

_TRIES = 4  # a job that takes its worker down every time must not go on for ever
_POLL_S = 0.5
_KNOCK_S = 5.0


class Heard(NamedTuple):
    """What the cluster says of one job: "result", "progress" (done, total) or "lost"."""

    job: int
    what: str
    value: Any = None


class Cluster:
    """Workers that are ready, all of one kind of device."""

    def __init__(self, device: str) -> None:
        """Of a connected Ray; `connect` makes it."""
        self.device = device

    def spread(self, work: Work, jobs: Sequence[tuple[Any, Any]]) -> Iterator[Heard]:
        """Run every job, (large, small), and say what happens as it happens."""
        import ray

        board = ray.remote(num_cpus=0, max_restarts=-1)(_Board).remote()
        task = self._task()
        shared = {id(large): large for large, _ in jobs}
        sent = {name: ray.put(large) for name, large in shared.items()}

        def submit(index: int) -> Any:
            large, small = jobs[index]
            return task.remote(work, sent[id(large)], small, board, index)

        waiting = {submit(index): index for index in range(len(jobs))}
        n_lost: Counter[int] = Counter()
        try:
            while waiting:
                ready, _ = ray.wait(list(waiting), timeout=_POLL_S)
                # What is heard of a finished job comes late.
                yield from (news for news in _news(board) if news.job in waiting.values())
                for reference in ready:
                    heard = _collected(reference, waiting.pop(reference))
                    if heard.what == "lost":
                        n_lost[heard.job] += 1
                        _check_patience(n_lost[heard.job], heard.value)
                        waiting[submit(heard.job)] = heard.job
                    yield heard
        finally:
            # After the connection has ended, Ray would start a cluster to cancel on.
            for reference in waiting if ray.is_initialized() else ():
                ray.cancel(reference, force=True)

    def _task(self) -> Any:
        """The job as a Ray task; retried by us, so that a lost worker is heard of."""
        import ray

        if self.device == "gpu":
            # A process keeps the GPU memory it took: one process a job.
            return ray.remote(num_cpus=1, num_gpus=1, max_calls=1, max_retries=0)(_job)
        return ray.remote(num_cpus=1, max_retries=0)(_job)


class _Board:
    """Where workers write how far they are, and the one who waits reads it."""

    def __init__(self) -> None:
        self._told: dict[int, tuple[int, int]] = {}

    def tell(self, index: int, done: int, total: int) -> None:
        self._told[index] = (done, total)

    def take(self) -> dict[int, tuple[int, int]]:
        told, self._told = self._told, {}
        return told


def _job(work: Work, large: Any, small: Any, board: Any, index: int) -> Any:
    """What a worker runs."""
    return work(large, small, lambda done, total: board.tell.remote(index, done, total))


def _check_patience(n_lost: int, reason: str) -> None:
    if n_lost >= _TRIES:
        raise ClusterError(
            f"one job has lost its worker {n_lost} times, the last time so:\n  {reason}\n"
            "  Look at the workers' memory and at their logs."
        )


def _news(board: Any) -> list[Heard]:
    import ray

    try:
        told = ray.get(board.take.remote(), timeout=_POLL_S)
    except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError):
        return []  # its machine was lost; it starts anew elsewhere, and no result depends on it
    return [Heard(index, "progress", value) for index, value in told.items()]


def _collected(reference: Any, index: int) -> Heard:
    """The result of a job that is ready, or that its worker was lost."""
    import ray
    from ray import exceptions

    lost = (
        exceptions.WorkerCrashedError,
        exceptions.NodeDiedError,
        exceptions.LocalRayletDiedError,
        exceptions.ObjectLostError,
        exceptions.OutOfMemoryError,
    )
    try:
        return Heard(index, "result", ray.get(reference))
    except lost as error:
        return Heard(index, "lost", str(error).strip().partition("\n")[0])
    except exceptions.RayTaskError as error:
        if isinstance(error.cause, OlrankError):
            raise error.cause from None
        raise


@contextmanager
def connect(address: str, device: str | None = None) -> Iterator[Cluster]:
    """A Ray cluster, for as long as the context lasts.

    Args:
        address: "local" starts one on this machine, with a worker for every core or GPU; else where
            one runs already: HOST:PORT, "auto", or ray://HOST:PORT from outside.
        device: "cpu" or "gpu"; GPUs where the cluster has any when None. Workers of one run are of
            one kind, because kinds round differently.
    """
    with _environment(address):
        try:
            import ray
        except ImportError as error:
            raise ConfigError(
                "a cluster needs Ray, which is not installed. "
                'Install it here and on the workers: pip install "olrank[cluster]"'
            ) from error
        try:
            _knock(address)
            ray.init(
                address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR
            )
        except (OSError, RuntimeError, ValueError) as error:
            raise ConfigError(
                f"cluster {address}: cannot be reached ({error}).\n  Start one with "
                '"ray start --head" and name its HOST:PORT, or use --cluster local.'
            ) from error
        try:
            resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
            yield Cluster(_kind(resources, address, device))
        finally:
            ray.shutdown()


def _knock(address: str) -> None:
    """Fail at once where nobody listens; Ray would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=_KNOCK_S).close()


@contextmanager
def _environment(address: str) -> Iterator[None]:
    """What Ray reads from the environment, and its processes inherit."""
    # A GPU that a task did not ask for is not seen by it.
    chosen = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1"}
    if address == "local" and "ray" not in sys.modules:
        # Ray listens on every interface, and runs what it is sent. It reads these when imported; a
        # new Ray that was imported before makes a token of its own.
        chosen |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    before = {name: os.environ.get(name) for name in chosen}
    os.environ.update(chosen)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def _kind(resources: dict[str, float], address: str, device: str | None) -> str:
    has_gpus = resources.get("GPU", 0) >= 1
    if device == "gpu" and not has_gpus:
        raise ConfigError(
            f"cluster {address}: no worker has a GPU. Add one that does, or use --device cpu."
        )
    return device or ("gpu" if has_gpus else "cpu")
