"""Settings are chosen on the validation part, for each user and stop rule."""

import polars as pl
from experiments.made_rows import made_rows

from olrank.experiments.rows import choice


def judged(values: dict[tuple[str, str], float], user: str = "perfect") -> pl.DataFrame:
    lines = [
        (ranker, "made", "1", user, "clicked", settings, seed, 20, "validation_ndcg@10", value)
        for (ranker, settings), value in values.items()
        for seed in (1000, 1001)
    ]
    columns = ["ranker", "dataset", "fold", "user", "stop", "settings", "seed", "round", "metric"]
    return pl.DataFrame(lines, [*columns, "value"], orient="row")


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
    chosen = choice.select(pl.concat([pl.DataFrame(lines), alone], how="diagonal"))
    kept = chosen.filter(ranker="olranknet").select("user", "settings").unique().sort("user")
    assert kept.rows() == [("perfect", "b"), ("random", "a")]
    assert chosen.filter(ranker="pdgd-linear").height == alone.height
    assert chosen["ranker"].unique(maintain_order=True).to_list() == ["olranknet", "pdgd-linear"]


def test_settings_are_chosen_by_their_mean_on_the_validation_part():
    rows = judged({("a", "x=1"): 0.4, ("a", "x=2"): 0.6, ("b", "y=1"): 0.1})
    chosen = choice.choose(rows)
    assert chosen["a", "made", "1", "perfect", "clicked"] == "x=2"
    assert chosen["b", "made", "1", "perfect", "clicked"] == "y=1"


def test_a_run_that_came_to_nothing_is_never_chosen():
    chosen = choice.choose(judged({("a", "x=1"): float("nan"), ("a", "x=2"): 0.1}))
    assert chosen["a", "made", "1", "perfect", "clicked"] == "x=2"


def test_rows_of_settings_that_were_not_chosen_are_left_out():
    rows = judged({("a", "x=1"): 0.4, ("a", "x=2"): 0.6})
    kept = choice.keep_chosen(rows, choice.choose(rows))
    assert kept["settings"].unique().to_list() == ["x=2"]


def test_rankers_keep_their_order_whether_they_were_searched_or_not():
    rows = judged({("a", "x=1"): 0.4, ("b", "y=1"): 0.1, ("b", "y=2"): 0.2, ("c", ""): 0.3})
    chosen = {key: label for key, label in choice.choose(rows).items() if key[0] == "b"}
    kept = choice.keep_chosen(rows, chosen)
    assert kept.select("ranker", "settings").unique(maintain_order=True).rows() == [
        ("a", "x=1"),
        ("b", "y=2"),
        ("c", ""),
    ]
