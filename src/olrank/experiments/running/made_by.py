"""What rows are made by: packages' versions, and a checksum of the code that can move a number.

What draws and writes may change while a long run waits, and so may another ranker.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path

from olrank.experiments.running.code import checksum, reached
from olrank.experiments.running.machine import versions
from olrank.rankers import table

_MOVES_ROWS = (
    "types.py",
    "data",
    "nets",
    "explore",
    "feedback",
    "rankers",
    "users",
    "metrics",
    "engine",
    "experiments/running/simulate.py",
    "experiments/running/lambdamart.py",
    "experiments/paper/theory.py",
    "experiments/paper/gap.py",
    "experiments/paper/separation.py",
)
_OF_A_TASK = ("experiments/running/simulate.py", "experiments/contest/tasks.py")


@cache
def made_by(ranker: str | None = None, *also: str) -> dict[str, str]:
    """Versions of the packages that can move a number, and a checksum of our code that can.

    Args:
        ranker: whose simulation it is: the code that it reaches counts. All that moves any rows
            when None.
        also: further files of the package that a simulation's rows go through.
    """
    root = Path(str(resources.files("olrank")))
    if ranker is None:
        code = checksum(root, [file for place in _MOVES_ROWS for file in _files(root / place)])
    else:
        starts = ["olrank.engine.bare", table.entry(ranker).factory.__module__]
        found = reached(root, starts) | {root / place for place in (*_OF_A_TASK, *also)}
        # The table only names rankers; adding one moves no other.
        code = checksum(root, found - {root / "rankers" / "table.py"})
    packages = {name: told for name, told in versions().items() if name != "olrank_code"}
    return {**packages, "code": code}


def _files(place: Path) -> list[Path]:
    return sorted(place.rglob("*.py")) if place.is_dir() else [place]
