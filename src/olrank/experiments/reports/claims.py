"""The claims of the paper's Section 5, one by one, as comparisons that rows can decide."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import polars as pl

from olrank.experiments.reports.evidence import Cell, Claim, Rows, Sides, Units, judge

OURS = ("olranknet", "ollambdarank")
_DBGD, _PDGD = ("dbgd-linear", "dbgd-neural"), ("pdgd-linear", "pdgd-neural")
BASELINES = ("pairrank", "epsilon-greedy", *_DBGD, *_PDGD)
_LITTLE = 0.02  # of olRankNet's online NDCG: "not very significant"


def _dbgd_worst(rows: Rows) -> Iterator[Sides]:
    others = [name for name in rows.rankers if name not in _DBGD]
    for cell in rows.cells:
        weakest = rows.worst(others, cell, rows.ndcg)
        best = rows.best(_DBGD, cell, rows.ndcg)
        if weakest and best:
            yield _sides(rows, cell, rows.ndcg, weakest, best)


def _dbgd_neural_below_linear(rows: Rows) -> Iterator[Sides]:
    for cell in rows.cells:
        yield _sides(rows, cell, rows.ndcg, *_DBGD)


def _pdgd_above_dbgd(rows: Rows) -> Iterator[Sides]:
    for cell in rows.cells:
        for ours, other in zip(_PDGD, _DBGD, strict=True):
            yield _sides(rows, cell, rows.ndcg, ours, other)


def _pdgd_weakest_navigational(rows: Rows) -> Iterator[Sides]:
    for cell in rows.cells:
        if cell.user == "navigational":
            for ranker in _PDGD:
                for user in ("perfect", "informational"):
                    other = cell._replace(user=user)
                    a, b = (rows.at(ranker, c, rows.ndcg) for c in (other, cell))
                    yield f"{cell.dataset}, {cell.stop}", f"{ranker}: {user} - navigational", a, b


def _pdgd_neural_overtakes_late(rows: Rows) -> Iterator[Sides]:
    linear, neural = _PDGD
    for cell in rows.cells:
        yield _sides(rows, cell, rows.ndcg, linear, neural)
        a, b = rows.longer(neural, cell), rows.longer(linear, cell)
        yield str(cell), f"{neural} - {linear} after {_last(rows)} rounds", a, b


def _ours_above_longer_pdgd(rows: Rows) -> Iterator[Sides]:
    for cell in rows.cells:
        means = {name: rows.longer(name, cell)["value"].mean() for name in _PDGD}
        there = {name: mean for name, mean in means.items() if mean is not None}
        if there:
            other = max(there, key=lambda name: there[name])
            for ours in OURS:
                what = f"{ours} - {other} after {_last(rows)} rounds"
                yield str(cell), what, rows.at(ours, cell, rows.ndcg), rows.longer(other, cell)


def _worse_start_than_pairrank(rows: Rows) -> Iterator[Sides]:
    early = rows.near(0.02)
    for cell in rows.cells:
        for ours in OURS:
            yield _sides(rows, cell, rows.ndcg, "pairrank", ours, early)
            yield _sides(rows, cell, rows.ndcg, ours, "pairrank")


def _lambda_above_ranknet(rows: Rows) -> Iterator[Sides]:
    for cell in rows.cells:
        yield _sides(rows, cell, rows.ndcg, "ollambdarank", "olranknet")


def _little_difference_online(rows: Rows) -> Iterator[Sides]:
    for cell in rows.cells:
        ours, other = (rows.at(name, cell, "online_ndcg") for name in ("ollambdarank", "olranknet"))
        if not other.is_empty():
            room = _LITTLE * float(other["value"].mean())  # type: ignore[arg-type]
            raised, lowered = _moved(ours, room), _moved(ours, -room)
            said = f"ollambdarank - olranknet, online, {{}} {_LITTLE:.0%} of the latter"
            yield str(cell), said.format("plus"), raised, other
            yield str(cell), said.format("minus") + ", turned round", other, lowered


def _best_online(rows: Rows) -> Iterator[Sides]:
    yield from _above_best(rows, "online_ndcg")


def _best_offline(rows: Rows) -> Iterator[Sides]:
    yield from _above_best(rows, rows.ndcg)


def _above_best(rows: Rows, metric: str) -> Iterator[Sides]:
    for cell in rows.cells:
        other = rows.best(BASELINES, cell, metric)
        for ours in OURS:
            if other:
                yield _sides(rows, cell, metric, ours, other)


def _certain_rises_fast(rows: Rows) -> Iterator[Sides]:
    first, fifth, last = rows.rounds[0], rows.near(0.2), rows.rounds[-1]
    for cell in rows.cells:
        a = rows.at("olranknet", cell, "certain_ratio", fifth)
        ends = [rows.at("olranknet", cell, "certain_ratio", at) for at in (first, last)]
        half = pl.concat(ends).group_by("fold", "seed").agg(pl.col("value").mean())
        yield str(cell), f"ratio after {fifth:,} rounds - half way to the last", a, half


def _certain_slowest_navigational(rows: Rows) -> Iterator[Sides]:
    fifth = rows.near(0.2)
    for cell in rows.cells:
        if cell.user == "navigational":
            for user in ("perfect", "informational"):
                a, b = (
                    rows.at("olranknet", c, "certain_ratio", fifth)
                    for c in (cell._replace(user=user), cell)
                )
                what = f"ratio after {fifth:,} rounds: {user} - navigational"
                yield f"{cell.dataset}, {cell.stop}", what, a, b


_CLAIMS: dict[str, tuple[str, Callable[[Rows], Iterator[Sides]]]] = {
    "dbgd-worst": ("DBGD, linear and neural, is the worst offline everywhere.", _dbgd_worst),
    "dbgd-neural": ("Neural DBGD is worse than linear.", _dbgd_neural_below_linear),
    "pdgd-dbgd": ("PDGD stands above DBGD.", _pdgd_above_dbgd),
    "pdgd-navigational": (
        "PDGD is weakest with navigational users.",
        _pdgd_weakest_navigational,
    ),
    "pdgd-neural-late": (
        "PDGD's neural ranker overtakes its linear one only after many more rounds.",
        _pdgd_neural_overtakes_late,
    ),
    "ours-early": (
        "olRankNet and olLambdaRank after T rounds stand above PDGD after four times as many.",
        _ours_above_longer_pdgd,
    ),
    "pairrank-start": (
        "Ours start worse than PairRank, and end better.",
        _worse_start_than_pairrank,
    ),
    "lambda-offline": ("olLambdaRank stands above olRankNet offline.", _lambda_above_ranknet),
    "lambda-online": (
        f"Online the two differ little (by less than {_LITTLE:.0%}).",
        _little_difference_online,
    ),
    "best-offline": ("Ours are above every baseline offline, everywhere.", _best_offline),
    "best-online": ("Ours are above every baseline online, everywhere.", _best_online),
    "certain-fast": (
        "The ratio of certain orders rises fast: more than half of its rise in a fifth of the run.",
        _certain_rises_fast,
    ),
    "certain-navigational": (
        "It rises most slowly with navigational users.",
        _certain_slowest_navigational,
    ),
}


def check_claims(rows: pl.DataFrame, longer: pl.DataFrame | None = None) -> list[Claim]:
    """Every claim with its verdict.

    Args:
        rows: of one setting a ranker in every cell; see `rows.choice`.
        longer: PDGD's after more rounds.
    """
    asked = Rows(rows, longer)
    return [judge(name, says, list(ask(asked))) for name, (says, ask) in _CLAIMS.items()]


def _sides(rows: Rows, cell: Cell, metric: str, a: str, b: str, at: int | None = None) -> Sides:
    after = "" if at is None else f" after {at:,} rounds"
    online = ", online" if metric == "online_ndcg" else ""
    left, right = rows.at(a, cell, metric, at), rows.at(b, cell, metric, at)
    return str(cell), f"{a} - {b}{online}{after}", left, right


def _moved(units: Units, by: float) -> Units:
    return units.with_columns(pl.col("value") + by)


def _last(rows: Rows) -> str:
    return f"{rows.longer_rounds[-1]:,}" if rows.longer_rounds else "more"
