"""How far a run is: a bar on a terminal, one line a finished part elsewhere, or nothing."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Reporter(Protocol):
    """Hears of a run's parts; a part is one ranker on one fold with one user and stop rule."""

    def __enter__(self) -> Reporter:
        """Begin to report."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop reporting, also after a failure."""

    def begin(self, n_parts: int) -> None:
        """So many parts are coming."""

    def advance(self, part: str, done: int, total: int) -> None:
        """This part has done so many of its rounds."""

    def finish(self, part: str, seconds: float, resumed: bool) -> None:
        """This part is done, or was found done."""


class Silent:
    """Says nothing."""

    def __enter__(self) -> Silent:
        """Begin to report."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop reporting."""

    def begin(self, n_parts: int) -> None:
        """So many parts are coming."""

    def advance(self, part: str, done: int, total: int) -> None:
        """This part has done so many of its rounds."""

    def finish(self, part: str, seconds: float, resumed: bool) -> None:
        """This part is done, or was found done."""


class Lines(Silent):
    """One line a finished part, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        """Lines go to this console."""
        self._console = console
        self._n_parts = self._n_done = 0

    def begin(self, n_parts: int) -> None:
        """So many parts are coming."""
        self._n_parts = n_parts

    def finish(self, part: str, seconds: float, resumed: bool) -> None:
        """Print the part and the time that it took."""
        self._n_done += 1
        took = "resumed" if resumed else f"{seconds:.1f} s"
        line = f"[{self._n_done}/{self._n_parts}] {part} ({took})"
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class Bar(Silent):
    """One bar over all parts, which moves with the rounds inside them."""

    def __init__(self, console: Console) -> None:
        """The bar is drawn on this console, and goes away when the run ends."""
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task("starting", total=None)
        self._n_done = 0

    def __enter__(self) -> Bar:
        """Show the bar."""
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take the bar away."""
        self._bar.stop()

    @property
    def completed(self) -> float:
        """Parts done so far, the current one by its share."""
        return self._bar.tasks[0].completed

    def begin(self, n_parts: int) -> None:
        """So many parts are coming."""
        self._bar.update(self._task, total=n_parts)

    def advance(self, part: str, done: int, total: int) -> None:
        """Move the bar by the share of this part that is done."""
        share = done / total if total else 0.0
        self._bar.update(self._task, completed=self._n_done + share, description=part)

    def finish(self, part: str, seconds: float, resumed: bool) -> None:
        """Move the bar to the end of this part."""
        self._n_done += 1
        self._bar.update(self._task, completed=self._n_done, description=part)


def reporter(console: Console) -> Reporter:
    """A bar where someone watches, lines where a log is written."""
    return Bar(console) if console.is_terminal else Lines(console)
