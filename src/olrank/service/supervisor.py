"""Keeps one learner process running: starts it, listens to it, starts it again when it dies.

Serving goes on with the last published state while there is no learner.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from olrank.errors import LogUnavailableError
from olrank.service import remote
from olrank.service.log import LogWriter
from olrank.service.options import LearnerOptions

_LOG = logging.getLogger("olrank.service")
_LONGEST_PAUSE_S = 10.0  # between two starts of a learner that keeps dying
_HEALTHY_S = 30.0  # a learner that ran this long starts again at once

Message = dict[str, Any]


class Supervisor:
    """A learner that is always there, as far as it can be.

    Args:
        log: that the learner writes through.
        folder: of the service.
        options: the learner's pace.
        hear: called with every message of the learner, from a thread of its own.
    """

    def __init__(
        self,
        log: LogWriter,
        folder: Path,
        options: LearnerOptions,
        hear: Callable[[Message], None],
    ) -> None:
        """No process is started yet."""
        self._log = log
        self._folder = folder
        self._options = options
        self._hear = hear
        self._process: subprocess.Popen[bytes] | None = None
        self._control: Connection | None = None
        self._tickets = itertools.count(1)
        self._waiting: dict[int, Future[Any]] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="olrank-supervisor", daemon=True)
        self.starts = 0

    @property
    def pid(self) -> int | None:
        """The learner's process id while it runs."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def start(self) -> None:
        """Start the learner, and go on starting it."""
        self._thread.start()

    def stop(self, timeout_s: float = 30.0) -> None:
        """Let the learner finish its batch and take its snapshots, then end it."""
        self._stopping.set()
        self._tell({"op": "stop"})
        self._stopped.wait(timeout_s)
        process = self._process
        if process is not None and process.poll() is None:
            process.kill()
        if self._thread.ident is not None:
            self._thread.join(timeout=5.0)

    def ask(self, op: str, ranker: str) -> Future[Any]:
        """Ask the learner for something; fails when it is not there, or dies over it."""
        ticket = next(self._tickets)
        future: Future[Any] = Future()
        with self._lock:
            self._waiting[ticket] = future
        if not self._tell({"op": op, "ranker": ranker, "ticket": ticket}):
            self._fail_all("the learner is not running. It is being started: try again soon.")
        return future

    def _tell(self, message: Message) -> bool:
        with self._lock:
            if self._control is None:
                return False
            try:
                self._control.send_bytes(remote.encode(message))
            except OSError:
                return False
            return True

    def _run(self) -> None:
        pause_s = 0.0
        while not self._stopping.wait(pause_s):
            began_s = time.monotonic()
            code = self._once()
            self._fail_all("the learner stopped before it answered. Try again.")
            if self._stopping.is_set():
                break
            ran_s = time.monotonic() - began_s
            pause_s = 0.1 if ran_s > _HEALTHY_S else min(max(2 * pause_s, 0.1), _LONGEST_PAUSE_S)
            _LOG.error(
                "the learner ended and is started again",
                extra={"facts": {"exit": code, "ran_s": round(ran_s, 1), "pause_s": pause_s}},
            )
        self._stopped.set()

    def _once(self) -> int:
        """Run one learner to its end; its exit code."""
        log_here, log_there = socket.socketpair()
        control_here, control_there = socket.socketpair()
        descriptors = (log_there.fileno(), control_there.fileno())
        arguments = [*map(str, descriptors), json.dumps(asdict(self._options))]
        self.starts += 1
        process = subprocess.Popen(
            [sys.executable, "-m", "olrank.service.learner", str(self._folder), *arguments],
            pass_fds=descriptors,
            stdin=subprocess.DEVNULL,
            env=dict(os.environ),
        )
        log_there.close()
        control_there.close()
        writer = Connection(log_here.detach())
        control = Connection(control_here.detach())
        with self._lock:
            self._process, self._control = process, control
        serving = threading.Thread(
            target=remote.serve, args=(self._log, writer), name="olrank-learner-log", daemon=True
        )
        serving.start()
        self._listen(control)
        with self._lock:
            self._control = None
            control.close()
        code = process.wait()
        serving.join()
        writer.close()
        return code

    def _listen(self, control: Connection) -> None:
        while True:
            try:
                message = remote.decode(control.recv_bytes())
            except (EOFError, OSError):
                return
            if message["op"] == "answer":
                self._answer(message)
            elif message["op"] == "stopped":
                return
            else:
                self._hear(message)

    def _answer(self, message: Message) -> None:
        with self._lock:
            future = self._waiting.pop(message["ticket"], None)
        if future is None:
            return
        if "error" in message:
            future.set_exception(LogUnavailableError(message["error"]))
        else:
            future.set_result(message["value"])

    def _fail_all(self, text: str) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            future.set_exception(LogUnavailableError(text))
