"""Every ranker in every cell: mean, interval, and a paired test against the best baseline.

p-values come from sign flips of the differences over (fold, seed) and are corrected by Holm over
all tests of a metric. The best baseline of a cell is the one with the highest mean there, so the
test is the hardest of all that could have been made. Published numbers stand beside ours; PDGD's
are of one update per 200 impressions, DBGD's of the released code's protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import polars as pl

from olrank.experiments.reports.claims import BASELINES
from olrank.experiments.reports.evidence import Cell, Rows
from olrank.experiments.rows.markdown import short, table_head, table_line
from olrank.figures.panels import user_order
from olrank.metrics.compare import holm, interval, paired

_LEVEL = 0.05
_DIGITS = {"online_ndcg": 0}


def compare(
    rows: pl.DataFrame,
    outside: pl.DataFrame | None = None,
    baselines: Sequence[str] = BASELINES,
) -> pl.DataFrame:
    """A line for each data set, user, stop rule, metric and ranker.

    Args:
        rows: of one setting a ranker in every cell.
        outside: rows of rankers that met no user, as LambdaMART's.
        baselines: rankers to test against; each of the others is tested against the best of them.

    Returns:
        dataset, user, stop, metric, ranker, mean, low, high, n, round, against, difference,
        difference_low, difference_high, p (Holm), published, published_round, source. Lines of a
        baseline or without enough data have no test.
    """
    asked, known = Rows(rows), _published()
    lines: list[dict[str, Any]] = []
    for metric in (asked.ndcg, "online_ndcg"):
        found = [
            _line(asked, cell, metric, ranker, baselines, known)
            for cell in asked.cells
            for ranker in asked.rankers
            if not asked.at(ranker, cell, metric).is_empty()
        ]
        tested = [line for line in found if line["p"] is not None]
        if tested:
            for line, p in zip(tested, holm([line["p"] for line in tested]), strict=True):
                line["p"] = float(p)
        lines += found
    lines += [] if outside is None else _outside(asked, outside)
    return pl.DataFrame(lines, infer_schema_length=None)


def _line(
    asked: Rows,
    cell: Cell,
    metric: str,
    ranker: str,
    baselines: Sequence[str],
    known: Mapping[tuple[str, ...], dict[str, Any]],
) -> dict[str, Any]:
    units = asked.at(ranker, cell, metric).filter(pl.col("value").is_finite())
    values = units.sort("fold", "seed")["value"].to_numpy()
    mean = interval(values)._asdict() if values.size else dict.fromkeys(("mean", "low", "high"))
    line = {
        **cell._asdict(),
        "metric": metric,
        "ranker": ranker,
        **mean,
        "n": int(values.size),
        "round": asked.rounds[-1],
        **dict.fromkeys(("against", "difference", "difference_low", "difference_high", "p")),
        **dict.fromkeys(("published", "published_round", "source")),
    }
    there = [name for name in baselines if name in asked.rankers]
    best = asked.best(there, cell, metric)
    if best is not None and ranker not in baselines and ranker != "skyline" and values.size:
        both = units.join(asked.at(best, cell, metric), on=["fold", "seed"], suffix="_b")
        both = both.filter(pl.col("value_b").is_finite()).sort("fold", "seed")
        test = paired(both["value"].to_numpy(), both["value_b"].to_numpy())
        line |= {"against": best, "difference": test.difference, "p": test.p_value}
        line |= {"difference_low": test.low, "difference_high": test.high}
    return line | known.get((cell.dataset, ranker, cell.user, cell.stop, metric), {})


def _published() -> dict[tuple[str, ...], dict[str, Any]]:
    """What others measured, by cell; of several rounds the one nearest to ours, the smallest."""
    text = resources.files(__package__).joinpath("published.csv").read_bytes()
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for line in pl.read_csv(text).sort("round", descending=True).iter_rows(named=True):
        key = (line["dataset"], line["ranker"], line["user"], line["stop"], line["metric"])
        found[key] = {
            "published": line["value"],
            "published_round": line["round"],
            "source": line["source"],
        }
    return found


def _outside(asked: Rows, outside: pl.DataFrame) -> list[dict[str, Any]]:
    """Rankers that met no user stand in every cell of their data set."""
    lines = []
    for cell in asked.cells:
        for (ranker, metric), part in outside.filter(dataset=cell.dataset).group_by(
            "ranker", "metric", maintain_order=True
        ):
            found = interval(part.sort("fold", "seed")["value"].to_numpy())
            lines.append(
                {
                    **cell._asdict(),
                    "metric": metric,
                    "ranker": ranker,
                    **found._asdict(),
                    "round": 0,
                }
            )
    return lines


def markdown(table: pl.DataFrame) -> str:
    """A table for each data set and stop rule: a line a ranker, a column a user and metric."""
    lines: list[str] = []
    for (dataset, stop), part in table.group_by("dataset", "stop", maintain_order=True):
        users = sorted(part["user"].unique(), key=user_order)
        columns = [(m, u) for m in part["metric"].unique(maintain_order=True) for u in users]
        lines += [f"### {dataset}, stop rule {stop}", ""]
        lines += table_head("ranker", *(_heading(m, u) for m, u in columns))
        for ranker in part["ranker"].unique(maintain_order=True):
            cells = [_cell(part.filter(ranker=ranker, metric=m, user=u)) for m, u in columns]
            lines.append(table_line([ranker, *cells]))
        lines.append("")
    return "\n".join([*lines, *_notes(table)])


def _heading(metric: str, user: str) -> str:
    return f"{'online NDCG' if metric == 'online_ndcg' else metric.upper()}, {user}"


def _cell(found: pl.DataFrame) -> str:
    """The mean with its interval, a mark where it differs from the best baseline, the published."""
    if found.is_empty() or found["mean"][0] is None:
        return "-"
    line = found.row(0, named=True)
    digits = _DIGITS.get(line["metric"], 3)
    told = short(line["mean"], digits)
    if line["n"] > 1:
        told += f" ({short(line['low'], digits)}–{short(line['high'], digits)})"
    if line["p"] is not None and line["p"] <= _LEVEL:
        told += " ▲" if line["difference"] > 0 else " ▼"
    if line["published"] is not None:
        told += f" [{short(line['published'], digits)} at {line['published_round']:,}]"
    return told


def _notes(table: pl.DataFrame) -> list[str]:
    last = max(table["round"].to_list())
    units = {one["dataset"]: one["n"] for one in table.filter(round=last).iter_rows(named=True)}
    runs = f"{max(units.values())} runs (folds x seeds)"
    for n in sorted(set(units.values()))[:-1]:
        runs += f", {n} on {', '.join(name for name, its in units.items() if its == n)},"
    notes = [
        f"Mean and 95% bootstrap interval over {runs} after {last:,} rounds. "
        f"▲ above and ▼ below the best baseline of the column, paired over (fold, seed), sign "
        f"flips, Holm-corrected at {_LEVEL}; unmarked: no difference shown, or itself a baseline.",
    ]
    if table["published"].is_not_null().any():
        notes.append(
            "In brackets: published, and after how many rounds. PDGD (ielab/foltr) takes one step "
            "per 200 impressions; DBGD is the released code's."
        )
    return [*(line for note in notes for line in ("", note)), ""]
