"""What can be wrong with a line of data, said so that a person can act on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from olrank.errors import DataError

_SKIP_HINT = 'pass --bad-lines=skip (bad_lines="skip" in Python) to leave such lines out.'
_MAX_SHOWN = 60  # characters of a bad line that an error shows
_MAX_EXAMPLES = 5


@dataclass(frozen=True)
class Problem:
    """One bad line.

    Attributes:
        line: its number in the file, from 1.
        reason: a few words, the same for all lines with this fault, which are counted by it.
        what: what is wrong with this line.
        hint: what to do about it, as the start of a sentence.
    """

    line: int
    reason: str
    what: str
    hint: str

    def error(self, path: object) -> DataError:
        """The error that stops reading at this line."""
        return DataError(f"{path}, line {self.line}: {self.what}\n  {self.hint}, or {_SKIP_HINT}")


@dataclass
class SkippedLines:
    """What `bad_lines="skip"` left out.

    Attributes:
        by_reason: the number of lines left out for each reason.
        examples: the first few of them, as "FILE, line N: what is wrong".
    """

    by_reason: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    @property
    def n_lines(self) -> int:
        """The number of lines left out."""
        return sum(self.by_reason.values())

    def add(self, path: object, problem: Problem, n_lines: int = 1) -> None:
        """Count lines that were left out for one problem."""
        self.by_reason[problem.reason] += n_lines
        if len(self.examples) < _MAX_EXAMPLES:
            self.examples.append(f"{path}, line {problem.line}: {problem.what}")

    def lines(self) -> list[str]:
        """The report, one line of text each; empty when nothing was left out."""
        if not self.n_lines:
            return []
        counts = [f"  {count} x {reason}" for reason, count in self.by_reason.most_common()]
        return [f"left out {self.n_lines} bad lines:", *counts, "first of them:"] + [
            f"  {example}" for example in self.examples
        ]

    def to_json(self) -> dict[str, Any]:
        """As plain data, for the cache."""
        return {"by_reason": dict(self.by_reason), "examples": list(self.examples)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SkippedLines:
        """From what `to_json` gave."""
        reasons: Mapping[str, int] = data["by_reason"]
        examples: Sequence[str] = data["examples"]
        return cls(Counter(reasons), list(examples))


def shown(text: bytes | str) -> str:
    """A piece of a file in quotes, shortened, with bytes that are no text made visible."""
    string = text if isinstance(text, str) else text.decode("utf-8", "backslashreplace")
    string = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in string.strip())
    return f'"{string}"' if len(string) <= _MAX_SHOWN else f'"{string[:_MAX_SHOWN]}..."'
