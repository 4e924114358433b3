"""Services for tests: HTTP in a thread of this process, or the real command."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import uvicorn

import olrank
from olrank.service.app import make_app
from olrank.service.auth import Keys
from olrank.service.options import LearnerOptions, Options
from olrank.service.runtime import Runtime

D = 3
QUICK = LearnerOptions(tick_s=0.02, gather_s=0.02)
SMALL = {"k": 4, "history": 50}
SETTINGS: dict[str, dict[str, Any]] = {
    "olranknet": {"width": 4, "steps": 2, "history_batch": 8},
    "olcascade": {"width": 4, "steps": 2, "history_batch": 8, "documents": 64},
    "pairrank": {},
    "pdgd-linear": {},
}


class Service:
    """A service whose HTTP is in this process; its learner is a process of its own, as always."""

    def __init__(self, folder: Path, keys: Keys | None = None, **options: Any) -> None:
        given = {"learner": QUICK, "warm_sizes": (16,), **options}
        self.folder = folder
        self.runtime = Runtime.open(Options(folder, **given))
        port = free_port()
        config = uvicorn.Config(make_app(self.runtime, keys), port=port, log_config=None)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        self.url = f"http://127.0.0.1:{port}"
        self.http = httpx.Client(base_url=self.url, timeout=60)
        self.client = olrank.Client(self.url, tries=100, timeout_s=60)

    def __enter__(self) -> Service:
        wait_for(lambda: self._server.started)
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()
        self.client.close()
        self._server.should_exit = True
        self._thread.join()

    def create(self, name: str, algorithm: str = "pairrank", **more: Any) -> None:
        """A small ranker, ready to be asked."""
        given = {"features": D, **SMALL, "settings": SETTINGS.get(algorithm, {}), **more}
        self.client.create(name, algorithm=algorithm, **given)
        wait_for(lambda: self.client.ranker(name)["state"] == "ready")

    def wait_trained(self, name: str, n: int) -> None:
        wait_for(lambda: self.client.ranker(name)["n_trained"] >= n)

    def teach(self, name: str, rounds: int, seed: int = 0) -> None:
        """Serve lists to users who like feature 0, and wait until they are learned from."""
        before = self.client.ranker(name)["n_trained"]
        rng = np.random.default_rng(seed)
        for _ in range(rounds):
            x = rng.random((8, D))
            ranking = self.client.rank(name, candidates(x))
            good = [i["id"] for i in ranking["items"] if x[int(i["id"][1:]), 0] > 0.6]
            self.client.feedback(name, ranking, good, close=True)
        self.wait_trained(name, before + rounds)


class Command:
    """`olrank serve` as a person starts it."""

    def __init__(self, folder: Path, *options: str, **environment: str) -> None:
        self.folder, self.options, self.environment = folder, options, environment
        self.port = free_port()
        self.client = olrank.Client(f"http://127.0.0.1:{self.port}", tries=40, timeout_s=60)
        self.start()

    def start(self) -> None:
        arguments = ["serve", "--port", str(self.port), "--data", str(self.folder), "--warm", "16"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "olrank", *arguments, *self.options],
            env={**os.environ, **self.environment},
            stderr=subprocess.PIPE if "--log-level" in self.options else subprocess.DEVNULL,
            text=True,
        )

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)

    def __enter__(self) -> Command:
        self.client.wait_until_ready()
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        if self.process.poll() is None:
            self.kill()
        if self.process.stderr is not None:
            self.process.stderr.close()


def run_olrank(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "olrank", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def candidates(x: np.ndarray) -> list[dict[str, Any]]:
    return [{"id": f"d{i}", "features": row} for i, row in enumerate(np.asarray(x).tolist())]


def wait_for(is_so: Any, timeout_s: float = 60.0) -> None:
    end_s = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < end_s, "it did not happen in time"
        time.sleep(0.02)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
