"""One service for all tests that only ask it things; compiled programs are shared by processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest
from service.running import Service

from olrank.service import build


@pytest.fixture(scope="session", autouse=True)
def programs(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Where child processes keep what they compiled."""
    named = os.environ.get("OLRANK_CACHE")
    build.prepare(Path(named) / "xla" if named else tmp_path_factory.mktemp("xla"))
    # Not for this process: tests kill others that write there, and here a warning is an error.
    jax.config.update("jax_enable_compilation_cache", False)


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A running service with a few rankers; tests must leave these as they found them."""
    with Service(tmp_path_factory.mktemp("service")) as one:
        yield one
