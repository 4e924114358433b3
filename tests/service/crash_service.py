"""The service as crash tests run it: everything that happens now and then happens all the time.

    python tests/service/crash_service.py FOLDER PORT CACHE [early]

This process only loads the modules, which takes longer than all else that a start does. For each
line on its input it forks a service, a process like any other from there on, and so does that
service for its learner. It writes the service's process id, and its exit code when it has ended.

With "early" it is a mutant that acknowledges before it commits: crash tests must find it out.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any


def main(folder: Path, port: int, cache: Path, mutant: str = "") -> None:
    """Fork a service whenever asked to, one at a time."""
    from olrank.service import build

    build.prepare(cache)
    # Loaded, and nothing computed: JAX starts its threads later, and threads do not outlive a fork.
    import olrank.service.app
    import olrank.service.learner
    import olrank.service.sqlite  # noqa: F401

    gc.freeze()
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            os.close(0)
            _end_with(lambda: serve(folder, port, mutant))
        # Here, too: whoever reads the line may kill the group at once.
        with suppress(PermissionError, ProcessLookupError):
            os.setpgid(child, child)
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def serve(folder: Path, port: int, mutant: str) -> int:
    """Serve until stopped or killed."""
    import uvicorn

    from olrank.service import sqlite_checkpoint, supervisor
    from olrank.service.app import make_app
    from olrank.service.options import LearnerOptions, Options, Retention
    from olrank.service.runtime import Runtime
    from olrank.service.telemetry import log_to_stderr

    supervisor.subprocess.Popen = _forker()  # type: ignore[misc, assignment]
    log_to_stderr("warning")
    sqlite_checkpoint._WAL_PAGES = 40
    if mutant == "early":
        _acknowledge_early()
    options = Options(
        folder,
        learner=LearnerOptions(tick_s=0.01, gather_s=0.01, snapshot_every=9, snapshot_s=1.0),
        retention=Retention(snapshots=2, records_s=0.0),
        warm_sizes=(16,),
    )
    app = make_app(Runtime.open(options))
    config = uvicorn.Config(app, port=port, log_config=None, access_log=False)
    asyncio.run(uvicorn.Server(config).serve())
    return 0


def _forker() -> Any:
    """A stand-in for Popen whose processes are forked by a helper that has no threads either."""
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        _end_with(lambda: _help(theirs))
    theirs.close()

    class Forked:
        """A learner, as far as the supervisor asks."""

        def __init__(self, command: Sequence[str], pass_fds: Sequence[int], **_: Any) -> None:
            socket.send_fds(ours, [json.dumps(command[3:]).encode()], list(pass_fds))
            self.pid = int(ours.recv(20))
            self._code: int | None = None

        def poll(self) -> int | None:
            return self._code

        def wait(self) -> int:
            self._code = int(ours.recv(20))
            return self._code

        def kill(self) -> None:
            os.kill(self.pid, 9)

    return Forked


def _help(asked: socket.socket) -> int:
    """Fork learners, one after the other, until the service is gone."""
    from olrank.service import learner

    while True:
        message, descriptors, _, _ = socket.recv_fds(asked, 1 << 16, 2)
        if not message:
            return 0
        folder, _, _, options = json.loads(message)
        arguments = [folder, *map(str, descriptors), options]
        child = os.fork()
        if child == 0:
            asked.close()
            _end_with(partial(learner.main, arguments))
        for one in descriptors:
            os.close(one)
        try:
            asked.send(str(child).encode())
            asked.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
        except BrokenPipeError:
            return 0


def _end_with(work: Callable[[], int]) -> None:
    """End this process with what the work returns, and not one line of its parent's later."""
    code = 1
    try:
        code = work()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


def _acknowledge_early() -> None:
    from olrank.service import crashpoints
    from olrank.service.sqlite_write import Writer

    def serve(self: Writer, group: Sequence[Any]) -> None:
        before, db = self._writing.tail, self._writing.db
        db.execute("BEGIN IMMEDIATE")
        answers = [self._decide(request) for request in group]
        for request, answer in zip(group, answers, strict=True):
            failed = isinstance(answer, Exception)
            (request.future.set_exception if failed else request.future.set_result)(answer)
        time.sleep(0.02)  # the answer is on its way
        crashpoints.reach("store.acknowledged")
        db.execute("COMMIT")
        if self._writing.tail != before:
            self._head.write(self._writing.tail)

    Writer._serve = serve  # type: ignore[method-assign]


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:])
