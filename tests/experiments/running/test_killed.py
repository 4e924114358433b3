"""A run that is killed with SIGKILL, in a process of its own, goes on where it was."""

import random
import time
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest
from experiments.running.processes import N_PARTS, end_run, start_run


class Story(NamedTuple):
    """One whole run, and one that was killed twice before it could end."""

    whole: Path
    killed: Path
    parts: list[list[Path]]  # after the first kill, after the second
    readable: list[bool]  # each of the latter
    compiled: list[dict[str, int]]  # what was kept, and when: by the whole run, after all runs
    said: str  # by the run that ended


def kill_later(folder: Path, n_parts: int, wait_s: float) -> list[Path]:
    """Start a run, and kill it this long after it has so many parts; the parts that it leaves."""
    process = start_run(folder, "killed")
    parts = folder / "killed" / "parts"
    ends = time.monotonic() + 120
    while len(list(parts.glob("*.parquet"))) < n_parts:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < ends
        time.sleep(0.005)
    time.sleep(wait_s)
    process.kill()
    process.communicate()
    assert not (folder / "killed" / "rows.parquet").exists()
    return sorted(parts.glob("*.parquet"))


@pytest.fixture(scope="module")
def story(whole_run: Path) -> Story:
    folder = whole_run

    def compiled() -> dict[str, int]:
        entries = (folder / "cache" / "compiled").rglob("*-cache")
        return {entry.name: entry.stat().st_mtime_ns for entry in entries}

    first = compiled()
    moments = random.Random(3)
    found = kill_later(folder, 1, moments.uniform(0, 0.3))
    left = kill_later(folder, len(found) + 1, moments.uniform(0, 0.3))
    readable = [pl.read_parquet(file).height > 0 for file in left]
    # A moment that is too short to be met: in the middle of the last file.
    (folder / "killed" / ".rows.parquet.abcdefgh").write_bytes(b"PAR1 half of a file")
    said = end_run(start_run(folder, "killed"))
    return Story(
        folder / "whole",
        folder / "killed",
        [found, left],
        readable,
        [first, compiled()],
        said,
    )


def test_a_killed_run_goes_on_with_the_parts_that_were_done(story: Story):
    found, left = story.parts
    assert 1 <= len(found) < len(left) < N_PARTS  # it was killed in the middle, twice
    assert set(found) < set(left)
    assert all(story.readable)  # what has its name is whole
    assert story.said.count("resumed") == len(left)


def test_a_killed_run_ends_with_the_rows_of_an_unbroken_one_and_nothing_half_written(story: Story):
    for name in ("rows.parquet", "queries.parquet"):
        whole, killed = (folder / name for folder in (story.whole, story.killed))
        assert whole.read_bytes() == killed.read_bytes()
    names = [
        sorted(path.name for path in folder.iterdir()) for folder in (story.whole, story.killed)
    ]
    assert names[0] == names[1]


def test_the_next_process_finds_what_the_first_has_compiled(story: Story):
    first, last = story.compiled
    assert any("_chunk" in name for name in first)
    assert last == first  # nothing was compiled again; the rows above are the same with both
