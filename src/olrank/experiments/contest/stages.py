"""The stages of a contest; contest.py says what each reads and leaves."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from olrank.engine.measure import Options
from olrank.experiments.contest import earlier, entrants
from olrank.experiments.contest import outside as skyline
from olrank.experiments.contest.arena import (
    Arena,
    evaluate_arenas,
    first_folds,
    search_arenas,
    with_seeds,
)
from olrank.experiments.contest.choose import choose as choose_from
from olrank.experiments.contest.config import Contest, EvaluateConfig, RobustConfig
from olrank.experiments.contest.ground import Ground, checksum
from olrank.experiments.contest.tasks import Entrant, make_jobs
from olrank.experiments.reports import chosen as chosen_page
from olrank.experiments.reports import contest as reported
from olrank.experiments.rows import files
from olrank.experiments.running import lambdamart
from olrank.experiments.running.config import StageConfig
from olrank.experiments.running.device import use_device
from olrank.experiments.running.jobs import Job, Runner

_BEFORE_REPORT = ("search", "choose", "evaluate", "robust", "outside")
_CURVES = ("ranker", "dataset", "fold", "user", "stop", "round", "metric")

Say = Callable[[str], None]


def search(ground: Ground, say: Say) -> None:
    """Every grid point on the train parts, judged on the validation parts."""
    contest, stage = ground.contest, ground.contest.search
    arenas = search_arenas(contest)
    options = _options(contest, stage, evaluate_after=(stage.rounds,))
    used = [arena.used for arena in arenas]
    earlier.check(ground, "search", used)
    say(f"search: every grid on {len(arenas)} folds, judged on their validation parts.")

    def jobs(device: str) -> list[Job]:
        return [
            job
            for arena in arenas
            for field_ in [earlier.to_run(ground, entrants.searched(contest, arena.dataset))]
            for title, some in _apart(field_).items()
            for job in make_jobs(title, arena, some, options, device, stage.replicas_at_once)
        ]

    rows, parts = _finish(ground, jobs)
    offline = pl.col("metric").str.starts_with("validation_")
    kept = rows.filter(offline | (pl.col("metric") == "online_ndcg")).drop("condition")
    files.write_rows(earlier.beside(ground, kept, "search.parquet"), ground.out / "search.parquet")
    told = earlier.told(ground, "search.parquet")
    ground.write_record("search", used, parts, rivals=told)


def _apart(field_: list[Entrant]) -> dict[str, list[Entrant]]:
    """Each candidate by itself: another one must not make the rest run again."""
    found: dict[str, list[Entrant]] = {}
    for one in field_:
        title = f"search {one.title}" if one.role == "candidate" else "search"
        found.setdefault(title, []).append(one)
    return found


def choose(ground: Ground, say: Say) -> None:
    """Settings, from the rows of the search."""
    searched = ground.out / "search.parquet"
    content = {"search_sha256": checksum(searched), **choose_from(files.read_rows(searched))}
    file = ground.out / "chosen.json"
    fresh = file.with_name(".chosen.json")
    files.write_json(content, fresh)
    try:
        ground.check_frozen(checksum(fresh))
        fresh.replace(file)
    finally:
        fresh.unlink(missing_ok=True)
    files.write_text(chosen_page.markdown(content), ground.out / "chosen.md")
    winner = content["final"]
    say(f"choose: {winner['ranker']} {winner['label']}, mean score {winner['score']:+.4f}.")


def evaluate(ground: Ground, say: Say) -> None:
    """What was chosen, on the test parts."""
    contest, chosen = ground.contest, ground.chosen()
    ground.check_frozen(checksum(ground.out / "chosen.json"))
    arenas = evaluate_arenas(contest)
    used = [arena.used for arena in arenas]
    earlier.check(ground, "evaluate", used)
    options = _options(contest, contest.evaluate, per_query=True)
    say(f"evaluate: {len(arenas)} folds, on their test parts.")

    def jobs(device: str) -> list[Job]:
        at_once = contest.evaluate.replicas_at_once
        return [
            job
            for arena, own in _with_seeds(arenas, contest.evaluate, options)
            for everyone in [entrants.evaluated(contest, chosen, arena.dataset)]
            for field_ in [earlier.to_run(ground, everyone)]
            for job in make_jobs("evaluate", arena, field_, own, device, at_once)
        ]

    rows, parts = _finish(ground, jobs)
    _write_evaluated(ground, rows.drop("condition"), options.rounds)
    told = earlier.told(ground, "rows.parquet")
    ground.write_record("evaluate", used, parts, rivals=told)


def _write_evaluated(ground: Ground, rows: pl.DataFrame, last: int) -> None:
    """The last round of every run, the mean over seeds on the way there, and single queries."""
    of_runs, of_queries = files.apart(rows)
    ends = earlier.beside(ground, of_runs.filter(pl.col("round") == last), "rows.parquet")
    files.write_rows(ends, ground.out / "rows.parquet")
    curve = pl.col("metric").str.starts_with("ndcg@") | (pl.col("metric") == "online_ndcg")
    curves = of_runs.filter(curve).group_by(_CURVES, maintain_order=True)
    means = curves.agg(pl.col("value").mean().cast(pl.Float32))
    for name, found in (("curves.parquet", means), ("queries.parquet", _queries(of_queries))):
        _write(earlier.beside(ground, found, name), ground.out / name)


def _queries(rows: pl.DataFrame) -> pl.DataFrame:
    columns = ("ranker", "dataset", "fold", "user", "stop", "query")
    return rows.select(*columns, pl.col("value").cast(pl.Float32))


def _write(frame: pl.DataFrame, file: Path) -> None:
    files.atomically(file, lambda part: frame.write_parquet(part, compression="zstd"))


def robust(ground: Ground, say: Say) -> None:
    """The same under conditions nobody was tuned for."""
    contest, chosen = ground.contest, ground.chosen()
    ground.check_frozen(checksum(ground.out / "chosen.json"))
    if not contest.robust:
        say("robust: the config has no [[robust]] condition.")
        return
    arenas = evaluate_arenas(contest)
    used = [arena.used for arena in arenas]
    earlier.check(ground, "robust", used)
    say(f"robust: {len(contest.robust)} conditions on {len(arenas)} folds.")

    def jobs(device: str) -> list[Job]:
        found = []
        for i, alike in enumerate(_alike(contest.robust)):
            first = alike[0]
            options = _options(
                contest, first, evaluate_after=(first.rounds,),
                taste_changes_after=first.taste_changes_after,
            )  # fmt: skip
            ours = {arena.used[:2] for arena in first_folds(arenas, contest.robust_folds)}
            for arena, own in _with_seeds(first_folds(arenas, first.folds), first, options):
                if arena.used[:2] not in ours:  # seeds take turns among the others all the same
                    continue
                field_ = [
                    one
                    for robust in alike
                    for one in entrants.under(contest, robust, chosen, arena.dataset)
                ]
                title, at_once = f"robust {i + 1}", first.replicas_at_once
                some = earlier.to_run(ground, field_)
                found += make_jobs(title, arena, some, own, device, at_once)
        return found

    rows, parts = _finish(ground, jobs)
    files.write_rows(earlier.beside(ground, rows, "robust.parquet"), ground.out / "robust.parquet")
    told = earlier.told(ground, "robust.parquet")
    ground.write_record("robust", used, parts, rivals=told)


def _with_seeds(
    arenas: list[Arena], stage: EvaluateConfig | RobustConfig, options: Options
) -> list[tuple[Arena, Options]]:
    """Each arena with the options that hold in it."""
    shared = with_seeds(arenas, options.seeds, one_fold_a_seed=stage.one_fold_a_seed)
    return [(arena, replace(options, seeds=seeds)) for arena, seeds in shared]


def _alike(conditions: list[RobustConfig]) -> list[list[RobustConfig]]:
    """Conditions that differ in users alone run together."""
    found: dict[tuple[Any, ...], list[RobustConfig]] = {}
    for one in conditions:
        limits = (one.folds, one.one_fold_a_seed, one.replicas_at_once)
        key = (one.rounds, *one.seed_list, one.taste_changes_after, *limits)
        found.setdefault(key, []).append(one)
    return list(found.values())


def outside(ground: Ground, say: Say) -> None:
    """LambdaMART on all labels; never on a bare machine, which has no LightGBM."""
    ground.chosen()
    ground.check_frozen(checksum(ground.out / "chosen.json"))
    if not lambdamart.available():
        say(skyline.MISSING)
        return
    folds = skyline.labelled_folds(ground.contest)
    say(f"outside: LambdaMART on all labels of {len(folds)} folds, on their test parts.")
    jobs = skyline.make_jobs(folds, ground.contest.evaluate)
    rows, parts = _finish(ground, lambda device: jobs)
    _write(_queries(rows), ground.out / "outside.parquet")
    packages = {"lightgbm": lambdamart.version()}
    ground.write_record("outside", [skyline.used(fold) for fold in folds], parts, packages)


def report(ground: Ground, say: Say) -> None:
    """Tables and the figure, from rows."""
    if not (lambdamart.available() or ground.holds("outside")):
        say(skyline.MISSING)
    for path in reported.write(ground.out):
        say(str(path))
    if all(ground.is_done(stage) for stage in _BEFORE_REPORT):
        shutil.rmtree(ground.out / "parts", ignore_errors=True)


def _options(contest: Contest, stage: StageConfig, **rest: Any) -> Options:
    measured = contest.evaluate
    return Options(
        rounds=stage.rounds, seeds=tuple(stage.seed_list),
        k=measured.k, gamma=measured.gamma, empty=measured.empty, **rest,
    )  # fmt: skip


def _finish(
    ground: Ground, jobs: Callable[[str], list[Job]]
) -> tuple[pl.DataFrame, list[dict[str, Any]]]:
    """The rows of all jobs, and what each says of itself; raises while some wait elsewhere."""
    device = use_device(ground.device) if ground.elsewhere is None else ground.device or "gpu"
    coming = jobs(device)
    with ground.progress as heard:
        heard.begin({job.title: job.load for job in coming})
        runner = Runner(ground.out, heard, ground.elsewhere)
        frames = runner.finish(coming)
        runner.wait()
    assert frames is not None
    return pl.concat(frames, how="diagonal"), runner.about
