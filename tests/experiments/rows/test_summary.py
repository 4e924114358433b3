"""Where rankers ended: means over folds and seeds, and how tables print them."""

import polars as pl
import pytest
from experiments.made_rows import made_rows, made_value
from rich.console import Console

from olrank.experiments.rows.summary import markdown, summarise, table


def printed(summary: pl.DataFrame) -> str:
    console = Console(width=100, color_system=None)
    with console.capture() as captured:
        console.print(table(summary))
    return captured.get()


def test_a_summary_is_the_mean_over_folds_and_seeds_at_the_last_round():
    summary = summarise(made_rows(folds=("1", "2"), seeds=(0, 1, 2)))
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
    summary = summarise(made_rows().with_columns(value=missing))
    assert "olranknet" not in summary["ranker"]
    assert "certain_ratio" not in summary["metric"]


def test_the_table_has_a_block_a_user_and_a_line_a_ranker():
    text = printed(summarise(made_rows(users=("perfect", "random"))))
    assert text.count("perfect user, stop rule clicked, made") == 1
    assert text.count("random user, stop rule clicked, made") == 1
    assert text.count("pdgd-linear") == 2
    assert "Mean and 95% bootstrap interval over 2 runs" in text


def test_the_table_prints_mean_and_interval_without_leading_zero():
    line = summarise(made_rows()).row(
        by_predicate=(pl.col("ranker") == "olranknet") & (pl.col("metric") == "ndcg@10"), named=True
    )
    # Seeds 0 and 1 at round 100: 0.01 * (9 + 2) + 0.01 * seed.
    assert line["mean"] == pytest.approx((0.11 + 0.12) / 2)
    assert ".115 .110–.120" in printed(summarise(made_rows()))


def test_a_single_run_is_printed_without_an_interval():
    text = printed(summarise(made_rows(seeds=(0,))))
    assert "–" not in text
    assert "nan" not in text
    assert "One run, after 100 rounds." in text


def test_another_cut_off_heads_its_column():
    rows = made_rows().with_columns(pl.col("metric").str.replace("ndcg@10", "ndcg@5", literal=True))
    assert "offline NDCG@5" in printed(summarise(rows))


def test_the_tables_of_a_page_hold_the_summary_s_numbers():
    page = markdown(summarise(made_rows(seeds=(0, 1))))
    head, rule, *lines = page.splitlines()[2:6]
    columns = "| ranker | offline NDCG@10 | online NDCG | regret | certain ratio |"
    assert head == columns
    assert rule == "|---|---|---|---|---|"
    # olranknet after 100 rounds, seeds 0 and 1: .01 * (9 + 2) and .01 more.
    mean = made_value("ndcg@10", "olranknet", 0, 100) + 0.005
    assert lines[0].startswith(f"| olranknet | {mean:.3f} (".replace("0.", "."))
    assert lines[1].endswith("| - |")  # no certain ratio
    assert "over 2 runs" in page
