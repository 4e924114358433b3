"""Who runs in each stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from olrank.experiments.contest.config import Contest, RobustConfig
from olrank.experiments.contest.tasks import Entrant
from olrank.experiments.reports.verdicts import BEST, LEFT_OUT
from olrank.experiments.running.config import RankerConfig
from olrank.experiments.running.simulate import grid

# Nobody was tuned for these users: who clicks most like them.
_LIKE = {
    "position-based": "perfect",  # its clicks, fewer of them
    "near-random": "informational",  # the noisiest
    "random": "informational",
}
_FLIPPED = "-flipped"


def searched(contest: Contest, dataset: str) -> list[Entrant]:
    """Every point of every grid; references only where there is something to choose."""
    found = []
    for role in ("baseline", "candidate", "reference"):
        for ranker in _on(dataset, getattr(contest, role)):
            if role == "reference" and not has_choice(ranker):
                continue
            points = grid(ranker.all_settings())
            for (settings, label), (user, stop) in product(points, contest.cells):
                found.append(Entrant(role, ranker.title, ranker.name, settings, label, user, stop))
    return found


def has_choice(ranker: RankerConfig) -> bool:
    """Whether there is more than one setting of a ranker."""
    return len(grid(ranker.all_settings())) > 1


def evaluated(contest: Contest, chosen: Mapping[str, Any], dataset: str) -> list[Entrant]:
    """The contest on one data set: tuned baselines, references, and the winners."""
    return [
        one
        for user, stop in product(contest.evaluate.users, contest.evaluate.stop)
        for one in _field(contest, chosen, dataset, user, stop, (user, stop), "")
    ]


def under(
    contest: Contest, robust: RobustConfig, chosen: Mapping[str, Any], dataset: str
) -> list[Entrant]:
    """The same under another condition, tuned in the nearest cell; references stay away."""
    return [
        one
        for user, stop in product(robust.users, robust.stop)
        for one in _field(
            contest, chosen, dataset, user, stop, nearest(contest, user, stop), robust.name
        )
        if one.role != "reference"
    ]


def nearest(contest: Contest, user: str, stop: str) -> tuple[str, str]:
    """The tuned cell that is most like this one.

    A user who was tuned for is its own; one with flipped clicks is the one it flips; a
    position-based user is most like the perfect one and a random one like the informational. Where
    that is not among the searched ones it is the last of them, and the first stop rule.
    """
    users, stops = contest.search.users, contest.search.stop
    like = _LIKE.get(user.removesuffix(_FLIPPED), user.removesuffix(_FLIPPED))
    return like if like in users else users[-1], stop if stop in stops else stops[0]


def _field(
    contest: Contest,
    chosen: Mapping[str, Any],
    dataset: str,
    user: str,
    stop: str,
    tuned_at: tuple[str, str],
    condition: str,
) -> Iterator[Entrant]:
    for role, ranker in _to_show(contest, dataset):
        settings, label = _settings(ranker, chosen["tuned"], dataset, tuned_at)
        yield Entrant(role, ranker.title, ranker.name, settings, label, user, stop, condition)
    winners = {LEFT_OUT: chosen["left_out"][dataset]}
    if contest.final:
        winners[BEST] = chosen["final"]
    for title, winner in winners.items():
        label = f"{winner['ranker']} {winner['label']}".strip()
        yield Entrant(
            "best", title, winner["name"], winner["settings"], label, user, stop, condition
        )


def _to_show(contest: Contest, dataset: str) -> list[tuple[str, RankerConfig]]:
    return [
        *(("baseline", ranker) for ranker in _on(dataset, contest.baseline)),
        *(("reference", ranker) for ranker in _on(dataset, contest.reference)),
    ]


def _on(dataset: str, rankers: Sequence[RankerConfig]) -> list[RankerConfig]:
    """Those that run on a data set."""
    return [ranker for ranker in rankers if dataset not in getattr(ranker, "not_on", ())]


def _settings(
    ranker: RankerConfig,
    tuned: Sequence[Mapping[str, Any]],
    dataset: str,
    tuned_at: tuple[str, str],
) -> tuple[dict[str, Any], str]:
    """As tuned there; its only ones where there was nothing to tune."""
    for line in tuned:
        at = (line["dataset"], line["user"], line["stop"])
        if line["ranker"] == ranker.title and at == (dataset, *tuned_at):
            return line["settings"], line["label"]
    (settings, label), *_ = grid(ranker.all_settings())
    return settings, label
