"""From stage to stage: search, choose, evaluate, robust, outside, report.

Stage      Reads                      Leaves
search     train and validation       search.parquet, search.json
choose     search.parquet             chosen.json, chosen.md
evaluate   chosen.json, test parts    rows.parquet, curves.parquet, queries.parquet, run.json
robust     chosen.json, test parts    robust.parquet, robust.json
outside    chosen.json, all parts     outside.parquet, outside.json
report     all of these               table.md, figures

The test parts are opened with a choice that is frozen: the records of `evaluate`, `robust` and
`outside` hold the checksum of chosen.json, and from then on another choice is refused in this
folder. `outside` runs nothing of what was chosen, but what it says of the test parts must not move
a choice either. Where LightGBM is not installed it counts as done, and the report goes without it.
"""

from __future__ import annotations

from collections.abc import Callable

from olrank.errors import unknown_name
from olrank.experiments.contest import stages
from olrank.experiments.contest.ground import Ground

_STAGES: dict[str, Callable[[Ground, stages.Say], None]] = {
    "search": stages.search,
    "choose": stages.choose,
    "evaluate": stages.evaluate,
    "robust": stages.robust,
    "outside": stages.outside,
    "report": stages.report,
}


def run(ground: Ground, stage: str | None = None, say: stages.Say = lambda line: None) -> str:
    """Run a stage, the next one that is not done when None; gives its name."""
    if stage is not None and stage not in _STAGES:
        raise unknown_name("stage", stage, _STAGES, "--stage")
    stage = stage or next_stage(ground)
    ground.out.mkdir(parents=True, exist_ok=True)
    _STAGES[stage](ground, say)
    say(f"{stage}: done." + (f" Next: {next_stage(ground)}." if stage != "report" else ""))
    return stage


def next_stage(ground: Ground) -> str:
    """The first stage that the folder does not hold as the config asks for it."""
    return next(
        (stage for stage in _STAGES if stage != "report" and not ground.is_done(stage)), "report"
    )
