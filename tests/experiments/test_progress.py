import io

from rich.console import Console

from olrank.experiments.progress import Bar, Lines, Reporter, Silent, reporter


def go_through(told: Reporter) -> None:
    with told:
        told.begin(2)
        told.advance("first [a]", 5, 10)
        told.finish("first [a]", 1.25, False)
        told.finish("second", 0.0, True)


def test_a_log_gets_one_line_a_finished_part():
    file = io.StringIO()
    go_through(Lines(Console(file=file)))
    assert file.getvalue() == "[1/2] first [a] (1.2 s)\n[2/2] second (resumed)\n"


def test_a_bar_moves_with_the_rounds_inside_a_part():
    bar = Bar(Console(file=io.StringIO(), force_terminal=True))
    with bar:
        bar.begin(2)
        bar.advance("first", 5, 10)
        assert bar.completed == 0.5
        bar.finish("first", 1.0, False)
        bar.advance("second", 1, 4)
        assert bar.completed == 1.25


def test_a_terminal_gets_a_bar_and_anything_else_gets_lines():
    assert isinstance(reporter(Console(file=io.StringIO(), force_terminal=True)), Bar)
    assert isinstance(reporter(Console(file=io.StringIO())), Lines)


def test_silence_is_a_reporter_too():
    go_through(Silent())
