"""What an experiment leaves behind: rows.parquet and files beside it, whole or not at all.

Rows are long: one value a line, keyed by ranker, dataset, fold, user, stop, seed, round and metric.
Everything else, tables and figures, is drawn from them. Where a run was asked for it, every
held-out query's last value lies in queries.parquet beside them, for a bootstrap over queries.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from olrank.errors import DataError

KEYS = ("ranker", "settings", "dataset", "fold", "user", "stop", "seed", "round", "metric")
QUERY_KEYS = (
    "dataset", "fold", "ranker", "settings", "user", "stop", "seed", "query", "metric"
)  # fmt: skip


def write_rows(rows: pl.DataFrame, path: Path) -> None:
    """The rows as parquet, sorted, so that equal rows are equal bytes."""
    settled = settle(rows)
    atomically(path, lambda partial: settled.write_parquet(partial, compression="zstd"))


def write_queries(queries: pl.DataFrame, path: Path) -> None:
    """Held-out queries one by one, as parquet: `QUERY_KEYS` and the value, sorted by these keys."""
    named = queries.select(*QUERY_KEYS, pl.col("value").cast(pl.Float32))
    settled = settle(named, QUERY_KEYS)
    atomically(path, lambda partial: settled.write_parquet(partial, compression="zstd"))


def apart(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows of whole sets, and those of single queries, which have a `query`."""
    if "query" not in rows.columns:
        return rows, rows.clear()
    single = pl.col("query").is_not_null()
    return rows.filter(~single).drop("query"), rows.filter(single)


def settle(rows: pl.DataFrame, by: Sequence[str] = KEYS) -> pl.DataFrame:
    """The rows in their one order: names as first met (a config's order), numbers ascending."""
    keys = [name for name in by if name in rows.columns]
    others = [name for name in rows.columns if name not in by and name != "value"]
    order = [_as_met(rows, name) if rows[name].dtype == pl.String else name for name in keys]
    return rows.sort(order, maintain_order=True).select(*keys, *others, "value")


def _as_met(rows: pl.DataFrame, column: str) -> pl.Expr:
    met = rows[column].unique(maintain_order=True).to_list()
    places = {name: place for place, name in enumerate(met)}
    return pl.col(column).replace_strict(places, return_dtype=pl.Int64)


def read_rows(path: Path) -> pl.DataFrame:
    """The rows of a finished run: a rows.parquet, or the folder that holds it."""
    return _read(path / "rows.parquet" if path.is_dir() else path, KEYS)


def read_queries(path: Path) -> pl.DataFrame:
    """The held-out queries of a finished run: a queries.parquet, or the folder that holds it."""
    file = path / "queries.parquet" if path.is_dir() else path
    if path.is_dir() and not file.is_file() and (path / "rows.parquet").is_file():
        raise DataError(f"{path}: kept no queries. Run it with per_query = true under [run].")
    return _read(file, QUERY_KEYS)


def _read(file: Path, keys: Sequence[str]) -> pl.DataFrame:
    if not file.is_file():
        raise DataError(f'{file}: not there. Name a folder that "olrank run" has filled.')
    try:
        rows = pl.read_parquet(file)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{file}: cannot be read as parquet ({error}). Run it again.") from error
    missing = [name for name in (*keys, "value") if name not in rows.columns]
    if missing:
        raise DataError(f"{file}: has no column {', '.join(missing)}; these are not olrank's rows.")
    return rows


def write_json(content: Any, path: Path) -> None:
    """Indented JSON with a newline at its end; NaN and infinity are written as null."""
    text = json.dumps(_finite(content), indent=2, ensure_ascii=False, allow_nan=False)
    write_text(text + "\n", path)


def write_text(text: str, path: Path) -> None:
    """Text as UTF-8, all of it or nothing."""
    atomically(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    if isinstance(content, float) and not -float("inf") < content < float("inf"):
        return None
    return content


def atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file beside this path, then put it in place: all of it, or nothing.

    It is on the disk before it has its name: a power cut leaves the old file or the new one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    partial = Path(name)
    try:
        write(partial)
        partial.chmod(0o666 & ~_umask())  # mkstemp's files are private; results are not
        _flush(partial)
        partial.replace(path)
        if os.name == "posix":  # elsewhere a folder cannot be opened
            _flush(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
