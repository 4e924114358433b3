import json
import os
from pathlib import Path

import polars as pl
import pytest
from experiments.made_rows import made_rows, made_value
from rich.console import Console

from olrank.errors import DataError
from olrank.experiments import results


def printed(summary: pl.DataFrame) -> str:
    console = Console(width=100, color_system=None)
    with console.capture() as captured:
        console.print(results.table(summary))
    return captured.get()


def test_a_summary_is_the_mean_over_folds_and_seeds_at_the_last_round():
    summary = results.summarise(made_rows(folds=("1", "2"), seeds=(0, 1, 2)))
    line = summary.row(
        by_predicate=(pl.col("ranker") == "pdgd-linear") & (pl.col("metric") == "regret"),
        named=True,
    )
    last = [made_value("regret", "pdgd-linear", seed, 100) for seed in (0, 1, 2)]
    assert line["mean"] == pytest.approx(sum(last) / 3)
    assert min(last) <= line["low"] < line["mean"] < line["high"] <= max(last)
    assert (line["n"], line["round"]) == (2 * 3, 100)


def test_a_ranker_without_certain_ratio_has_no_line_for_it():
    missing = pl.when(pl.col("ranker") == "olranknet").then(float("nan")).otherwise(pl.col("value"))
    summary = results.summarise(made_rows().with_columns(value=missing))
    assert "olranknet" not in summary["ranker"]
    assert "certain_ratio" not in summary["metric"]


def test_the_table_has_a_block_a_user_and_a_line_a_ranker():
    text = printed(results.summarise(made_rows(users=("perfect", "random"))))
    assert text.count("perfect user, stop rule clicked, made") == 1
    assert text.count("random user, stop rule clicked, made") == 1
    assert text.count("pdgd-linear") == 2
    assert "Mean and 95% bootstrap interval over 2 runs" in text


def test_the_table_prints_mean_and_interval_without_leading_zero():
    line = results.summarise(made_rows()).row(
        by_predicate=(pl.col("ranker") == "olranknet") & (pl.col("metric") == "ndcg@10"), named=True
    )
    # Seeds 0 and 1 at round 100: 0.01 * (9 + 2) + 0.01 * seed.
    assert line["mean"] == pytest.approx((0.11 + 0.12) / 2)
    assert ".115 .110–.120" in printed(results.summarise(made_rows()))


def test_a_single_run_is_printed_without_an_interval():
    text = printed(results.summarise(made_rows(seeds=(0,))))
    assert "–" not in text
    assert "nan" not in text
    assert "One run, after 100 rounds." in text


def test_another_cut_off_heads_its_column():
    rows = made_rows().with_columns(pl.col("metric").str.replace("ndcg@10", "ndcg@5", literal=True))
    assert "offline NDCG@5" in printed(results.summarise(rows))


def test_settled_rows_keep_names_as_met_and_sort_numbers():
    rows = made_rows(rankers=("skyline", "olranknet"), users=("perfect", "informational"))
    settled = results.settle(rows.sort("seed", descending=True, maintain_order=True))
    assert settled["ranker"].unique(maintain_order=True).to_list() == ["skyline", "olranknet"]
    assert settled["user"].unique(maintain_order=True).to_list() == ["perfect", "informational"]
    assert settled["seed"][0] == 0
    assert settled.columns == [*results.KEYS, "conventions", "value"]


def test_equal_rows_are_written_as_equal_bytes(tmp_path: Path):
    results.write_rows(made_rows(), tmp_path / "a.parquet")
    results.write_rows(made_rows().sort("round", maintain_order=True), tmp_path / "b.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_rows_come_back_as_they_were_written(tmp_path: Path):
    results.write_rows(made_rows(), tmp_path / "rows.parquet")
    assert results.read_rows(tmp_path).equals(results.settle(made_rows()))


def test_a_folder_without_rows_is_told(tmp_path: Path):
    with pytest.raises(DataError, match="rows.parquet: not there"):
        results.read_rows(tmp_path)


def test_a_file_that_is_not_parquet_is_told(tmp_path: Path):
    (tmp_path / "rows.parquet").write_text("hello")
    with pytest.raises(DataError, match="cannot be read as parquet"):
        results.read_rows(tmp_path)


def test_rows_without_a_column_are_told(tmp_path: Path):
    made_rows().drop("stop").write_parquet(tmp_path / "rows.parquet")
    with pytest.raises(DataError, match="has no column stop"):
        results.read_rows(tmp_path)


def test_what_json_cannot_say_is_null(tmp_path: Path):
    results.write_json({"a": [float("nan"), 1.5], "b": float("inf")}, tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text()) == {"a": [None, 1.5], "b": None}


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path):
    path = tmp_path / "file"
    path.write_text("old")

    def fail(partial: Path) -> None:
        partial.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        results.atomically(path, fail)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["old"]


def test_a_file_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (done.append("flush"), fsync(handle)))
    monkeypatch.setattr(
        Path, "replace", lambda self, to: (done.append("name"), replace(self, to))[1]
    )
    results.write_text("new", tmp_path / "file")
    assert done == ["flush", "name", "flush"]  # the file, its name, the folder
    assert (tmp_path / "file").read_text() == "new"


def test_the_settings_that_do_best_on_validation_data_are_chosen_for_each_user():
    """Point b is best for "perfect" on validation data though worse on test data."""
    values = {  # (user, settings): (validation, test)
        ("perfect", "a"): (0.5, 0.9),
        ("perfect", "b"): (0.6, 0.1),
        ("random", "a"): (0.4, 0.2),
        ("random", "b"): (0.3, 0.8),
        ("random", "c"): (float("nan"), 0.9),  # it diverged
    }
    lines = [
        {
            "ranker": "olranknet", "settings": point, "dataset": "made", "fold": "1",
            "user": user, "stop": "clicked", "seed": seed, "round": at, "metric": metric,
            "value": pair[metric == "ndcg@10"] if at == 10 else 1.0 - pair[0],
        }
        for (user, point), pair in values.items()
        for seed in (0, 1)
        for at in (1, 10)
        for metric in ("ndcg@10", "validation_ndcg@10")
    ]  # fmt: skip
    alone = made_rows(rankers=("pdgd-linear",)).with_columns(settings=pl.lit(""))
    chosen = results.select(pl.concat([pl.DataFrame(lines), alone], how="diagonal"))
    kept = chosen.filter(ranker="olranknet").select("user", "settings").unique().sort("user")
    assert kept.rows() == [("perfect", "b"), ("random", "a")]
    assert chosen.filter(ranker="pdgd-linear").height == alone.height


def test_the_tables_of_a_page_hold_the_summary_s_numbers():
    page = results.markdown(results.summarise(made_rows(seeds=(0, 1))))
    head, rule, *lines = page.splitlines()[2:6]
    columns = "| ranker | offline NDCG@10 | online NDCG | regret | certain ratio |"
    assert head == columns
    assert rule == "|---|---|---|---|---|"
    # olranknet after 100 rounds, seeds 0 and 1: .01 * (9 + 2) and .01 more.
    mean = made_value("ndcg@10", "olranknet", 0, 100) + 0.005
    assert lines[0].startswith(f"| olranknet | {mean:.3f} (".replace("0.", "."))
    assert lines[1].endswith("| - |")  # no certain ratio
    assert "over 2 runs" in page
