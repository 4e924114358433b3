"""The paper's section 5 as data: rankers, grids, users, rounds; and its smallest form.

Where the paper says nothing: epsilon-greedy has olRankNet's grid without alpha; the skyline has
rates around what its weights need, as grades carry no noise; the search for settings may use fewer
seeds than the runs that are reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from olrank.errors import ConfigError

_POWERS = [1e-1, 1e-2, 1e-3, 1e-4]
_RATES = [1e-1, 1e-2, 1e-3]
_RATE_ONLY = {"learning_rate": _RATES}

GRIDS: dict[str, dict[str, Any]] = {
    "olranknet": {"lambda": _POWERS, "alpha": _POWERS, "learning_rate": _RATES},
    "ollambdarank": {"lambda": _POWERS, "alpha": _POWERS, "learning_rate": _RATES},
    "pairrank": {"lambda": _POWERS, "alpha": _POWERS},
    "epsilon-greedy": {"lambda": _POWERS, "learning_rate": _RATES},
    "dbgd-linear": _RATE_ONLY,
    "dbgd-neural": _RATE_ONLY,
    "pdgd-linear": _RATE_ONLY,
    "pdgd-neural": _RATE_ONLY,
    "skyline": {"learning_rate": [1.0, 1e-1, 1e-2]},
}
"""What is searched, by ranker: the ranges of Section 5.1."""

LONGER = ("pdgd-linear", "pdgd-neural")
"""Rankers that also run four times as long: the paper compares with PDGD after 20,000 rounds."""


class MadeUp(NamedTuple):
    """A made-up data set: a synthetic preset, its queries in each part, and what differs.

    Attributes:
        preset: a name of `olrank.data.synthetic.PRESETS`.
        queries: to learn on, to choose on, to report on.
        name: what rows call it.
        changes: further arguments of `synthetic`.
    """

    preset: str
    queries: tuple[int, int, int]
    name: str
    changes: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Protocol:
    """How the rankers are compared.

    Attributes:
        grids: by ranker, the settings to choose from.
        users: who click.
        stops: both stop rules: the paper's and the released code's.
        rounds: T.
        seeds: how many.
        search_seeds: with which the settings are searched, others than the reported ones; None
            searches with the reported ones, in one go.
        search_rounds: of the search; as many as the runs when None.
        folds: at most so many of a set; all when None.
        longer: times T for the rankers in `LONGER`; 0 leaves them out.
        k: slots shown, and the cut-off of NDCG.
        gamma: discount of online NDCG.
        shapes: made-up data to fall back on.
        theory_rounds: of the runs that hold widths against a known h.
        theory_seeds: of the same.
        theory_width: of their networks; with a full A the cost grows with its square.
        kinds: of widths that are held against h, by name in `known_h.KINDS`.
        gap_rankers: whose regret is measured on data with a gap.
    """

    grids: Mapping[str, Mapping[str, Any]]
    users: tuple[str, ...] = ("perfect", "navigational", "informational")
    stops: tuple[str, ...] = ("clicked", "examined")
    rounds: int = 5000
    seeds: int = 10
    search_seeds: int | None = 2
    search_rounds: int | None = None
    folds: int | None = None
    longer: int = 4
    k: int = 10
    gamma: float = 0.9995
    shapes: tuple[MadeUp, ...] = (
        MadeUp("web10k", (300, 100, 100), "web10k shape"),
        MadeUp("yahoo", (600, 200, 200), "yahoo shape"),
    )
    theory_rounds: int = 2000
    theory_seeds: int = 5
    theory_width: int = 50
    kinds: tuple[str, ...] = ("lemma full", "constant full", "constant diagonal", "wide diagonal")
    gap_rankers: tuple[str, ...] = ("olranknet", "pairrank", "pdgd-linear")

    @property
    def seed_list(self) -> tuple[int, ...]:
        """The seeds that are reported."""
        return tuple(range(self.seeds))

    @property
    def search_list(self) -> tuple[int, ...]:
        """The seeds of the search, apart from the reported ones."""
        return tuple(range(_SEARCH, _SEARCH + (self.search_seeds or 0)))

    def only(self, rankers: tuple[str, ...]) -> Protocol:
        """The same for these rankers alone."""
        return replace(self, grids={name: self.grids[name] for name in rankers})

    def changed(self, **given: Any) -> Protocol:
        """The same with some numbers changed; those that are None stay."""
        for name, value in given.items():
            if isinstance(value, int) and value < 1:
                raise ConfigError(f"--{name.replace('_', '-')}: must be at least 1, not {value}.")
        if given.get("search_seeds") and self.search_seeds is None:
            raise ConfigError("--search-seeds: the quick form searches with the seeds it reports.")
        return replace(self, **{name: value for name, value in given.items() if value is not None})


_SEARCH = 1000  # nobody reports so many seeds

PAPER = Protocol(GRIDS)

_TINY = {"mean_docs": 12, "max_docs": 16}  # one size of query is one program to compile

QUICK = Protocol(
    # One small search, to show that there is one; the others keep the settings of their presets.
    grids={name: {"learning_rate": _RATES[1:]} if name == "olranknet" else {} for name in GRIDS},
    rounds=150,
    seeds=2,
    search_seeds=None,
    folds=1,
    shapes=(
        MadeUp("small", (60, 20, 40), "small", _TINY),
        MadeUp("small", (60, 20, 40), "small linear", {**_TINY, "relevance": "linear"}),
    ),
    theory_rounds=150,
    theory_seeds=2,
    theory_width=20,
    kinds=("lemma full", "constant diagonal", "wide diagonal"),
    gap_rankers=("olranknet", "pdgd-linear"),
)
"""Everything at its smallest: shows that it runs and what comes out, and proves nothing."""
