"""How far a run is: a bar on a terminal, one line a finished part elsewhere, or nothing.

A round counts once for each replica that plays it, by the time it is expected to take beside the
rounds of other parts, so that what is done says how much time is left. Parts that an earlier run
had left take no time and count for no speed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import NamedTuple, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


class Load(NamedTuple):
    """How much work a part is.

    Attributes:
        n_replicas: that play side by side.
        rounds: that each of them plays.
        round_s: what one round of one replica is expected to take. Only its ratio to that of other
            parts counts; 0 where the part takes no time here.
    """

    n_replicas: int
    rounds: int
    round_s: float = 1.0


class Tally:
    """Counts the rounds of all replicas of all parts."""

    def __init__(
        self, parts: Mapping[str, Load], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Count from now on, for these parts by title."""
        self.parts = dict(parts)
        self.n_finished = 0
        self._clock = clock
        self._began_s = clock()
        self._done: dict[str, int] = {}
        self._found: set[str] = set()
        self._running: dict[str, None] = {}

    def advance(self, part: str, rounds_done: int) -> None:
        """A part has done so many of its rounds."""
        self._running[part] = None
        self._done[part] = rounds_done * self.parts[part].n_replicas

    def finish(self, part: str, resumed: bool) -> None:
        """A part is done, or was found done."""
        self.advance(part, self.parts[part].rounds)
        del self._running[part]
        self.n_finished += 1
        if resumed:
            self._found.add(part)

    def lose(self, part: str) -> None:
        """What was done of a part is lost."""
        self._done.pop(part, None)
        self._running.pop(part, None)

    @property
    def running(self) -> list[str]:
        """The parts that are under way."""
        return list(self._running)

    @property
    def n_replicas(self) -> int:
        """Replicas that are under way."""
        return sum(self.parts[part].n_replicas for part in self._running)

    @property
    def total(self) -> float:
        """What all parts are expected to take."""
        return sum(load.n_replicas * load.rounds * load.round_s for load in self.parts.values())

    @property
    def done(self) -> float:
        """What the rounds done so far were expected to take, found ones included."""
        return sum(n * self.parts[part].round_s for part, n in self._done.items())

    @property
    def per_s(self) -> float:
        """Rounds done in a second, by this run alone; 0 before the first."""
        return sum(self._fresh.values()) / self._elapsed_s

    @property
    def left_s(self) -> float | None:
        """Seconds left at the speed so far; None while nobody can tell."""
        fresh = sum(n * self.parts[part].round_s for part, n in self._fresh.items())
        return (self.total - self.done) * self._elapsed_s / fresh if fresh > 0 else None

    @property
    def _fresh(self) -> dict[str, int]:
        return {part: n for part, n in self._done.items() if part not in self._found}

    @property
    def _elapsed_s(self) -> float:
        return max(self._clock() - self._began_s, 1e-9)


class Silent:
    """Hears of a run's parts, and says nothing; the reporters that speak begin here."""

    def __enter__(self) -> Self:
        """Begin to report."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop reporting, also after a failure."""

    def begin(self, parts: Mapping[str, Load]) -> None:
        """These parts are coming, by title."""

    def advance(self, part: str, done: int, total: int) -> None:
        """This part has done so many of its rounds."""

    def finish(self, part: str, seconds: float, resumed: bool) -> None:
        """This part is done, or was found done."""

    def lose(self, part: str) -> None:
        """This part's worker was lost; the part will be run again."""


Reporter = Silent
"""Any of the reporters here."""


class _Counting(Silent):
    """A reporter that keeps a tally."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        """Reports go to this console."""
        self._console = console
        self._clock = clock
        self.tally = Tally({}, clock)

    def begin(self, parts: Mapping[str, Load]) -> None:
        """These parts are coming, by title."""
        self.tally = Tally(parts, self._clock)

    def advance(self, part: str, done: int, total: int) -> None:
        """This part has done so many of its rounds."""
        self.tally.advance(part, done)

    def finish(self, part: str, seconds: float, resumed: bool) -> None:
        """This part is done, or was found done."""
        self.tally.finish(part, resumed)

    def lose(self, part: str) -> None:
        """Say that the part is run again."""
        self.tally.lose(part)
        self._say(f"{part}: its worker was lost; it is run again")

    def _say(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class Lines(_Counting):
    """One line a finished part, for logs and pipes."""

    def finish(self, part: str, seconds: float, resumed: bool) -> None:
        """Print the part, the time that it took, its speed and the time that is left."""
        super().finish(part, seconds, resumed)
        load, tally = self.tally.parts[part], self.tally
        words = [_counted(load.n_replicas, "replica")]
        if resumed:
            words.append("resumed")
        else:
            per_s = load.n_replicas * load.rounds / max(seconds, 1e-9)
            words.append(f"{seconds:.1f} s")
            if load.rounds > 1:
                words.append(f"{per_s:,.0f} rounds/s")
        if tally.n_finished < len(tally.parts) and tally.left_s is not None:
            words.append(f"about {_clock_time(tally.left_s)} left")
        self._say(f"[{tally.n_finished}/{len(tally.parts)}] {part} ({', '.join(words)})")


class Bar(_Counting):
    """One bar over all parts, which moves with the rounds inside them."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        """The bar is drawn on this console, and goes away when the run ends."""
        super().__init__(console, clock)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[speed]}", markup=False),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task("starting", total=None, speed="")

    def __enter__(self) -> Self:
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

    def advance(self, part: str, done: int, total: int) -> None:
        """Move the bar by the rounds that are done."""
        super().advance(part, done, total)
        self._redraw()

    def finish(self, part: str, seconds: float, resumed: bool) -> None:
        """Move the bar to the end of this part."""
        super().finish(part, seconds, resumed)
        self._redraw()

    def lose(self, part: str) -> None:
        """Say that the part is run again, and move the bar back."""
        super().lose(part)
        self._redraw()

    def _redraw(self) -> None:
        tally, running = self.tally, self.tally.running
        what = running[0] if len(running) == 1 else _counted(len(running), "part")
        words = [_counted(tally.n_replicas, "replica")]
        if tally.per_s > 0:
            words.append(f"{tally.per_s:,.0f} rounds/s")
        if tally.left_s is not None:
            words.append(f"{_clock_time(tally.left_s)} left")
        self._bar.update(
            self._task,
            completed=tally.done,
            total=tally.total,
            description=what if running else "finishing",
            speed=", ".join(words) if running else "",
        )


def _counted(n: int, what: str) -> str:
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def _clock_time(seconds: float) -> str:
    """Seconds for people: "40 s", "12 min", "3 h 05 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return in_minutes(round(whole / 60))


def in_minutes(minutes: int) -> str:
    """Minutes for people: "12 min", "3 h 05 min"."""
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def reporter(console: Console) -> Reporter:
    """A bar where someone watches, lines where a log is written."""
    return Bar(console) if console.is_terminal else Lines(console)
