"""Entrants as jobs: all that one compiled step can serve is one task.

A step is compiled for each ranker, design and data shape, which takes longer than many a run; so
all settings, users and stop rules of one design on one fold go into one task. Entrants that are the
same but for their name run once, and have rows under each name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from olrank.engine import bare
from olrank.engine.measure import Curves, Line, Options, measure
from olrank.experiments.contest.arena import Arena
from olrank.experiments.running.jobs import Job
from olrank.experiments.running.progress import Load
from olrank.experiments.running.simulate import rows_of
from olrank.rankers import table


class Entrant(NamedTuple):
    """Someone with settings, before a user.

    Attributes:
        role: "baseline", "candidate", "reference" or "best".
        title: what rows call it.
        name: of the ranker, in the table.
        settings: of the ranker, each one value.
        label: what tells its settings from others of the same title.
        user: who clicks.
        stop: when the user may stop.
        condition: a robust one's name; nothing in the contest itself.
    """

    role: str
    title: str
    name: str
    settings: Mapping[str, Any]
    label: str
    user: str
    stop: str
    condition: str = ""

    @property
    def given(self) -> str:
        """The settings as text, the same for the same settings."""
        return json.dumps(dict(self.settings), sort_keys=True)

    @property
    def line(self) -> Line:
        """What is simulated; two entrants of one ranker with the same line are the same."""
        return Line(dict(self.settings), self.user, self.stop)


class Group(NamedTuple):
    """What runs together: one design on one fold.

    Attributes:
        lines: of the task; the last may be there again, to fill it.
        entrants: who they are, with the place of each among the lines.
    """

    lines: list[Line]
    entrants: list[tuple[int, Entrant]]


def make_jobs(
    stage: str,
    arena: Arena,
    entrants: Sequence[Entrant],
    options: Options,
    device: str,
    at_once: int | None = None,
) -> list[Job]:
    """All that these entrants have to run on one fold.

    Args:
        stage: the first word of every title.
        arena: where.
        entrants: in any order; rows keep it inside a job.
        options: what all of them share; the fold's name is put in.
        device: the kind that it is run on, as it can move the last bit.
        at_once: lines of a task at most; all of a design when None.
    """
    options = replace(options, fold=arena.fold, sizes=arena.sizes)
    jobs = []
    for name, members in _by_ranker(entrants).items():
        for design, same in enumerate(_by_design(name, members, options.k)):
            for i, group in enumerate(_groups(same, at_once)):
                words = f"{name} {design + 1}.{i + 1}, fold {arena.fold}"
                title = f"{stage}, {arena.dataset}: {words}"
                jobs.append(_job(title, name, arena, group, options, device))
    return jobs


def _by_ranker(entrants: Sequence[Entrant]) -> dict[str, list[Entrant]]:
    found: dict[str, list[Entrant]] = {}
    for one in entrants:
        found.setdefault(one.name, []).append(one)
    return found


def _by_design(name: str, entrants: Sequence[Entrant], k: int) -> list[list[Entrant]]:
    """Entrants that differ in numbers and users alone; the table makes a design once."""
    found: dict[int, list[Entrant]] = {}
    for one in entrants:
        made = table.make(name, {**one.settings, "k": k})
        found.setdefault(id(made.ranker.rank), []).append(one)
    return list(found.values())


def _groups(entrants: Sequence[Entrant], at_once: int | None) -> list[Group]:
    """Tasks of equal width: each other width would be compiled once more."""
    lines: dict[tuple[str, str, str], list[Entrant]] = {}
    for one in entrants:
        lines.setdefault((one.given, one.user, one.stop), []).append(one)
    same = list(lines.values())
    n_tasks = -(-len(same) // (at_once or len(same)))
    width = -(-len(same) // n_tasks)
    groups = []
    for start in range(0, len(same), width):
        part = same[start : start + width]
        asked = [ones[0].line for ones in part]
        filled = asked + [asked[-1]] * (width - len(part))
        groups.append(Group(filled, [(i, one) for i, ones in enumerate(part) for one in ones]))
    return groups


def _job(title: str, name: str, arena: Arena, group: Group, options: Options, device: str) -> Job:
    task = bare.Task(name, arena.train, {arena.metric: arena.judged}, group.lines, options)

    def rows(curves: Curves) -> pl.DataFrame:
        return _rows(task, group, curves)

    return Job(
        title=title,
        load=Load(len(group.lines) * len(options.seeds), options.rounds),
        determined_by={
            "ranker": name,
            "lines": [line._asdict() for line in group.lines],
            # Rows carry who they are of.
            "entrants": [(i, *one) for i, one in group.entrants],
            "options": vars(options),
            "data": arena.checksums,
            "normalise": arena.train.normalise,
            "device": device,
        },
        work=lambda progress: rows(measure(*task, progress)),
        task=task,
        rows=rows,
    )


def _rows(task: bare.Task, group: Group, curves: Curves) -> pl.DataFrame:
    """Rows of every entrant; those of single queries, mean over seeds, have a `query`."""
    frames = []
    for i, one in group.entrants:
        metrics = {name: values[:, [i]] for name, values in curves.metrics.items()}
        alone = task._replace(
            lines=[one.line._replace(label=one.label)],
            options=replace(task.options, label=one.title),
        )
        columns = [
            pl.lit(one.role).alias("role"),
            pl.lit(one.name).alias("name"),
            pl.lit(one.given).alias("given"),
            pl.lit(one.condition).alias("condition"),
        ]
        found = rows_of(alone, Curves(curves.evaluated, metrics)).with_columns(*columns)
        who = found.head(1).drop("seed", "round", "metric", "value", "conventions")
        frames.append(found)
        for metric, values in curves.by_query.items():
            frames.append(query_means(values[:, i], metric).join(who, how="cross"))
    return pl.concat(frames, how="diagonal")


def query_means(values: npt.NDArray[np.float32], metric: str) -> pl.DataFrame:
    """[S, Q] of one entrant as its mean over seeds; queries without a value are left out."""
    # A query is left out for all seeds or for none.
    known = np.flatnonzero(np.isfinite(values).all(axis=0))
    means = values[:, known].astype(np.float64).mean(axis=0)
    return pl.DataFrame(
        {"metric": [metric] * known.size, "query": known.astype(np.int32), "value": means}
    )
