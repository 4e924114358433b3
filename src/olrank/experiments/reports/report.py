"""Figures, tables and claims of a reproduction, drawn from the rows in its folder alone.

File                   Holds                                      Makes
rows.parquet           the chosen settings of every ranker        learning, online, regret,
                                                                  certainty, ratio; tables.md;
                                                                  effects, where run.json has bases
longer.parquet         PDGD after four times the rounds           claims.md
outside.parquet        LightGBM's LambdaMART                      tables.md
separation.parquet     projected documents                        nonlinearity
known_h.parquet        widths held against h                      coverage, log_det
gap.parquet            regret on data with a gap                  regret_fit; theory.md
dimensions.parquet     effective dimensions                       theory.md
queries.parquet        a contest's test queries, one by one       table.md, differences

Any experiment's rows.parquet will do; what a folder lacks is not drawn.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from olrank.experiments.reports import claims, contest, effects, evidence, tables
from olrank.experiments.rows import choice, files, summary
from olrank.experiments.rows.markdown import table_head, table_line
from olrank.figures import effects as effects_figure
from olrank.figures import growth, ratio, regret_fit, separation
from olrank.figures.all import draw_all


def report(folder: Path) -> list[Path]:
    """Draw all that the folder's rows allow, and say what was written."""
    if contest.is_contest(folder):
        return contest.write(folder)
    return [*draw(folder), *write(folder)]


def draw(folder: Path) -> list[Path]:
    """The figures."""
    if contest.is_contest(folder):
        return contest.draw(folder)
    figures, drawn = folder / "figures", []
    if (rows := chosen(folder)) is not None:
        drawn += draw_all(rows, figures)
        known = rows.filter(pl.col("value").is_finite(), metric="certain_ratio")
        if "olranknet" in known["ranker"]:
            drawn.append(ratio.draw(rows, figures / "ratio.svg"))
        if variants := effects.variants_in(folder):
            found = effects.effects(rows, variants)
            drawn.append(effects_figure.draw(found, figures / "effects.svg"))
    if (points := read(folder, "separation")) is not None:
        drawn.append(separation.draw(points, figures / "nonlinearity.svg"))
    if (gap := read(folder, "gap")) is not None:
        drawn.append(regret_fit.draw(gap, figures / "regret_fit.svg"))
    if (known_h := read(folder, "known_h")) is not None:
        for name, sheet in (("coverage", growth.COVERAGE), ("log_det", growth.LOG_DET)):
            drawn.append(growth.draw(known_h, figures / f"{name}.svg", sheet))
    if not drawn:
        files.read_rows(folder)  # says what is missing
    return drawn


def write(folder: Path) -> list[Path]:
    """The pages of numbers."""
    pages = {}
    rows = chosen(folder)
    if rows is not None and (variants := effects.variants_in(folder)):
        pages["effects.md"] = effects.markdown(effects.effects(rows, variants))
    if rows is not None:
        pages["table.md"] = summary.markdown(summary.summarise(rows))
        pages["tables.md"] = tables.markdown(tables.compare(rows, read(folder, "outside")))
        found = claims.check_claims(rows, read(folder, "longer"))
        if any(claim.tests for claim in found):  # none where rankers have other names
            pages["claims.md"] = evidence.markdown(found)
    if told := theory(folder):
        pages["theory.md"] = told
    for name, text in pages.items():
        files.write_text(text, folder / name)
    return [folder / name for name in pages]


def read(folder: Path, name: str) -> pl.DataFrame | None:
    """A file of the folder, or None where there is none."""
    file = folder / f"{name}.parquet"
    return pl.read_parquet(file) if file.is_file() else None


def chosen(folder: Path) -> pl.DataFrame | None:
    """The rows of the settings that were chosen."""
    if not (folder / "rows.parquet").is_file():
        return None
    return choice.select(files.read_rows(folder))


def theory(folder: Path) -> str:
    """Growth of regret, coverage and effective dimensions, as far as the folder has them."""
    lines: list[str] = []
    if (gap := read(folder, "gap")) is not None:
        lines += table_head("ranker", "regret", "best fit", "R² log² T", "R² sqrt T", "R² T")
        for ranker in gap["ranker"].unique(maintain_order=True):
            for metric in ("regret", "examined_regret"):
                found = regret_fit.regret_fits(gap, ranker, metric)
                by = {fit.shape: f"{fit.r_squared:.4f}" for fit in found}
                told = (by[shape] for shape in ("log^2 T", "sqrt T", "T"))
                lines.append(table_line([ranker, metric, found[0].shape, *told]))
        lines.append("")
    if (known_h := read(folder, "known_h")) is not None:
        lines += _last_values(known_h)
    if (dimensions := read(folder, "dimensions")) is not None:
        lines += table_head(
            "data", "documents", "features", "layers", "lambda", "effective dimension"
        )
        for one in dimensions.iter_rows(named=True):
            cells = (one["dataset"], f"{one['n_docs']:,}", one["n_features"], one["depth"])
            lines.append(table_line([*cells, f"{one['prior']:g}", f"{one['dimension']:.1f}"]))
        lines.append("")
    return "\n".join(lines)


def _last_values(known_h: pl.DataFrame) -> list[str]:
    metrics = ("coverage", "certain_share", "certain_right", "log_det_ratio")
    lines = table_head("widths", "covered", "certain", "certain and right", "log det ratio")
    last = known_h.filter(pl.col("round") == pl.col("round").max())
    for (label,), part in last.group_by("settings", maintain_order=True):
        cells = []
        for metric in metrics:
            values = part.filter(pl.col("value").is_finite(), metric=metric)["value"]
            cells.append("-" if values.is_empty() else f"{values.to_numpy().mean():.3g}")
        lines.append(table_line([label, *cells]))
    return [*lines, ""]
