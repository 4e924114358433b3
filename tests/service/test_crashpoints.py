"""Crash points: silent unless asked, deadly when asked, and all of them real."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import olrank
from olrank.service import crashpoints

SOURCE = Path(olrank.__file__).parent / "service"


def run(crash: str | None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "OLRANK_CRASH"}
    if crash is not None:
        environment["OLRANK_CRASH"] = crash
    program = (
        "from olrank.service.crashpoints import reach\n"
        "for number in range(3):\n"
        "    print(number, flush=True)\n"
        "    reach('store.taken')\n"
    )
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("crash", "n_lines", "status"),
    [
        (None, 3, 0),
        ("store.begun", 3, 0),
        ("store.taken", 1, -signal.SIGKILL),
        ("store.taken:3", 3, -signal.SIGKILL),
        ("store.taken:4", 3, 0),
    ],
)
def test_a_process_dies_where_it_was_asked_to(crash: str, n_lines: int, status: int) -> None:
    done = run(crash)
    assert (len(done.stdout.split()), done.returncode) == (n_lines, status)


def test_a_plan_in_a_file_is_carried_out_once(tmp_path: Path) -> None:
    plan = tmp_path / "plan"
    assert run(f"@{plan}").returncode == 0
    plan.write_text("store.taken:2:first")
    done = run(f"@{plan}")
    assert (len(done.stdout.split()), done.returncode) == (2, -signal.SIGKILL)
    assert not plan.exists()
    assert run(f"@{plan}").returncode == 0


def test_the_list_of_points_is_the_list_of_points_in_the_source() -> None:
    texts = [path.read_text() for path in SOURCE.glob("*.py") if path.name != "crashpoints.py"]
    call = re.compile(r'(?<!`)crashpoints\.reach\("([^"]+)"')
    used = [name for text in texts for name in call.findall(text)]
    assert sorted(used) == sorted(set(used)), "a point's name says where it is"
    assert set(used) == set(crashpoints.POINTS)
    assert len(used) >= 25
