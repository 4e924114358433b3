"""Every ranker, each in its own file, and the table that lists them.

`names()` lists the table, `entry(name)` describes one ranker, `make(name, settings)` builds it.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    if name in ("names", "entry", "make", "Made"):
        from olrank.rankers import table

        return getattr(table, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
