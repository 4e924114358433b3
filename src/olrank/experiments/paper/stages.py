"""The stages of the reproduction as jobs: search the settings, run the chosen ones, run longer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from olrank.engine import bare
from olrank.engine.measure import Line, Options
from olrank.experiments.paper.protocol import LONGER, Protocol
from olrank.experiments.rows.choice import Chosen, validation_metric
from olrank.experiments.running.jobs import Job, simulation
from olrank.experiments.running.simulate import every_line, grid
from olrank.types import Fold

_WIDE_ENOUGH = 8  # replicas that make a step worth its overhead on a processor


class Place(NamedTuple):
    """A fold of a data set, the kind of device that it is run on, and sizes to pad queries to."""

    fold: Fold
    device: str
    sizes: tuple[int, ...] | None = None

    @property
    def dataset(self) -> str:
        """The data set's name."""
        return self.fold.train.name


def search_jobs(protocol: Protocol, places: Sequence[Place]) -> list[Job]:
    """All settings of every grid, judged on the validation part after the last round."""
    if protocol.search_seeds is None:
        return []
    rounds = protocol.search_rounds or protocol.rounds
    return [
        _job("search", protocol, place, name, lines, seeds, rounds, only_last=True)
        for place, name in product(places, protocol.grids)
        if len(grid(protocol.grids[name])) > 1
        for lines in [_every_line(protocol, name)]
        for seeds in _groups(protocol.search_list, len(lines), place.device)
    ]


def final_jobs(protocol: Protocol, places: Sequence[Place], chosen: Chosen | None) -> list[Job]:
    """The chosen settings with the reported seeds; the whole grid where the search is the run.

    `chosen` may be None to ask for titles and loads only.
    """
    jobs = []
    for place, name in product(places, protocol.grids):
        lines = _lines(protocol, place, name, chosen)
        for seeds in _groups(protocol.seed_list, len(lines), place.device):
            jobs.append(_job("run", protocol, place, name, lines, seeds, protocol.rounds))
    return jobs


def longer_jobs(protocol: Protocol, places: Sequence[Place], chosen: Chosen | None) -> list[Job]:
    """The chosen settings of PDGD, for as many times the rounds as the protocol says."""
    if not protocol.longer:
        return []
    jobs = []
    for place, name in product(places, [name for name in LONGER if name in protocol.grids]):
        lines = _chosen_lines(protocol, place, name, chosen)
        for seeds in _groups(protocol.seed_list, len(lines), place.device):
            rounds = protocol.longer * protocol.rounds
            jobs.append(_job("longer", protocol, place, name, lines, seeds, rounds))
    return jobs


def _every_line(protocol: Protocol, name: str) -> list[Line]:
    return every_line(protocol.grids[name], protocol.users, protocol.stops)


def _lines(protocol: Protocol, place: Place, name: str, chosen: Chosen | None) -> list[Line]:
    if protocol.search_seeds is None:
        return _every_line(protocol, name)
    return _chosen_lines(protocol, place, name, chosen)


def _chosen_lines(protocol: Protocol, place: Place, name: str, chosen: Chosen | None) -> list[Line]:
    by_label = {label: settings for settings, label in grid(protocol.grids[name])}
    lines = []
    for user, stop in product(protocol.users, protocol.stops):
        label = next(iter(by_label))
        if chosen is not None and len(by_label) > 1:
            label = chosen[name, place.dataset, place.fold.name, user, stop]
        lines.append(Line(by_label[label], user, stop, label))
    return lines


def _groups(seeds: Sequence[int], n_lines: int, device: str) -> list[tuple[int, ...]]:
    """Seeds that run together: all on an accelerator, enough to be worth it on a processor."""
    at_once = -(-_WIDE_ENOUGH // n_lines) if device == "cpu" else len(seeds)
    return [tuple(seeds[i : i + at_once]) for i in range(0, len(seeds), at_once)]


def _job(
    stage: str,
    protocol: Protocol,
    place: Place,
    name: str,
    lines: list[Line],
    seeds: tuple[int, ...],
    rounds: int,
    only_last: bool = False,
) -> Job:
    fold, k = place.fold, protocol.k
    held_out = {} if only_last else {f"ndcg@{k}": fold.test}
    if len(grid(protocol.grids[name])) > 1:
        held_out[validation_metric(k)] = fold.validation
    options = Options(
        rounds=rounds,
        seeds=seeds,
        k=k,
        gamma=protocol.gamma,
        fold=fold.name,
        evaluate_after=(rounds,) if only_last else None,
        sizes=place.sizes,
    )
    task = bare.Task(name, fold.train, held_out, lines, options)
    told = f"seed {seeds[0]}" + (f" to {seeds[-1]}" if len(seeds) > 1 else "")
    title = f"{place.dataset}, {stage}: {name}, fold {fold.name}, {told}"
    return simulation(title, task, fold, place.device)
