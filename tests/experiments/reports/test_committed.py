"""What the committed experiments claim, read from their rows."""

from pathlib import Path

import polars as pl
import pytest

from olrank.experiments.reports import contest, devices, published
from olrank.experiments.rows import choice, files
from olrank.experiments.rows.summary import markdown, summarise
from olrank.metrics.compare import paired

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
USERS = ("perfect", "navigational", "informational")


def offline(rows: pl.DataFrame, ranker: str, user: str, at: int):
    chosen = rows.filter(ranker=ranker, user=user, metric="ndcg@10", round=at)
    return chosen.sort("fold", "seed")["value"].to_numpy()


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("preset", ["olranknet paper", "olranknet released"])
def test_both_presets_beat_a_random_order_and_their_own_first_round(preset, user):
    rows = files.read_rows(EXPERIMENTS / "mq2008-presets")
    last = int(rows["round"].max())
    ours = offline(rows, preset, user, last)
    assert len(ours) == 5 * 3  # folds x seeds
    against_random = paired(ours, offline(rows, "random order", user, last))
    assert against_random.low > 0.05
    assert against_random.p_value < 0.01
    # One round's ranker varies a lot between seeds, so this is the weaker statement.
    against_itself = paired(ours, offline(rows, preset, user, 1))
    assert against_itself.low > 0
    assert against_itself.p_value < 0.05


def test_pdgd_stands_above_dbgd_for_the_informational_user():
    rows = files.read_rows(EXPERIMENTS / "mq2008-baselines")
    last = int(rows["round"].max())
    ours, other = (
        offline(rows, name, "informational", last) for name in ("pdgd-linear", "dbgd-linear")
    )
    assert paired(ours, other).low > 0


def test_a_gpu_draws_from_the_distributions_of_a_cpu():
    compared = devices.compare(EXPERIMENTS / "devices", EXPERIMENTS / "devices" / "gpu")
    assert len(compared) >= 11 * 2 * 3  # rankers x users x metrics, some with certain orders
    assert compared["n"].min() >= 15
    assert compared.filter(~pl.col("agrees")).is_empty()


@pytest.mark.parametrize("name", ["mq2008-baselines", "mq2008-pdgd-batch"])
def test_the_comparison_with_published_numbers_is_that_of_the_rows(name):
    folder = EXPERIMENTS / name
    compared = published.compare(folder)
    assert (folder / "published.md").read_text() == published.markdown(compared)
    apart = compared.filter(~pl.col("agrees")).select("ranker", "user", "round", "metric").rows()
    assert apart == []


@pytest.mark.parametrize(
    "folder",
    sorted({file.parent for file in EXPERIMENTS.glob("*/r*.parquet")}),
    ids=lambda folder: folder.name,
)
def test_every_committed_table_is_drawn_from_its_rows(folder):
    if contest.is_contest(folder):
        assert (folder / "table.md").read_text() == contest.text(folder)
        return
    summary = summarise(choice.select(files.read_rows(folder)))
    assert (folder / "table.md").read_text() == markdown(summary)
