import io

import pytest
from rich.console import Console

from olrank.experiments.running.progress import (
    Bar,
    Lines,
    Load,
    Reporter,
    Silent,
    Tally,
    _clock_time,
    reporter,
)

PARTS = {"first [a]": Load(4, 100), "second": Load(10, 30)}


class Clock:
    """A clock that is put forward by hand."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def go_through(told: Reporter, clock: Clock) -> None:
    with told:
        told.begin(PARTS)
        clock.now_s += 2.0
        told.advance("first [a]", 50, 100)
        clock.now_s += 2.0
        told.finish("first [a]", 4.0, False)
        told.finish("second", 0.0, True)


def test_rounds_count_once_for_each_replica():
    clock = Clock()
    tally = Tally(PARTS, clock)
    assert tally.total == 4 * 100 + 10 * 30
    assert tally.left_s is None  # nobody can tell yet
    clock.now_s += 8.0
    tally.advance("first [a]", 20)
    tally.advance("second", 8)
    assert tally.done == 4 * 20 + 10 * 8
    assert tally.n_replicas == 4 + 10
    assert tally.per_s == (4 * 20 + 10 * 8) / 8
    assert tally.left_s == (700 - 160) / 20


def test_time_left_counts_rounds_by_what_they_take():
    clock = Clock()
    tally = Tally(
        {"a table": Load(1, 1, 2.0), "runs": Load(10, 1000, 1e-3), "elsewhere": Load(1, 9, 0.0)},
        clock,
    )
    assert tally.total == pytest.approx(12.0)
    clock.now_s += 4.0
    tally.finish("a table", resumed=False)
    assert tally.left_s == pytest.approx(20.0)  # all takes twice as long as expected
    tally.finish("runs", resumed=False)
    assert tally.left_s == pytest.approx(0.0)


def test_parts_that_were_found_done_make_nothing_faster():
    clock = Clock()
    tally = Tally(PARTS, clock)
    tally.finish("second", resumed=True)
    clock.now_s += 4.0
    tally.advance("first [a]", 50)
    assert tally.done == 10 * 30 + 4 * 50
    assert tally.per_s == 4 * 50 / 4
    assert tally.left_s == 4 * 50 / (4 * 50 / 4)
    assert tally.running == ["first [a]"]


def test_what_a_lost_worker_had_done_counts_no_more():
    tally = Tally(PARTS, Clock())
    tally.advance("second", 8)
    tally.lose("second")
    assert (tally.done, tally.n_replicas) == (0, 0)
    tally.lose("first [a]")  # lost before it told of anything


def test_a_log_gets_one_line_a_finished_part_with_replicas_speed_and_time_left():
    file, clock = io.StringIO(), Clock()
    lines = Lines(Console(file=file), clock)
    with lines:
        lines.begin(PARTS)
        clock.now_s += 4.0
        lines.advance("first [a]", 50, 100)
        lines.finish("first [a]", 4.0, False)
        lines.lose("second")
        lines.finish("second", 2.0, False)
    assert file.getvalue().splitlines() == [
        # 400 rounds of 700 in 4 s
        "[1/2] first [a] (4 replicas, 4.0 s, 100 rounds/s, about 3 s left)",
        "second: its worker was lost; it is run again",
        "[2/2] second (10 replicas, 2.0 s, 150 rounds/s)",
    ]


def test_a_log_says_what_was_resumed_and_has_nothing_of_a_terminal_in_it():
    file, clock = io.StringIO(), Clock()
    go_through(Lines(Console(file=file), clock), clock)
    assert file.getvalue().splitlines()[1] == "[2/2] second (10 replicas, resumed)"
    assert "\x1b" not in file.getvalue()
    assert "\r" not in file.getvalue()


def test_a_bar_shows_the_part_its_replicas_the_speed_and_the_time_left():
    file, clock = io.StringIO(), Clock()
    bar = Bar(Console(file=file, force_terminal=True, width=150), clock)
    with bar:
        bar.begin(PARTS)
        clock.now_s += 2.0
        bar.advance("first [a]", 50, 100)
        bar._bar.refresh()
    drawn = file.getvalue()
    assert "first [a]" in drawn
    assert "4 replicas, 100 rounds/s, 5 s left" in drawn  # 200 of 700 in 2 s
    assert " 29%" in drawn  # 200 / 700


def test_a_bar_counts_the_parts_that_several_workers_run():
    file, clock = io.StringIO(), Clock()
    bar = Bar(Console(file=file, force_terminal=True, width=150), clock)
    with bar:
        bar.begin(PARTS)
        clock.now_s += 1.0
        bar.advance("first [a]", 25, 100)
        bar.advance("second", 10, 30)
        bar._bar.refresh()
        assert "2 parts" in file.getvalue()
        assert "14 replicas, 200 rounds/s, 2 s left" in file.getvalue()  # 500 of 700 to go: 2.5 s
        bar.lose("second")
        assert "its worker was lost" in file.getvalue()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.4, "0 s"),
        (59.4, "59 s"),
        (90, "2 min"),
        (59 * 60, "59 min"),
        (3 * 3600 + 299, "3 h 05 min"),
    ],
)
def test_time_is_told_as_people_tell_it(seconds: float, words: str):
    assert _clock_time(seconds) == words


def test_a_terminal_gets_a_bar_and_anything_else_gets_lines():
    assert isinstance(reporter(Console(file=io.StringIO(), force_terminal=True)), Bar)
    assert isinstance(reporter(Console(file=io.StringIO())), Lines)


def test_silence_is_a_reporter_too():
    go_through(Silent(), Clock())
