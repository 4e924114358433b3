"""Tables of Markdown, and numbers as they stand in them."""

from __future__ import annotations

import math
from collections.abc import Iterable


def table_head(*cells: object) -> list[str]:
    """The two lines that a table begins with."""
    return [table_line(cells), "|---" * len(cells) + "|"]


def table_line(cells: Iterable[object]) -> str:
    """One line of a table."""
    return "| " + " | ".join(map(str, cells)) + " |"


def short(value: float | None, digits: int) -> str:
    """A number without the zero before its point, as rankings' numbers are printed: ".412"."""
    if value is None or math.isnan(value):
        return "-"
    text = f"{value:.{digits}f}"
    return text[1:] if text.startswith("0.") else text
