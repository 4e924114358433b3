"""The rough stream in its short form; `python tests/service/stream.py` runs the long one."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent


def test_a_rough_stream_is_learned_as_a_simple_model_learns_it(tmp_path: Path):
    """In a process of its own: the simple model must compute in one thread, as the learner does."""
    script = [sys.executable, str(TESTS / "service" / "stream.py"), str(tmp_path / "stream")]
    done = subprocess.run(
        [*script, "--events", "1200", "--stops", "12"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for status in ("accepted", "duplicate", "late"):
        assert f"'{status}'" in done.stdout
