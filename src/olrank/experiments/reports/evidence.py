"""How a claim is held against rows: paired comparisons, intervals, a verdict.

A claim is a list of paired comparisons over (fold, seed), one or two in every data set, user and
stop rule. A comparison holds when the interval of its difference lies above 0, fails when it lies
below, and is undecided otherwise or with fewer than five units. The intervals of a claim hold
together at 95% (Bonferroni). A claim holds when all its comparisons do, does not hold when one of
them fails, and is undecided otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import polars as pl

from olrank.experiments.rows.markdown import table_head, table_line
from olrank.figures.panels import user_order
from olrank.metrics.compare import Comparison, Floats, paired

_LEVEL = 0.95
_FEWEST = 5  # units below which a bootstrap interval does not cover what it says

VERDICTS = ("holds", "does not hold", "undecided")

_HOW = (
    "Each claim is a list of paired comparisons over (fold, seed). A comparison holds when the",
    "interval of its difference lies above 0, fails when it lies below, and is undecided otherwise",
    f"or with fewer than {_FEWEST} units; the intervals of a claim hold together at {_LEVEL:.0%}.",
    "A claim holds when all of its comparisons do, does not hold when one of them fails, and is",
    "undecided otherwise.",
)


class Cell(NamedTuple):
    """A data set, user and stop rule."""

    dataset: str
    user: str
    stop: str

    def __str__(self) -> str:
        """In words."""
        return f"{self.dataset}, {self.user}, {self.stop}"


class Test(NamedTuple):
    """One comparison behind a claim: a - b where, and how it came out."""

    where: str
    what: str
    found: Comparison
    verdict: str


class Claim(NamedTuple):
    """What the paper says, whether it holds here, and the comparisons behind that."""

    name: str
    says: str
    verdict: str
    tests: list[Test]


Units = pl.DataFrame
"""fold, seed, value."""

Sides = tuple[str, str, Units, Units]
"""(where, what, a, b): the claim says a > b."""


class Rows:
    """Rows of an experiment, and how to ask them."""

    def __init__(self, rows: pl.DataFrame, longer: pl.DataFrame | None = None) -> None:
        """Rows after T rounds, and those of PDGD after more."""
        self._rows = rows
        self._longer = longer if longer is not None else rows.clear()
        found = rows["metric"].unique().sort().to_list()
        self.ndcg = next((metric for metric in found if metric.startswith("ndcg@")), "ndcg@10")
        self.rankers: list[str] = rows["ranker"].unique(maintain_order=True).to_list()
        self.rounds: list[int] = rows["round"].unique().sort().to_list()
        self.longer_rounds: list[int] = self._longer["round"].unique().sort().to_list()
        sets: list[str] = rows["dataset"].unique(maintain_order=True).to_list()
        cells = [Cell(*line) for line in rows.select("dataset", "user", "stop").unique().rows()]
        self.cells = sorted(
            cells, key=lambda c: (sets.index(c.dataset), user_order(c.user), c.stop)
        )

    def at(self, ranker: str, cell: Cell, metric: str, at: int | None = None) -> Units:
        """A ranker's units at a round, the last when None."""
        return _units(self._rows, ranker, cell, metric, self.rounds[-1] if at is None else at)

    def longer(self, ranker: str, cell: Cell) -> Units:
        """A ranker's offline units after the most rounds there are."""
        last = self.longer_rounds[-1] if self.longer_rounds else 0
        return _units(self._longer, ranker, cell, self.ndcg, last)

    def near(self, share: float) -> int:
        """The evaluated round nearest to a share of T."""
        return min(self.rounds, key=lambda at: abs(at - share * self.rounds[-1]))

    def best(self, rankers: Sequence[str], cell: Cell, metric: str) -> str | None:
        """The ranker of the highest mean after T rounds."""
        return self._extreme(rankers, cell, metric, max)

    def worst(self, rankers: Sequence[str], cell: Cell, metric: str) -> str | None:
        """The ranker of the lowest mean after T rounds."""
        return self._extreme(rankers, cell, metric, min)

    def _extreme(
        self, rankers: Sequence[str], cell: Cell, metric: str, which: Callable[..., str]
    ) -> str | None:
        means = {name: self.at(name, cell, metric)["value"].mean() for name in rankers}
        there = {name: mean for name, mean in means.items() if mean is not None}
        return which(there, key=lambda name: there[name]) if there else None


def _units(rows: pl.DataFrame, ranker: str, cell: Cell, metric: str, at: int) -> Units:
    chosen = rows.filter(ranker=ranker, metric=metric, round=at, **cell._asdict())
    return chosen.select("fold", "seed", "value")


def judge(name: str, says: str, sides: Sequence[Sides]) -> Claim:
    """A claim with its verdict; one that lacks the rows of a comparison is undecided."""
    values = [_matched(a, b) for _, _, a, b in sides]
    n_known = sum(a.size > 0 for a, _ in values)
    level = 1 - (1 - _LEVEL) / max(n_known, 1)
    tests = []
    for (where, what, _, _), (a, b) in zip(sides, values, strict=True):
        if a.size:
            found = paired(a, b, level=level)
            tests.append(Test(where, what, found, _verdict(found)))
    said = {test.verdict for test in tests}
    overall = "undecided"
    if "does not hold" in said:
        overall = "does not hold"
    elif said == {"holds"} and n_known == len(sides):
        overall = "holds"
    return Claim(name, says, overall, tests)


def _verdict(found: Comparison) -> str:
    if found.n < _FEWEST:
        return "undecided"
    return "holds" if found.low > 0 else "does not hold" if found.high < 0 else "undecided"


def _matched(a: Units, b: Units) -> tuple[Floats, Floats]:
    """Values of both sides for the units that both have."""
    both = a.join(b, on=["fold", "seed"], suffix="_b").sort("fold", "seed")
    known = both.filter(pl.col("value").is_finite() & pl.col("value_b").is_finite())
    return known["value"].to_numpy(), known["value_b"].to_numpy()


def markdown(claims: Sequence[Claim]) -> str:
    """The verdicts as a table, and behind it the comparisons of every claim."""
    lines = table_head("claim", "verdict", "hold", "fail", "undecided")
    for claim in claims:
        counts = [sum(test.verdict == verdict for test in claim.tests) for verdict in VERDICTS]
        lines.append(table_line([claim.says, f"**{claim.verdict}**", *counts]))
    lines += ["", *_HOW]
    for claim in claims:
        lines += ["", f"## {claim.says} {claim.verdict.capitalize()}.", ""]
        if not claim.tests:
            lines.append("The rows hold nothing to compare.")
            continue
        lines += table_head("where", "difference", "mean", "interval", "p", "units", "verdict")
        lines += [_line(test) for test in claim.tests]
    return "\n".join([*lines, ""])


def _line(test: Test) -> str:
    found = test.found
    digits = 1 if "online" in test.what else 3
    span = "-" if found.n < 2 else f"{found.low:+.{digits}f} to {found.high:+.{digits}f}"
    cells = (
        test.where,
        test.what,
        f"{found.difference:+.{digits}f}",
        span,
        f"{found.p_value:.4f}",
        found.n,
        test.verdict,
    )
    return table_line(cells)
