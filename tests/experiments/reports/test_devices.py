"""Devices that draw differently are told apart, by mean or by spread; others are not."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from experiments.made_rows import made_rows

from olrank.errors import DataError
from olrank.experiments.reports import devices
from olrank.experiments.rows import files

SEEDS = range(40)


def compared(folder: Path, there: pl.Expr, seeds=SEEDS) -> pl.DataFrame:
    """Noise of two devices around the same values, `there` in place of the second's value."""
    rows = made_rows(seeds=SEEDS)
    for name, of, seed, value in (("cpu", SEEDS, 1, pl.col("value")), ("gpu", seeds, 2, there)):
        noise = np.random.default_rng(seed).normal(scale=0.05, size=len(rows))
        noisy = rows.with_columns(value=value + pl.Series(noise)).filter(pl.col("seed").is_in(of))
        files.write_rows(noisy, folder / name / "rows.parquet")
    return devices.compare(folder / "cpu", folder / "gpu")


IS_NDCG = pl.col("metric") == "ndcg@10"


def test_noise_alone_agrees(tmp_path: Path):
    found = compared(tmp_path, pl.col("value"))
    assert found["agrees"].all()
    assert set(found["n"]) == {40}
    assert set(found["metric"]) == {"ndcg@10", "online_ndcg", "regret", "certain_ratio"}


def test_another_mean_is_found_and_its_size_told(tmp_path: Path):
    found = compared(tmp_path, pl.when(IS_NDCG).then(pl.col("value") + 0.1).otherwise("value"))
    apart = found.filter(~pl.col("agrees"))
    assert set(apart["metric"]) == {"ndcg@10"}
    assert len(apart) == 2  # rankers
    for line in apart.iter_rows(named=True):
        assert line["low"] < 0.1 < line["high"]
        assert line["p_mean"] < 0.05


def test_another_spread_around_the_same_mean_is_found(tmp_path: Path):
    swing = pl.when(pl.col("seed") % 2 == 0).then(1.0).otherwise(-1.0)
    found = compared(tmp_path, pl.when(IS_NDCG).then(pl.col("value") + swing).otherwise("value"))
    apart = found.filter(~pl.col("agrees"))
    assert set(apart["metric"]) == {"ndcg@10"}
    assert apart["p_mean"].min() > 0.05
    assert apart["p_shape"].max() < 0.05


def test_only_runs_of_both_are_compared(tmp_path: Path):
    found = compared(tmp_path, pl.col("value"), seeds=range(10, 20))
    assert set(found["n"]) == {10}
    text = devices.markdown(found, "cpu", "gpu")
    assert len(text.splitlines()) == 2 + len(found)
    with pytest.raises(DataError, match="no run of the one is also in the other"):
        compared(tmp_path / "none", pl.col("value"), seeds=[])
