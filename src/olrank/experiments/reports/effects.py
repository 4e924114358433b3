"""What each choice does: variants against the ranker that they differ from in one of them.

A config says of each variant what its base is (`base` of a [[ranker]]), and run.json keeps it.
Differences are paired over data set, fold and seed; users and stop rules of one seed meet the same
queries and are no units of their own, so that their differences are averaged first. The stop rule
is a choice, too, of the user and not of the ranker: the base under one rule is held against the
base under the other. p-values are corrected by Holm over all choices of a metric.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from olrank.errors import unknown_name
from olrank.experiments.rows.markdown import table_head, table_line
from olrank.metrics.compare import holm, paired

_UNIT = ["dataset", "user", "stop", "fold", "seed"]
_LEVEL = 0.05


def variants_in(folder: Path) -> dict[str, list[str]]:
    """The bases of a finished run, each with the labels of its variants; none without run.json."""
    file = folder / "run.json"
    if not file.is_file():
        return {}
    found: dict[str, list[str]] = {}
    for ranker in json.loads(file.read_text("utf-8")).get("config", {}).get("ranker", []):
        if ranker.get("base") is not None:
            found.setdefault(ranker["base"], []).append(ranker["label"] or ranker["name"])
    return found


def effects(rows: pl.DataFrame, variants: Mapping[str, Sequence[str]]) -> pl.DataFrame:
    """A line for each base, metric and choice: all users together, then each user.

    Args:
        rows: of one setting a label in every cell; see `rows.choice`.
        variants: labels of bases, and of the variants of each.

    Returns:
        base, metric, choice, user ("all" for all together), difference, low, high, p (Holm over
        the choices of a base and metric, all users together; as it is for one user), n.
    """
    there = rows["ranker"].unique(maintain_order=True).to_list()
    last = rows.filter(pl.col("round") == pl.col("round").max().over("ranker", "metric"))
    lines: list[dict[str, Any]] = []
    for base, labels in variants.items():
        for label in (base, *labels):
            if label not in there:
                raise unknown_name("ranker of the rows", label, there)
        for metric in _metrics(rows):
            of_metric = last.filter(pl.col("value").is_finite(), metric=metric)
            found = _of_metric(of_metric, base, labels)
            together = [line for line in found if line["user"] == "all"]
            for line, p in zip(together, holm([line["p"] for line in together]), strict=True):
                line["p"] = float(p)
            lines += [{"base": base, "metric": metric, **line} for line in found]
    return pl.DataFrame(lines)


def _metrics(rows: pl.DataFrame) -> list[str]:
    there = rows["metric"].unique(maintain_order=True)
    return [m for m in there if m.startswith("ndcg@")] + ["online_ndcg"] * ("online_ndcg" in there)


def _of_metric(last: pl.DataFrame, base: str, labels: Sequence[str]) -> list[dict[str, Any]]:
    ours = last.filter(ranker=base).select(*_UNIT, "value")
    lines = []
    for label in labels:
        units = last.filter(ranker=label).select(*_UNIT, "value")
        lines += _lines(label, units.join(ours, on=_UNIT, suffix="_b"))
    stops = ours["stop"].unique().sort().to_list()
    if stops == ["clicked", "examined"]:
        key = [name for name in _UNIT if name != "stop"]
        sides = [ours.filter(stop=stop).drop("stop") for stop in ("examined", "clicked")]
        lines += _lines("stop rule: examined", sides[0].join(sides[1], on=key, suffix="_b"))
    return lines


def _lines(label: str, both: pl.DataFrame) -> list[dict[str, Any]]:
    lines = []
    for user in ("all", *both["user"].unique(maintain_order=True)):
        part = both if user == "all" else both.filter(user=user)
        part = part.group_by("dataset", "fold", "seed").agg(pl.col("value", "value_b").mean())
        part = part.sort("dataset", "fold", "seed")
        found = paired(part["value"].to_numpy(), part["value_b"].to_numpy())
        told = {"difference": found.difference, "low": found.low, "high": found.high}
        lines.append({"choice": label, "user": user, **told, "p": found.p_value, "n": found.n})
    return lines


def markdown(found: pl.DataFrame) -> str:
    """A table for each base and metric: a line a choice, the largest effects first."""
    lines: list[str] = []
    for (base, metric), part in found.group_by("base", "metric", maintain_order=True):
        digits = 1 if metric == "online_ndcg" else 3
        users = [user for user in part["user"].unique(maintain_order=True) if user != "all"]
        lines += [f"### {metric}, against {base}", ""]
        lines += table_head("choice", "all users", "interval", "p (Holm)", *users, "matters")
        together = part.filter(user="all").sort(pl.col("difference").abs(), descending=True)
        for effect in together.iter_rows(named=True):
            own = part.filter(choice=effect["choice"])
            each = [f"{own.filter(user=user)['difference'].item():+.{digits}f}" for user in users]
            span = f"{effect['low']:+.{digits}f} to {effect['high']:+.{digits}f}"
            matters = "yes" if effect["p"] <= _LEVEL else "not shown"
            cells = [effect["choice"], f"{effect['difference']:+.{digits}f}", span]
            lines.append(table_line([*cells, f"{effect['p']:.4f}", *each, matters]))
        lines.append("")
    return "\n".join(lines)
