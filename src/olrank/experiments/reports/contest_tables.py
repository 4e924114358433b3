"""The tables of a contest, by name; see `verdicts` for what is tested and how."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from olrank.experiments.reports import beside, verdicts
from olrank.experiments.reports.markup import head, row, short
from olrank.experiments.reports.resampling import N_RESAMPLES, Floats, Who
from olrank.experiments.reports.verdicts import LEFT_OUT, LEVEL, MARGIN


@dataclass(frozen=True)
class Found:
    """What a folder's rows say.

    Attributes:
        rows: of the evaluation.
        resampled: its offline means over resampled queries.
        compared: `verdicts.compare` of the winner that did not know the set, and, where it
            was shown, of the final one.
        robust: rows under other conditions, or None.
        outside: means of skylines that are not among the rows; see `beside.Outside`.
    """

    rows: pl.DataFrame
    resampled: dict[str, dict[Who, Floats]]
    compared: dict[str, pl.DataFrame]
    robust: pl.DataFrame | None
    outside: beside.Outside = field(default_factory=dict)


def _verdict(found: Found) -> list[str]:
    lines = []
    for ours in found.compared:
        cells = verdicts.by_cell(found.compared[ours])
        n = len(cells)
        counts = {x: int(cells[x].sum()) for x in ("passes", "online_passes", "offline_passes")}
        ahead = verdicts.in_the_mean(found.compared[ours], found.resampled, ours)
        behind = [one.rival for one in ahead if one.offline <= 0 and _is_baseline(found, one.rival)]
        mean = "ahead of every baseline" if not behind else f"not ahead of {', '.join(behind)}"
        lines.append(
            f"- **{ours}**: {counts['passes']} of {n} cells pass. Online ahead of every baseline "
            f"in {counts['online_passes']} of {n}; offline non-inferior to every baseline in "
            f"{counts['offline_passes']} of {n}, and in the mean over cells {mean}."
        )
    return [*lines, "", *_one_by_one(found), "", *_failing(found)]


def _one_by_one(found: Found) -> list[str]:
    """How single comparisons came out: a cell needs all of them at once."""
    against = found.compared[LEFT_OUT].filter(role="baseline")
    told = []
    for metric in ("online", "offline"):
        here = against.filter(metric=metric)
        ahead, behind = int((here["low"] > 0).sum()), int((here["high"] < 0).sum())
        told.append(f"{metric} it is ahead in {ahead}, behind in {behind} of {len(here)}")
    return [
        f"{LEFT_OUT} and one baseline at a time, by single 95% intervals: {'; '.join(told)}; the "
        "rest is undecided."
    ]


def _is_baseline(found: Found, rival: str) -> bool:
    roles = found.compared[LEFT_OUT].filter(rival=rival)["role"]
    return bool((roles == "baseline").any())


def _failing(found: Found) -> list[str]:
    failed = found.compared[LEFT_OUT].filter(~pl.col("passes"))
    if failed.is_empty():
        return [f"No cell of {LEFT_OUT} fails."]
    lines = [f"Cells of {LEFT_OUT} that fail, and against whom:", ""]
    lines += head("data", "user", "stop", "online", "offline")
    for cell in verdicts.cells_of(failed):
        here = failed.filter(**cell._asdict())
        told = [
            ", ".join(here.filter(metric=metric)["rival"]) or "-"
            for metric in ("online", "offline")
        ]
        lines.append(row(*cell, *told))
    return lines


def _cells(found: Found) -> list[str]:
    lines = []
    for dataset in found.rows["dataset"].unique(maintain_order=True):
        lines += [f"### {dataset}", ""]
        lines += head(
            "user", "stop", "online", "best baseline", "difference",
            "offline", "best baseline", "difference", "lower bound", "passes",
        )  # fmt: skip
        cells = verdicts.by_cell(found.compared[LEFT_OUT].filter(dataset=dataset))
        for x in cells.iter_rows(named=True):
            lines.append(
                row(
                    x["user"], x["stop"],
                    f"{x['online_ours']:.0f}", x["online_best"], _span(x, "online_", 1),
                    short(x["offline_ours"]), x["offline_best"], _span(x, "offline_", 3),
                    f"{x['bound']:+.3f}", _passes(x["online_passes"], x["offline_passes"]),
                )
            )  # fmt: skip
        lines.append("")
    return [*lines, *_how(found), *_absent(found)]


def _how(found: Found) -> list[str]:
    seeds, last = found.rows["seed"].n_unique(), max(found.rows["round"].to_list())
    return [
        f"{LEFT_OUT}: the preset chosen without the data set it is shown on. Differences to the "
        f"best baseline of the cell with 95% intervals (Student's t), paired over (fold, seed), "
        f"{seeds} seeds, after {last:,} rounds. The lower bound is the 5% quantile of the offline "
        f"difference over {N_RESAMPLES:,} resamples of each fold's test queries, with the variance "
        "of the seeds added by resampling them as well; the lowest against any baseline. A cell "
        f"passes online when it is ahead of every baseline, offline when it is behind none by more "
        f"than {short(MARGIN)} (p ≤ {short(LEVEL, 2)} after Holm's correction over all cells and "
        "baselines, and the lower bound above the margin).",
    ]


def _absent(found: Found) -> list[str]:
    """A line on rivals that did not run on every set, where there are any."""
    ran = found.rows.select("ranker", "dataset").unique(maintain_order=True)
    sets = found.rows["dataset"].unique(maintain_order=True).to_list()
    told = []
    for ranker in ran["ranker"].unique(maintain_order=True):
        here = set(ran.filter(ranker=ranker)["dataset"])
        if missing := [name for name in sets if name not in here]:
            told.append(f"{ranker} on {' and '.join(missing)}")
    return ["", f"Did not run: {'; '.join(told)}."] if told else []


def _rivals(found: Found) -> list[str]:
    lines = []
    for ours in found.compared:
        lines += [f"### {ours} against each of the others", ""]
        lines += head(
            "rival", "online, mean over cells", "offline, mean over cells", "lower bound",
            "ahead online", "not behind offline",
        )  # fmt: skip
        for one in verdicts.in_the_mean(found.compared[ours], found.resampled, ours):
            counts = [f"{x} of {one.n_cells}" for x in (one.n_online, one.n_offline)]
            if not _is_baseline(found, one.rival):
                counts = ["shown beside", "shown beside"]
            means = (f"{one.online:+.1%}", f"{one.offline:+.4f}", f"{one.bound:+.4f}")
            lines.append(row(one.rival, *means, *counts))
        lines.append("")
    return lines


def _closed(found: Found) -> list[str]:
    shares = beside.closed(found.rows, found.resampled, outside=found.outside)
    above = f"is a skyline more than {short(beside.ROOM, 2)} above the best baseline."
    if shares.is_empty():
        return [f"In no cell {above}", *_labelled(found)]
    lines = head("data", "user", "stop", "best baseline", "skyline", "distance", "share closed")
    for x in shares.iter_rows(named=True):
        where = (x["dataset"], x["user"], x["stop"], x["best"], x["skyline"])
        lines.append(row(*where, short(x["distance"]), _share(x)))
    mean = float(shares["share"].to_numpy().mean())
    told = f"Mean over these {len(shares)} cells: {_percent(mean)}."
    if n_others := len(verdicts.cells_of(found.rows)) - len(shares):
        told += f" In none of the other {n_others} {above}"
    return [*lines, "", told, *_labelled(found)]


def _share(line: dict[str, Any]) -> str:
    if math.isinf(line["low"]):
        return f"{_percent(line['share'])} (no bounds: the distance may be 0)"
    return f"{_percent(line['share'])} ({_percent(line['low'])} to {_percent(line['high'])})"


def _percent(share: float) -> str:
    return f"{round(share, 2) + 0.0:.0%}"  # 0 takes the sign off a rounded -0


def _labelled(found: Found) -> list[str]:
    """A line for each skyline from outside, where there are any: its means by data set."""
    names = dict.fromkeys(name for by in found.outside.values() for name in by)
    lines = []
    for name in names:
        means = [f"{x} {short(by[name])}" for x, by in found.outside.items() if name in by]
        lines += ["", f"Offline NDCG of {name}, which learned from all labels: {', '.join(means)}."]
        theirs, ours = (
            "{} of {}".format(*beside.keeps_up(found.rows, found.resampled, who))
            for who in (name, LEFT_OUT)
        )
        lines[-1] += (
            f" Put to the same lower bound against every baseline, it keeps up in {theirs} cells, "
            f"and {LEFT_OUT} in {ours}; the bound alone, without the test over seeds."
        )
    return lines


def robust(rows: pl.DataFrame | None) -> list[str]:
    """What came of other conditions, from their rows alone; they can run before the rest."""
    if rows is None:
        return ["No other conditions were run."]
    lines = beside.robust(rows).filter(role="baseline")
    told = head(
        "condition", "rival", "metric", "mean difference", "lowest bound", "where", "passes"
    )
    groups = lines.group_by("condition", "rival", "metric", maintain_order=True)
    for (condition, rival, metric), part_ in groups:
        worst = part_.sort("bound", maintain_order=True).row(0, named=True)
        n = f"{int(part_['passes'].sum())} of {len(part_)}"
        mean = float(part_["difference"].to_numpy().mean())
        where = f"{worst['dataset']}, {worst['user']}, {worst['stop']}"
        cells = (str(condition), str(rival), str(metric), f"{mean:+.1%}")
        told.append(row(*cells, f"{worst['bound']:+.1%}", where, n))
    return [
        *told,
        "",
        *_robust_counts(lines),
        "",
        f"Of {LEFT_OUT}, relative to the rival's value; a cell passes when the one-sided 95% bound "
        f"lies above {beside.COLLAPSE:.0%}. Baselines keep the settings tuned in the nearest cell "
        "of the search: a user who was tuned for is its own nearest, one with flipped clicks that "
        "without, the position-based one the perfect one, the near-random one the informational.",
        *_fewer_runs(lines),
    ]


def _fewer_runs(lines: pl.DataFrame) -> list[str]:
    """Which sets have fewer pairs than others, where some have."""
    counts = lines.group_by("dataset", maintain_order=True).agg(pl.col("n").max())
    most = int(counts["n"].to_numpy().max())
    told = [f"{n} on {name}" for name, n in counts.rows() if n != most]
    if not told:
        return []
    return ["", f"Pairs of (fold, seed): {', '.join(told)}; {most} on the other sets."]


def _robust_counts(lines: pl.DataFrame) -> list[str]:
    """How many comparisons of each condition pass, against all rivals together."""
    told = head("condition", "online", "offline")
    for (condition,), part_ in lines.group_by("condition", maintain_order=True):
        passes = [part_.filter(metric=metric)["passes"] for metric in ("online", "offline")]
        told.append(row(str(condition), *(f"{int(p.sum())} of {len(p)}" for p in passes)))
    return told


def _all(found: Found) -> list[str]:
    """Every comparison, cell by cell."""
    lines = head(
        "data", "user", "stop", "rival", "online", "p", "offline", "p not behind", "p ahead",
        "lower bound", "passes",
    )  # fmt: skip
    groups = found.compared[LEFT_OUT].group_by(
        "dataset", "user", "stop", "rival", maintain_order=True
    )
    for who, pair in groups:
        x, y = (pair.filter(metric=m).row(0, named=True) for m in ("online", "offline"))
        passes = "-" if x["passes"] is None else _passes(x["passes"], y["passes"])
        p = [_p(value) for value in (x["p"], y["p"], y["p_ahead"])]
        bound = f"{y['bound']:+.3f}"
        cells = (_span(x, "", 1), p[0], _span(y, "", 3), p[1], p[2], bound, passes)
        lines.append(row(*(str(w) for w in who), *cells))
    return [*lines, "", 'p: after Holm\'s correction, but for offline "p ahead", which is not.']


def _means(found: Found) -> list[str]:
    """Offline and online means of everyone."""
    values = verdicts.last_values(found.rows)
    columns = ["dataset", "ranker", "user", "stop", "metric"]
    means = values.group_by(columns, maintain_order=True).agg(pl.col("value").mean())
    by = {tuple(x[:5]): float(x[5]) for x in means.rows()}
    metric, lines = verdicts.offline_metric(found.rows), []
    for dataset in values["dataset"].unique(maintain_order=True):
        cells = verdicts.cells_of(values.filter(dataset=dataset))
        lines += [f"### {dataset}", ""]
        lines += head("ranker", *(f"{cell.user}, {cell.stop}" for cell in cells))
        for ranker in values.filter(dataset=dataset)["ranker"].unique(maintain_order=True):
            keys = [(dataset, ranker, cell.user, cell.stop) for cell in cells]
            told = (f"{short(by[*k, metric])} / {by[*k, verdicts.ONLINE]:.0f}" for k in keys)
            lines.append(row(ranker, *told))
        for name, mean in found.outside.get(dataset, {}).items():
            lines.append(row(f"{name} (all labels)", *[f"{short(mean)} / -"] * len(cells)))
        lines.append("")
    return [*lines, "Offline NDCG / online NDCG, means over folds and seeds."]


def _span(line: dict[str, Any], prefix: str, digits: int) -> str:
    values = [line[f"{prefix}{x}"] for x in ("difference", "low", "high")]
    mean, low, high = (f"{value:+.{digits}f}" for value in values)
    return f"{mean} ({low} to {high})"


def _passes(online: bool, offline: bool) -> str:
    if online and offline:
        return "yes"
    failed = [name for name, ok in (("online", online), ("offline", offline)) if not ok]
    return f"**no** ({' and '.join(failed)})"


def _p(value: float | None) -> str:
    return "-" if value is None else "< .0001" if value < 1e-4 else short(value, 4)


PARTS: dict[str, Callable[[Found], list[str]]] = {
    "verdict": _verdict,
    "cells": _cells,
    "rivals": _rivals,
    "closed": _closed,
    "robust": lambda found: robust(found.robust),
    "means": _means,
    "all": _all,
}
"""A table each, in the order of table.md."""
