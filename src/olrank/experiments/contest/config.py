"""One TOML file in, a checked `Contest` out.

name = "best"
[[data]]                    # as [data] of a run, with a name; two or more
name = "MQ2008"
path = "${OLRANK_DATA}/MQ2008"
[search]                    # on the train part, judged on the validation part
users = ["perfect", "informational"]
stop = ["clicked", "examined"]
rounds = 5000
seeds = 2                   # others than the evaluated ones, unless they are listed
folds = 2                   # the first two of each set, or a list: one number a set
# replicas_at_once = 512    # lines of one task; a task has ten minutes on some machines
[evaluate]                  # on the test part, with what was chosen
rounds = 5000
seeds = 30
# one_fold_a_seed = true    # seeds take turns among the folds; else each meets every fold
[[robust]]                  # the same under other conditions
name = "taste-changes"
users = ["informational"]
taste_changes_after = 2500
folds = 2                   # the first two of each set; all unless given
[[baseline]]                # to beat; lists are grids, tuned for each set, user and stop rule
name = "pdgd-linear"
settings = { learning_rate = [0.1, 0.01] }
# not_on = ["yahoo-shape"]  # sets that it does not run on
[[candidate]]               # designs and grids that one setting is chosen from, for all sets
name = "olranknet"
settings = { pull = [1.0, 10.0] }
[[reference]]               # shown beside; tuned like a baseline where it has a grid
name = "skyline"

A later contest may have other candidates and ask the rest as an earlier one did, whose rivals' rows
are then taken over (see earlier.py):

name = "second"
rivals_of = "../best/contest.toml"   # from where this file is
final = false               # show on each set only what was chosen without it
robust_folds = 1            # of the folds that rivals ran on under other conditions, the first
[[candidate]]
name = "olranknet"
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from olrank.errors import ConfigError
from olrank.experiments.reports.verdicts import BEST, LEFT_OUT
from olrank.experiments.running.config import (
    Count,
    DataConfig,
    MeasuredConfig,
    RankerConfig,
    Slug,
    StageConfig,
    check_data,
    check_ranker,
    check_users,
    differ,
)
from olrank.experiments.running.toml import Section, as_list, numbered, parse, read_text, tables

_SEARCH = 1000  # nobody evaluates so many seeds


class ContestData(DataConfig):
    """A data set with the name that rows call it by."""

    name: Slug


class SearchConfig(StageConfig):
    """The search for settings."""

    folds: Count | list[Count] = 2

    @property
    def seed_list(self) -> list[int]:
        """Apart from the seeds that are evaluated, unless they are listed."""
        seeds = super().seed_list
        return [_SEARCH + seed for seed in seeds] if isinstance(self.seeds, int) else seeds


class EvaluateConfig(MeasuredConfig):
    """The evaluation of what was chosen."""

    one_fold_a_seed: bool = False


class RobustConfig(StageConfig):
    """A condition that nobody was tuned for."""

    name: Slug
    one_fold_a_seed: bool = False
    taste_changes_after: Count | None = None
    folds: Count | None = None


class RivalConfig(RankerConfig):
    """A ranker that runs in the contest, on all sets but some."""

    not_on: list[Slug] = []


Rankers = Annotated[list[RankerConfig], BeforeValidator(as_list)]
Rivals = Annotated[list[RivalConfig], BeforeValidator(as_list)]


class Contest(Section):
    """A whole contest."""

    name: Slug
    rivals_of: str | None = None
    final: bool = True
    robust_folds: Count | None = None
    data: Annotated[list[ContestData], Field(min_length=2)]
    search: SearchConfig = SearchConfig()
    evaluate: EvaluateConfig = EvaluateConfig()
    robust: list[RobustConfig] = []
    baseline: Annotated[Rivals, Field(min_length=1)]
    candidate: Annotated[Rankers, Field(min_length=1)]
    reference: Rivals = []

    @property
    def cells(self) -> list[tuple[str, str]]:
        """(user, stop rule) that settings are tuned for."""
        return [(user, stop) for user in self.search.users for stop in self.search.stop]

    def n_folds(self, index: int) -> int:
        """How many folds of a set are searched on."""
        folds = self.search.folds
        return folds if isinstance(folds, int) else folds[index]

    @model_validator(mode="after")
    def _fits_together(self) -> Contest:
        rankers = differ([*self.baseline, *self.candidate, *self.reference])
        for ranker in rankers:
            if ranker.title in (BEST, LEFT_OUT):
                raise ValueError(f'"{ranker.title}" is what the winner is called. Use another.')
        known = {data.name for data in self.data}
        for rival in (*self.baseline, *self.reference):
            if unknown := set(rival.not_on) - known:
                raise ValueError(
                    f"{rival.title}: not_on has {', '.join(sorted(unknown))}, which is no data set."
                )
        for kind, names in (
            ("data sets", [data.name for data in self.data]),
            ("robust conditions", [one.name for one in self.robust]),
        ):
            if len(set(names)) < len(names):
                raise ValueError(f"two {kind} are called the same: {', '.join(names)}.")
        for what in ("users", "stop"):
            unknown = set(getattr(self.evaluate, what)) - set(getattr(self.search, what))
            if unknown:
                raise ValueError(
                    f"[evaluate] {what} has {', '.join(sorted(unknown))}, which [search] has not: "
                    "nothing would be tuned for it."
                )
        if isinstance(self.search.folds, list) and len(self.search.folds) != len(self.data):
            raise ValueError(
                f"[search] folds: one number for each of the {len(self.data)} sets, or one for all."
            )
        return self


def read_contest(path: Path) -> Contest:
    """The contest in this TOML file."""
    text = read_text(path)
    said = tables(text, path.name)
    first = said.get("rivals_of")
    if first is None:
        return parse_contest(text, path.name)
    if again := sorted(set(said) - {"name", "rivals_of", "final", "robust_folds", "candidate"}):
        raise ConfigError(
            f"{path.name}: {', '.join(again)}: asked as in {first}, whose rivals stand for those "
            "of this contest. Leave it out, or leave rivals_of out and say everything."
        )
    there = path.parent / str(first)
    return parse_contest(text, path.name, tables(read_text(there), there.name))


def rivals_folder(contest: Contest, path: Path) -> Path | None:
    """Where the rows of rivals lie that have run before, for a contest in this file."""
    return None if contest.rivals_of is None else (path.parent / contest.rivals_of).parent


def parse_contest(
    text: str, source: str = "contest.toml", unless_said: Mapping[str, Any] | None = None
) -> Contest:
    """The contest written in this text.

    Args:
        text: TOML.
        source: what errors call it.
        unless_said: tables of the contest that it takes rivals from.
    """
    contest = parse(Contest, text, source, unless_said)
    for i, data in enumerate(contest.data):
        check_data(data, f"{source}, [data{numbered(i, len(contest.data))}]")
    check_users(contest.search, f"{source}, [search]")
    for i, robust in enumerate(contest.robust):
        check_users(robust, f"{source}, [robust{numbered(i, len(contest.robust))}]")
    for kind in ("baseline", "candidate", "reference"):
        rankers = getattr(contest, kind)
        for i, ranker in enumerate(rankers):
            check_ranker(ranker, f"{source}, [{kind}{numbered(i, len(rankers))}]")
    return contest
