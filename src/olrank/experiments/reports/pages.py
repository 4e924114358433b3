"""Pages about experiments, in which every number comes from rows.

An experiment's `page.md` is prose with places to fill, each on double braces:

    {{table}}        all rankers, as in table.md          {{tables}}     with tests, as in tables.md
    {{claims}}       verdicts on the paper's claims       {{theory}}     fits, coverage, dimensions
    {{published}}    ours beside published numbers        {{effects B}}  the variants of base B
    {{devices D}}    rows of device D beside the CPU's
    {{contest PART}} of a contest: verdict, cells, rivals, closed, robust, means, all, chosen
    {{figure NAME}}  a figure of the folder               {{run NAME}}   rounds, seeds, folds, hours
    {{mean RANKER | USER | STOP | METRIC}}                one number; DATASET | ... in front if many

`build` fills them and writes docs/NAME.md with copies of the figures; `stale` says which pages are
no longer what the rows say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import polars as pl

from olrank.errors import ConfigError, DataError, unknown_name
from olrank.experiments.reports import (
    claims,
    contest,
    devices,
    effects,
    evidence,
    published,
    report,
    tables,
)
from olrank.experiments.rows import files, summary
from olrank.experiments.rows.markdown import short

_PLACE = re.compile(r"\{\{(\w+)(?:\s+([^{}]*?))?\}\}")


def build(experiments: Path, docs: Path) -> list[Path]:
    """Write the page of every experiment that has a page.md and rows, and the index."""
    written = []
    for path, content in _all(experiments, docs).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_bytes() != content:
            path.write_bytes(content)
        written.append(path)
    return written


def stale(experiments: Path, docs: Path) -> list[str]:
    """Files under docs that are missing or differ from what the rows give."""
    return [
        str(path.relative_to(docs))
        for path, content in _all(experiments, docs).items()
        if not path.is_file() or path.read_bytes() != content
    ]


def _all(experiments: Path, docs: Path) -> dict[Path, bytes]:
    found: dict[Path, bytes] = {}
    index = ["# Experiments", "", "One page a question, written by `olrank pages` from rows.", ""]
    for template in sorted(experiments.glob("*/page.md")):
        folder = template.parent
        if not any((folder / name).is_file() for name in ("rows.parquet", "robust.parquet")):
            continue
        text = fill(template.read_text("utf-8"), folder, template)
        found[docs / f"{folder.name}.md"] = text.encode()
        for name in _figures(template.read_text("utf-8")):
            figure = folder / "figures" / f"{name}.svg"
            found[docs / "figures" / f"{folder.name}-{name}.svg"] = figure.read_bytes()
        title = text.splitlines()[0].removeprefix("# ")
        index.append(f"- [{title}]({folder.name}.md)")
    found[docs / "experiments.md"] = "\n".join([*index, ""]).encode()
    return found


def _figures(template: str) -> list[str]:
    return [match[2].strip() for match in _PLACE.finditer(template) if match[1] == "figure"]


def fill(template: str, folder: Path, source: Path | None = None) -> str:
    """The page with its places filled from the folder's rows."""
    where = source or folder / "page.md"

    def filled(match: re.Match[str]) -> str:
        name, words = match[1], (match[2] or "").strip()
        if name not in _FILLERS:
            raise unknown_name("place", name, _FILLERS, str(where))
        try:
            return _FILLERS[name](folder, words)
        except (DataError, ConfigError) as error:
            raise type(error)(f"{where}, {match[0]}: {error}") from error

    return _PLACE.sub(filled, template)


def _chosen(folder: Path) -> pl.DataFrame:
    found = report.chosen(folder)
    if found is None:
        raise DataError(f"{folder}: has no rows.parquet. Run the experiment first.")
    return found


def _table(folder: Path, words: str) -> str:
    return summary.markdown(summary.summarise(_chosen(folder))).strip()


def _tables(folder: Path, words: str) -> str:
    outside = report.read(folder, "outside")
    return tables.markdown(tables.compare(_chosen(folder), outside)).strip()


def _claims(folder: Path, words: str) -> str:
    """The table of verdicts alone; the comparisons behind them are in the folder's claims.md."""
    found = claims.check_claims(_chosen(folder), report.read(folder, "longer"))
    return evidence.markdown(found).split("\n\n## ", 1)[0].strip()


def _theory(folder: Path, words: str) -> str:
    return report.theory(folder).strip()


def _published(folder: Path, words: str) -> str:
    return published.markdown(published.compare(folder)).strip()


def _devices(folder: Path, words: str) -> str:
    """The folder's rows beside those of one of its own folders, called like the other device."""
    return devices.markdown(devices.compare(folder, folder / words), "cpu", words).strip()


def _effects(folder: Path, words: str) -> str:
    variants = effects.variants_in(folder)
    if words not in variants:
        raise unknown_name("base", words, variants)
    return effects.markdown(effects.effects(_chosen(folder), {words: variants[words]})).strip()


def _figure(folder: Path, words: str) -> str:
    if not (folder / "figures" / f"{words}.svg").is_file():
        raise DataError(f"there is no figure {words}. Draw it with: olrank figures {folder}")
    return f"![{words.replace('_', ' ')}](figures/{folder.name}-{words}.svg)"


def _run(folder: Path, words: str) -> str:
    rows = files.read_rows(folder)
    if words in ("seconds", "hours"):
        seconds = json.loads((folder / "run.json").read_text("utf-8"))["seconds"]
        return f"{seconds:,.0f}" if words == "seconds" else f"{seconds / 3600:.1f}"
    counts: dict[str, int] = {
        "rounds": max(rows["round"].to_list()),
        "seeds": rows["seed"].n_unique(),
        "folds": rows["fold"].n_unique(),
        "sets": rows["dataset"].n_unique(),
    }
    if words not in counts:
        raise unknown_name("count", words, [*counts, "seconds", "hours"])
    return f"{counts[words]:,}"


def _mean(folder: Path, words: str) -> str:
    names = [word.strip() for word in words.split("|")]
    columns = ("dataset", "ranker", "user", "stop", "metric")[5 - len(names) :]
    if len(columns) != len(names):
        raise ConfigError("expected DATASET | RANKER | USER | STOP | METRIC, the first may be left")
    wanted = dict(zip(columns, names, strict=True))
    found = summary.summarise(_chosen(folder)).filter(**wanted)
    if len(found) != 1:
        raise ConfigError(f"the rows hold {len(found)} such means, not one.")
    return short(found["mean"][0], 0 if wanted["metric"] == "online_ndcg" else 3)


def _contest(folder: Path, words: str) -> str:
    return contest.part(folder, words)


_FILLERS: dict[str, Callable[[Path, str], str]] = {
    "table": _table,
    "tables": _tables,
    "claims": _claims,
    "theory": _theory,
    "published": _published,
    "devices": _devices,
    "effects": _effects,
    "contest": _contest,
    "figure": _figure,
    "run": _run,
    "mean": _mean,
}
