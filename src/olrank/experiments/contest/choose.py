"""What a search chooses, from its rows alone.

Baselines and references are tuned for each data set, user and stop rule: the point of the grid with
the highest offline / best offline + online / best online, where the best are those of its own grid.

A candidate is one setting for everything. In a cell (data set, user, stop rule) its gains are
log(offline / best offline) and log(online / best online), where the best are those of the tuned
baselines. It must not lose on either, so a loss counts double, and one cannot make up for the
other; a data set's score is the mean of both over its cells. The final preset has the highest mean
score over all sets, and the one that is shown on a set the highest over all *other* sets, so that
nothing of that set had a say in it.

All values are means over folds and seeds of the last round; what came to nothing (NaN) in one of
them never wins.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from olrank.errors import DataError

_WHO = ("role", "ranker", "name", "settings", "given")
_CELL = ("dataset", "user", "stop")
_N_RUNNERS_UP = 10
_LOSS = 2.0  # a loss counts as much as a gain of twice its size

Floats = npt.NDArray[np.float64]


def choose(rows: pl.DataFrame) -> dict[str, Any]:
    """The tuned settings of every baseline and reference, and the winner among the candidates.

    Args:
        rows: of a search: the usual columns with `role`, `name` (of the ranker) and `given` (all
            settings as JSON).

    Returns:
        What chosen.json holds: "tuned", a list with a line for each baseline or reference and cell;
        "final" and "left_out" (by data set), settings with their scores; "runners_up".
    """
    values = means(rows)
    tuned = _tuned(values.filter(pl.col("role") != "candidate"))
    best = (
        tuned.filter(role="baseline")
        .group_by(*_CELL, maintain_order=True)
        .agg(
            pl.col("offline").max().alias("offline_best"),
            pl.col("online").max().alias("online_best"),
        )
    )
    candidates = values.filter(role="candidate")
    if candidates.is_empty() or best.is_empty():
        raise DataError("the search holds no candidate or no baseline; nothing can be chosen.")
    who, sets, scores = _scores(candidates.join(best, on=_CELL, maintain_order="left"))
    order = np.argsort(-scores.mean(axis=1), kind="stable")
    told = [_candidate(line, sets, scores[i]) for i, line in enumerate(who)]
    others = {name: np.delete(scores, i, axis=1).mean(axis=1) for i, name in enumerate(sets)}
    return {
        "final": told[_first_best(scores.mean(axis=1))],
        "left_out": {name: told[_first_best(found)] for name, found in others.items()},
        "runners_up": [told[i] for i in order[1 : 1 + _N_RUNNERS_UP]],
        "n_candidates": len(who),
        "tuned": [_tuned_line(line) for line in tuned.iter_rows(named=True)],
    }


def means(rows: pl.DataFrame) -> pl.DataFrame:
    """role, ranker, name, settings, given, dataset, user, stop, offline, online, n: last rounds."""
    last = rows.filter(pl.col("round") == pl.col("round").max())
    offline = pl.col("metric").str.starts_with("validation_")
    online = pl.col("metric") == "online_ndcg"
    found = last.group_by(*_WHO, *_CELL, maintain_order=True).agg(
        # NaN in one run makes the mean NaN, as it should.
        pl.col("value").filter(offline).mean().alias("offline"),
        pl.col("value").filter(online).mean().alias("online"),
        pl.col("value").filter(online).len().alias("n"),
    )
    counts = found.group_by(_CELL).agg(pl.col("n").n_unique())
    if found["offline"].null_count() or (counts["n"] > 1).any():
        raise DataError("the search is incomplete: settings of one cell have different runs.")
    return found


def _tuned(values: pl.DataFrame) -> pl.DataFrame:
    """The best point of every grid in every cell, with `n_tried`; of equals the first."""
    where = ["ranker", *_CELL]
    known = pl.col("offline").is_finite() & pl.col("online").is_finite()
    relative = [
        pl.col(name) / pl.when(known).then(pl.col(name)).max().over(where)
        for name in ("offline", "online")
    ]
    # Something must be shown of a ranker that diverged everywhere; it is no one's best.
    score = pl.when(known).then(relative[0] + relative[1]).otherwise(-np.inf)
    return (
        values.with_columns(score.alias("score"), pl.len().over(where).alias("n_tried"))
        .sort("score", descending=True, maintain_order=True)
        .unique(where, keep="first", maintain_order=True)
        .with_columns(
            pl.when(known).then(pl.col(name)).alias(name) for name in ("offline", "online")
        )
        .sort(*(_as_met(values, name) for name in where))
    )


def _as_met(frame: pl.DataFrame, column: str) -> pl.Expr:
    met = {name: i for i, name in enumerate(frame[column].unique(maintain_order=True))}
    return pl.col(column).replace_strict(met, return_dtype=pl.Int64)


def _scores(cells: pl.DataFrame) -> tuple[list[dict[str, Any]], list[str], Floats]:
    """Candidates, data sets, and scores [n_candidates, n_sets]."""
    counted = [_counted(pl.col(name) / pl.col(f"{name}_best")) for name in ("offline", "online")]
    found = cells.with_columns(((counted[0] + counted[1]) / 2).alias("gain"))
    sets = found["dataset"].unique(maintain_order=True).to_list()
    n_cells = found.select(_CELL).n_unique()
    by_set = found.group_by(*_WHO, maintain_order=True).agg(
        *(
            pl.col("gain").filter(pl.col("dataset") == name).mean().alias(f"in {name}")
            for name in sets
        ),
        pl.len().alias("n"),
    )
    if (by_set["n"] != n_cells).any() or by_set.null_count().sum_horizontal().item():
        raise DataError("the search is incomplete: a candidate was not run in every cell.")
    scores = by_set.select(f"in {name}" for name in sets).to_numpy()
    return by_set.select(_WHO).to_dicts(), sets, scores


def _counted(ratio: pl.Expr) -> pl.Expr:
    """The log of a ratio, twice that of one below 1, and as bad as can be of one that is NaN."""
    gain = ratio.log()
    known = pl.when(gain < 0).then(_LOSS * gain).otherwise(gain)
    return pl.when(gain.is_nan()).then(-np.inf).otherwise(known)


def _first_best(scores: Floats) -> int:
    best = int(np.argmax(scores))
    if not np.isfinite(scores[best]):
        raise DataError("every candidate came to nothing (NaN) somewhere; none can be chosen.")
    return best


def _candidate(line: dict[str, Any], sets: list[str], scores: Floats) -> dict[str, Any]:
    by_set = dict(zip(sets, scores.tolist(), strict=True))
    return {**_settings(line), "score": float(scores.mean()), "scores": by_set}


def _tuned_line(line: dict[str, Any]) -> dict[str, Any]:
    rest = {name: line[name] for name in (*_CELL, "offline", "online", "n_tried")}
    return {"role": line["role"], **_settings(line), **rest}


def _settings(line: dict[str, Any]) -> dict[str, Any]:
    return {
        "ranker": line["ranker"],
        "name": line["name"],
        "label": line["settings"],
        "settings": json.loads(line["given"]),
    }
