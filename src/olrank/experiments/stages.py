"""The stages of the reproduction as jobs: search the settings, run the chosen ones, run longer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

import polars as pl

from olrank.engine import bare
from olrank.engine.measure import Line, Options
from olrank.experiments import parts as kept
from olrank.experiments import results
from olrank.experiments.jobs import Job
from olrank.experiments.progress import Load
from olrank.experiments.protocol import LONGER, Protocol
from olrank.experiments.simulate import grid, simulate_lines
from olrank.types import Fold

_WIDE_ENOUGH = 8  # replicas that make a step worth its overhead on a processor

Chosen = Mapping[tuple[str, str, str, str, str], str]
"""(ranker, dataset, fold, user, stop) -> label of the settings."""


class Place(NamedTuple):
    """A fold of a data set, and the kind of device that it is run on."""

    fold: Fold
    device: str

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


def choose(judged: pl.DataFrame) -> Chosen:
    """The settings that are best on the validation part: last round, mean over seeds.

    A choice is made for each ranker, data set, fold, user and stop rule; of equals the first wins,
    and a run that came to nothing (NaN) never does.
    """
    where = ["ranker", "dataset", "fold", "user", "stop"]
    found = judged.filter(pl.col("metric").str.starts_with("validation_"))
    last = found.filter(pl.col("round") == pl.col("round").max().over("ranker"))
    means = last.group_by(*where, "settings", maintain_order=True).agg(
        pl.col("value").fill_nan(float("-inf")).mean()
    )
    best = means.sort("value", descending=True, maintain_order=True).unique(
        where, keep="first", maintain_order=True
    )
    return {tuple(line[:5]): line[5] for line in best.select(*where, "settings").rows()}


def keep_chosen(rows: pl.DataFrame, chosen: Chosen) -> pl.DataFrame:
    """The rows of the chosen settings; all rows of a ranker that had one setting only."""
    where = ["ranker", "dataset", "fold", "user", "stop"]
    lines = [(*key, label) for key, label in chosen.items()]
    wanted = pl.DataFrame(lines, {name: pl.String for name in (*where, "settings")}, orient="row")
    alone = rows.join(wanted, on=where, how="anti", maintain_order="left")
    among = rows.join(wanted, on=[*where, "settings"], how="semi", maintain_order="left")
    return as_met(pl.concat([among, alone]), rows)


def as_met(found: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """What was found, with its rankers in the order of the rows."""
    order = {name: i for i, name in enumerate(rows["ranker"].unique(maintain_order=True))}
    place = pl.col("ranker").replace_strict(order, return_dtype=pl.Int64)
    return found.sort(place, maintain_order=True)


def _every_line(protocol: Protocol, name: str) -> list[Line]:
    points = grid(protocol.grids[name])
    return [
        Line(settings, user, stop, label)
        for (settings, label), user, stop in product(points, protocol.users, protocol.stops)
    ]


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
        held_out[results.validation_metric(k)] = fold.validation
    options = Options(
        rounds=rounds,
        seeds=seeds,
        k=k,
        gamma=protocol.gamma,
        fold=fold.name,
        evaluate_after=(rounds,) if only_last else None,
    )
    task = bare.Task(name, fold.train, held_out, lines, options)
    told = f"seed {seeds[0]}" + (f" to {seeds[-1]}" if len(seeds) > 1 else "")
    return Job(
        title=f"{place.dataset}, {stage}: {name}, fold {fold.name}, {told}",
        load=Load(len(lines) * len(seeds), rounds),
        determined_by={
            "ranker": name,
            "lines": [line._asdict() for line in lines],
            "options": vars(options),
            "held_out": list(held_out),
            "data": kept.checksums(fold),
            "normalise": fold.train.normalise,
            "device": place.device,
        },
        work=lambda progress: simulate_lines(*task, progress),
        task=task,
    )
