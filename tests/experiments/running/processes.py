"""`olrank run` as a process of its own, on a config that takes seconds."""

import os
import subprocess
import sys
from pathlib import Path

CONFIG = """
name = "trial"
data = { synthetic = "small", queries = [12, 2, 4] }
ranker = { name = "dbgd-linear" }
[run]
rounds = 2000
seeds = 5
seeds_at_once = 1
k = 3
users = ["perfect", "random"]
per_query = true
"""
N_PARTS = 5


def environment(folder: Path) -> dict[str, str]:
    """Of a process that keeps compiled programs in folder/cache."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "OLRANK_CACHE": str(folder / "cache"),
        "JAX_PLATFORMS": "cpu",
        # XLA leaves out its optimisations: compiling is most of the time here.
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    }


def start_run(folder: Path, out: str) -> subprocess.Popen[str]:
    """Begin to run the config, folder/trial.toml, into folder/out."""
    file = folder / "trial.toml"
    file.write_text(CONFIG)
    command = [sys.executable, "-c", "from olrank.cli import main; main()", "run", str(file)]
    return subprocess.Popen(
        [*command, "--out", str(folder / out)],
        env=environment(folder),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def end_run(process: subprocess.Popen[str], timeout_s: float = 300) -> str:
    """Wait for a run that must end well; what it wrote to stderr."""
    try:
        _, said = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    assert process.returncode == 0, said
    return said
