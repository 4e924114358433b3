"""What tests of all rooms share."""

import os
from collections.abc import Iterator
from pathlib import Path

# As the service computes: tests replay its logs in this process and compare to the last bit. To be
# said before JAX computes anything.
_ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"
if _ONE_THREAD not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_ONE_THREAD}".strip()

import jax  # noqa: E402
import pytest  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def forget_programs() -> Iterator[None]:
    """Forget a module's compiled programs after it, and where it kept them.

    Each takes a few of the memory maps that the system allows a process; those of the whole suite
    exceed the limit.
    """
    yield
    jax.clear_caches()
    jax.config.update("jax_compilation_cache_dir", None)


@pytest.fixture
def x64() -> Iterator[None]:
    """JAX computes in 64 bits for the length of one test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data that OLRANK_DATA names; the test is skipped where there is none."""
    named = os.environ.get("OLRANK_DATA")
    if not named:
        pytest.skip("needs real data: set OLRANK_DATA to the folder that holds MQ2008 and others")
    folder = Path(named)
    if not folder.is_dir():
        pytest.skip(f"needs real data: OLRANK_DATA names {folder}, which is not a folder")
    return folder
