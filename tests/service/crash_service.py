"""The service as crash tests run it: everything that happens now and then happens all the time.

    python tests/service/crash_service.py FOLDER PORT CACHE [early]

With "early" it is a mutant that acknowledges before it commits: crash tests must find it out.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def main(folder: Path, port: int, cache: Path, mutant: str = "") -> None:
    """Serve until stopped or killed."""
    from olrank.service import build

    build.prepare(cache)
    import uvicorn

    from olrank.service import sqlite_checkpoint
    from olrank.service.app import make_app
    from olrank.service.options import LearnerOptions, Options, Retention
    from olrank.service.runtime import Runtime
    from olrank.service.telemetry import log_to_stderr

    log_to_stderr("warning")
    sqlite_checkpoint._WAL_PAGES = 40
    if mutant == "early":
        _acknowledge_early()
    options = Options(
        folder,
        learner=LearnerOptions(tick_s=0.01, snapshot_every=9, snapshot_s=1.0),
        retention=Retention(snapshots=2, records_s=0.0),
        warm_sizes=(16,),
    )
    app = make_app(Runtime.open(options))
    config = uvicorn.Config(app, port=port, log_config=None, access_log=False)
    asyncio.run(uvicorn.Server(config).serve())


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
