"""Which settings a ranker is shown with: the best on the validation part, not the test part."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from olrank.experiments.rows.files import settle

_WHERE = ("ranker", "dataset", "fold", "user", "stop")

Chosen = Mapping[tuple[str, str, str, str, str], str]
"""(ranker, dataset, fold, user, stop) -> label of the settings."""


def validation_metric(k: int) -> str:
    """What rows call the offline NDCG on the validation part, which settings are chosen by."""
    return f"validation_ndcg@{k}"


def choose(judged: pl.DataFrame) -> Chosen:
    """The settings that are best on the validation part: last round, mean over seeds.

    A choice is made for each ranker, data set, fold, user and stop rule; of equals the first wins,
    and a run that came to nothing (NaN) never does.
    """
    found = judged.filter(pl.col("metric").str.starts_with("validation_"))
    last = found.filter(pl.col("round") == pl.col("round").max().over("ranker"))
    means = last.group_by(*_WHERE, "settings", maintain_order=True).agg(
        # A setting that diverged is no number, which would sort above all others.
        pl.col("value").fill_nan(float("-inf")).mean()
    )
    best = means.sort("value", descending=True, maintain_order=True).unique(
        _WHERE, keep="first", maintain_order=True
    )
    return {tuple(line[:5]): line[5] for line in best.select(*_WHERE, "settings").rows()}


def keep_chosen(rows: pl.DataFrame, chosen: Chosen) -> pl.DataFrame:
    """The rows of the chosen settings; all rows of a ranker that had one setting only."""
    lines = [(*key, label) for key, label in chosen.items()]
    wanted = pl.DataFrame(lines, {name: pl.String for name in (*_WHERE, "settings")}, orient="row")
    alone = rows.join(wanted, on=_WHERE, how="anti", maintain_order="left")
    among = rows.join(wanted, on=[*_WHERE, "settings"], how="semi", maintain_order="left")
    return _as_met(pl.concat([among, alone]), rows)


def select(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of the settings that are best by the rows themselves, rankers in their order."""
    chosen = choose(rows)
    return settle(keep_chosen(rows, chosen)) if chosen else rows


def _as_met(found: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """What was found, with its rankers in the order of the rows."""
    order = {name: i for i, name in enumerate(rows["ranker"].unique(maintain_order=True))}
    place = pl.col("ranker").replace_strict(order, return_dtype=pl.Int64)
    return found.sort(place, maintain_order=True)
