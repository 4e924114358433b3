"""Small pieces of Markdown that tables share."""

from __future__ import annotations


def row(*cells: str) -> str:
    """A line of a table."""
    return "| " + " | ".join(cells) + " |"


def head(*cells: str) -> list[str]:
    """The first two lines of a table."""
    return [row(*cells), "|---" * len(cells) + "|"]


def short(value: float, digits: int = 3) -> str:
    """A number without the zero before its point, as rankings' numbers are printed: ".412"."""
    text = f"{value:.{digits}f}"
    return text[1:] if text.startswith("0.") else text
