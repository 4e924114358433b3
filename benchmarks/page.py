"""Write docs/speed.md: every number from benchmarks/results/ and the service's reports in docs/.

Run it as `python benchmarks/page.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from olrank.experiments.rows.markdown import table_head, table_line

ROOT = Path(__file__).resolve().parents[1]
RESULTS, DOCS = ROOT / "benchmarks" / "results", ROOT / "docs"
PAGE = DOCS / "speed.md"

# What we aim for, in us a replica-round: on two cores of a processor, on one H200.
_AIMS = {
    ("web10k", "olranknet"): (5_000, 25),
    ("yahoo", "olranknet"): (15_000, 25),
    ("mq2008", "olranknet"): (1_500, 8),
    ("web10k", "pairrank"): (4_000, 40),
    ("web10k", "pdgd-linear"): (300, 5),
    ("web10k", "pdgd-neural"): (300, 5),
    ("web10k", "dbgd-linear"): (300, 5),
    ("web10k", "dbgd-neural"): (300, 5),
    ("web10k", "olranknet, full A"): (None, 4_000),
}
_STOLEN = ("stolen", "stolen_in_the_worst_second")  # of the cores, by the host
_RATIOS = ("plain_ratio", "oracle_ratio")
_WHOLE = {"comparison": 300, "grid": 240}  # seconds

_HEAD = """# Speed

Written by `python benchmarks/page.py` from the files that the benchmarks write; a test fails when
it is stale. `make bench` measures the rounds, `make loadtest` the service.

## A round of a simulation

Query, ranking, clicks, metrics and learning of one replica, in microseconds; m = 100, k = 10, five
steps of 256 pairs; synthetic data of the named shape; compilation not counted. *At 5,000*: the
last thousand of 5,000 rounds as they went (the mean of all rounds where that was not kept).
*Growth*: the first rounds' queries met again after 5,000 rounds, against the first time. *Plain
scan*: how many times longer the core takes without the engine's buckets; *oracle*: how many times
longer the literal NumPy transcription of the paper takes; both in the same run. *Released*: the
authors' or the best public code on two cores of another machine.
"""

_HOLDS_BACK = """## What holds it back

Measured are the shares of the ceilings and the speed of small products above. The rest of this
section is how we read the code; no profile was taken.

On a GPU, a round of olRankNet writes the product of squared differences and 1 / A once and reads it
once to sum it up, so memory is the nearer ceiling, and much of the round is a chain of small
kernels. With a full A, rank and update each read the inverse of 13,700 x 13,700 whole, in plain
float32; inverting half as often hardly moved it. Its growth may be no more than inversions falling
into the rounds that are timed.

On a processor, the products alone take longer than the aim at WEB10K's shape (above). PairRank's
exact refit reads all pairs it remembers: that is its growth. The rounds of DBGD and PDGD are many
small operations.

How the tables came about: the GPU's lines are from two runs, PairRank and the full A after several
seeds were served at once, the others before; the whole experiments are older still. The
processor's lines are from two runs, too: the first was stopped after four lines, which were taken
from what it had printed; the ceilings were measured once more at the end.
"""


def text() -> str:
    """The page."""
    parts = [_HEAD]
    for path in sorted(RESULTS.glob("rounds-*.json")):
        parts += _rounds(json.loads(path.read_text()), on_gpu="cpu" not in path.name)
    for path in sorted(RESULTS.glob("comparison-*.json")):
        parts += _whole(json.loads(path.read_text()))
    parts.append(_HOLDS_BACK)
    load, recovery = DOCS / "loadtest.json", DOCS / "recovery.json"
    if load.is_file():
        parts += _load(json.loads(load.read_text()))
    if recovery.is_file():
        found = json.loads(recovery.read_text())
        facts = [f"- {name.replace('_', ' ')}: {value}" for name, value in found.items()]
        parts += ["## Recovery of the service", "", "\n".join([*facts, ""])]
    return "\n".join(parts)


def _rounds(found: dict[str, Any], on_gpu: bool) -> list[str]:
    lines = [f"### {found['device']}, JAX {found['jax']}", ""]
    lines += table_head(
        "shape", "ranker", "replicas", "at 5,000", "aim", "growth", "plain scan", "oracle",
        "released",
    )  # fmt: skip
    for line in found["lines"]:
        aim = _AIMS.get((line["shape"], line["name"]), (None, None))[on_gpu]
        spent = line.get("last_us", line["mean_us"])
        shown = f"{spent:,.1f}" if aim is None or spent <= aim else f"**{spent:,.1f}**"
        lines.append(table_line([
            line["shape"], line["name"], line["batch"], shown, "" if aim is None else f"{aim:,}",
            f"{line['growth']:.2f}",
            *(f"{line[key]:.1f} x" if key in line else "" for key in _RATIOS),
            f"{line['released_ms']:g} ms" if line["released_ms"] else "",
        ]))  # fmt: skip
    lines += ["", "Bold: short of the aim."]
    small = found["ceilings"].get("matmul of a round's size, GFLOP/s")
    for shape, far in found["limits of olranknet"].items():
        share = f"{far['share of the nearer ceiling']:.0%}"
        lines += ["", (
            f"olRankNet at {shape}'s shape: {far['GFLOP']:.2f} GFLOP and {far['MB']:.1f} MB a "
            f"round, padding included. At this device's own speed for large matrix products that "
            f"is {far['us at the matrix ceiling']:,.1f} us, for copies "
            f"{far['us at the copy ceiling']:,.1f} us; measured {far['us measured']:,.1f} us, so "
            f"it runs at {share} of the nearer ceiling."
            + _at_small_products(far, small if not on_gpu else None)
        )]  # fmt: skip
    return [*lines, ""]


def _at_small_products(far: dict[str, Any], small: float | None) -> str:
    if small is None:
        return ""
    return (
        f" Products of a round's size (512 x 136 by 136 x 100) reach {small:.0f} GFLOP/s here; at "
        f"that speed they alone take {far['GFLOP'] / small * 1e6:,.0f} us."
    )


def _whole(found: dict[str, Any]) -> list[str]:
    what = {
        "comparison": "9 rankers x 3 users x 10 seeds x 5,000 rounds, evaluated every 100 rounds",
        "grid": "olRankNet, 48 settings x 3 users x 10 seeds x 5,000 rounds, one fold",
    }
    lines = [f"## Whole experiments at WEB10K's shape, {found['device']}", ""]
    lines += table_head("experiment", "seconds, compilation included", "aim")
    lines += [
        table_line([text, f"{found[name]['seconds']:.0f}", _WHOLE[name]])
        for name, text in what.items()
    ]
    return [*lines, ""]


def _named(found: dict[str, Any]) -> str:
    """The ranker, and its settings where any were given."""
    given = ", ".join(f"{name} = {value}" for name, value in found["settings"].items())
    return f"{found['ranker']} ({given})" if given else str(found["ranker"])


def _load(found: dict[str, Any]) -> list[str]:
    lines = [
        "## The service under load", "",
        f"The ranker is {_named(found)}; {found['cores']} cores for generator, HTTP process and "
        "learner; open loop; each ranking "
        f"of {found['candidates']} candidates x {found['features']} features is followed by its "
        "feedback. A rate holds with p99 of at most 50 ms for rankings and 25 ms for feedback and "
        "a learner less than 5 s behind. Requests come at random times, so that a stretch of 600 s "
        "may take a little less or more; one that cannot hold any more ends early. Stolen is what "
        "the host gave to other machines; calm p99 is that of the rankings (their share in "
        "brackets) of seconds in which it gave them next to nothing.", "",
        *([found["note"], ""] if "note" in found else []),
    ]  # fmt: skip
    lines += table_head(
        "a second", "for", "learning", "rank p50, p99", "feedback p50, p99", "calm p99",
        "failed", "lag", "generator, http, learner", "stolen, worst second", "http MB",
        "learner MB", "holds",
    )  # fmt: skip
    for run in [*found["tried"], *found["held"]]:
        lines.append(table_line([
            f"{run['rate']:g}", f"{run['seconds']:.0f} s", "on" if run["learning"] else "off",
            *(f"{run[key]['p50']}, {run[key]['p99']} ms" for key in ("rank_ms", "feedback_ms")),
            _calm(run), run["failed"], f"{run['largest_lag_s']} s",
            *(
                ", ".join(f"{run['cores'][name]:.2f}" for name in names) + " cores"
                for names in (("generator", "http", "learner"), _STOLEN)
            ),
            *(f"{run[key][0]} to {run[key][1]}" for key in ("http_mb", "learner_mb")),
            "yes" if run["holds"] else "no",
        ]))  # fmt: skip
    return [*lines, ""]


def _calm(run: dict[str, Any]) -> str:
    calm = run.get("rank_ms_undisturbed", {"share": 0.0})
    if not calm["share"]:
        return ""
    return f"{calm['p99']} ms ({calm['share']:.0%})"


if __name__ == "__main__":
    PAGE.write_text(text())
    print(PAGE)
