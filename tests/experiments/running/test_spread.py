"""A real Ray cluster on this machine, a worker of which is killed in the middle."""

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

import pytest
from experiments.running.processes import N_PARTS, environment

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None, reason='needs Ray: pip install "olrank[cluster]"'
    ),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for workers in /proc"),
]

# Prints what a reporter hears, a line each.
SCRIPT = """
import sys
from pathlib import Path
from olrank.experiments.running.config import read_config
from olrank.experiments.running.progress import Silent
from olrank.experiments.running.run import run
from jax._src import xla_bridge

class Teller(Silent):
    def advance(self, part, done, total):
        print("advance", part[-1], done, flush=True)
    def finish(self, part, seconds, resumed):
        print("finish", part[-1], flush=True)
    def lose(self, part):
        print("lose", part[-1], flush=True)

run(read_config(Path(sys.argv[1])), Path(sys.argv[2]), Teller(), cluster="local")
print("computed here" if xla_bridge.backends_are_initialized() else "only spread", flush=True)
"""


class Process(NamedTuple):
    pid: int
    parent: int
    title: str


def children_of(pid: int) -> list[Process]:
    """All processes below this one, as Linux tells them."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                title = (entry / "cmdline").read_text().replace("\0", " ").strip()
            except OSError:
                continue  # it has just ended
            if stat[0] != "Z":
                found.append(Process(int(entry.name), int(stat[1]), title))
    family, grown = {pid}, True
    while grown:
        more = {process.pid for process in found if process.parent in family} - family
        family |= more
        grown = bool(more)
    return [process for process in found if process.pid in family - {pid}]


class Story(NamedTuple):
    folder: Path
    heard: list[str]
    reporting: set[str]  # what the workers' environment says of usage statistics
    left: list[Process]  # alive after all


@pytest.fixture(scope="module")
def story(whole_run: Path) -> Story:
    folder = whole_run
    command = [sys.executable, "-c", SCRIPT, str(folder / "trial.toml"), str(folder / "spread")]
    with (folder / "stderr").open("w") as errors:
        process = subprocess.Popen(
            command, env=environment(folder), text=True, stdout=subprocess.PIPE, stderr=errors
        )
    impatient = threading.Timer(300, lambda: _end(process))
    impatient.start()
    heard, workers, reporting = [], [], set()
    family: dict[int, Process] = {}
    try:
        assert process.stdout is not None
        for line in process.stdout:
            heard.append(line.strip())
            # The worker of a job is killed as soon as one is heard of and is still at it: a job
            # takes seconds, and what it tells may be heard when it has ended.
            children = children_of(process.pid)
            family |= {child.pid: child for child in children}
            if not workers and line.startswith("advance"):
                workers = [child for child in children if child.title.startswith("ray::_job")]
                for worker in workers:
                    reporting |= _reporting(worker.pid)
                for worker in workers[:1]:
                    os.kill(worker.pid, signal.SIGKILL)
        assert process.wait(timeout=30) == 0, (folder / "stderr").read_text()
        assert workers, "no worker was seen at its job"
    finally:
        impatient.cancel()
        _end(process)
        process.communicate()
    ends = time.monotonic() + 10
    while (left := _alive(list(family.values()))) and time.monotonic() < ends:
        time.sleep(0.1)
    return Story(folder, heard, reporting, left)


def _end(process: subprocess.Popen[str]) -> None:
    """A run that has not ended by itself, with all that it has started."""
    if process.poll() is None:
        for child in children_of(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
        process.kill()


def _reporting(pid: int) -> set[str]:
    entries = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return {entry for entry in entries if entry.startswith("RAY_USAGE_STATS_ENABLED=")}


def _alive(family: list[Process]) -> list[Process]:
    return [one for one in family if Path(f"/proc/{one.pid}/cmdline").exists()]


def test_a_lost_worker_s_part_is_run_again_and_the_rows_are_those_of_one_machine(story: Story):
    lost = [line.split()[1] for line in story.heard if line.startswith("lose")]
    assert len(lost) == 1
    after = story.heard[story.heard.index(f"lose {lost[0]}") :]
    assert f"finish {lost[0]}" in after
    rows = [(story.folder / name / "rows.parquet").read_bytes() for name in ("whole", "spread")]
    assert rows[0] == rows[1]


def test_several_workers_are_under_way_and_all_tell_how_far_they_are(story: Story):
    finished = [line.split()[1] for line in story.heard if line.startswith("finish")]
    first = story.heard.index(f"finish {finished[0]}")
    assert len({line.split()[1] for line in story.heard[:first]}) >= min(2, os.cpu_count() or 1)
    assert sorted(finished) == [str(seed) for seed in range(N_PARTS)]
    for part in finished:
        done = [int(line.split()[2]) for line in story.heard if line.startswith(f"advance {part}")]
        assert max(done) > 0
    assert story.heard[-1] == "only spread"  # a GPU here is left to the workers


def test_nothing_is_reported_to_ray_s_makers_and_no_process_stays(story: Story):
    assert story.reporting == {"RAY_USAGE_STATS_ENABLED=0"}
    assert story.left == []
