"""Experiments: run them, reproduce the paper, hold contests, write what came out."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from olrank.cli.app import app, goes_on, make_console


class Device(StrEnum):
    """What to compute on."""

    cpu = "cpu"
    gpu = "gpu"


DeviceOption = Annotated[
    Device | None, typer.Option(help="Compute here; on a GPU if left out and there is one.")
]
BareOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Write tasks for a machine with only NumPy and JAX."),
]


@app.command("run")
def run_config(
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="[CONFIG.toml]", help="What to run; a small comparison if left out."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results; results/NAME if left out.")
    ] = None,
    device: DeviceOption = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help='Spread over a Ray cluster; "local" starts one here.'),
    ] = None,
    bare: BareOption = None,
) -> None:
    """Run an experiment: rows, summary and figures from one config file."""
    from olrank.experiments.reports.report import draw
    from olrank.experiments.rows import summary
    from olrank.experiments.running.config import read_config
    from olrank.experiments.running.device import keep_compiled
    from olrank.experiments.running.progress import reporter
    from olrank.experiments.running.run import run

    settings = read_config(config)
    folder = out or Path("results") / settings.name
    keep_compiled()
    told = reporter(make_console(stderr=True))
    with goes_on():
        outcome = run(settings, folder, told, device=device, cluster=cluster, elsewhere=bare)
    figures = draw(folder)
    console = make_console()
    console.print(summary.table(outcome.summary))
    for written in ("rows.parquet", "run.json", "summary.json", "figures"):
        if written != "figures" or figures:
            console.print(f"{folder / written}", markup=False, soft_wrap=True)
    if "learning" not in {path.stem for path in figures}:
        console.print(
            "No curves are drawn of so many rankers: nobody could tell them apart. A variant that "
            "names its base has its effect drawn instead.",
            soft_wrap=True,
        )


@app.command("reproduce")
def reproduce_paper(
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A folder with public sets; made-up shapes if left out."),
    ] = None,
    figure: Annotated[
        str,
        typer.Option(help="nonlinearity, offline, online, ratio, regret, coverage, or all."),
    ] = "all",
    quick: Annotated[bool, typer.Option("--quick", help="Everything at its smallest.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results; results/reproduce if left out.")
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="T; 5,000 as in the paper.")] = None,
    seeds: Annotated[int | None, typer.Option(help="How many; 10 as in the paper.")] = None,
    folds: Annotated[int | None, typer.Option(help="Of each set, at most; all.")] = None,
    search_rounds: Annotated[int | None, typer.Option(help="Of the grid search; T.")] = None,
    search_seeds: Annotated[int | None, typer.Option(help="Of the grid search; 2.")] = None,
    device: DeviceOption = None,
    bare: BareOption = None,
) -> None:
    """Run the paper's experiments: search settings, run all rankers, draw, check its claims."""
    from olrank.experiments.paper.protocol import PAPER, QUICK
    from olrank.experiments.paper.reproduce import reproduce
    from olrank.experiments.running.device import keep_compiled
    from olrank.experiments.running.progress import reporter

    protocol = (QUICK if quick else PAPER).changed(
        rounds=rounds, seeds=seeds, folds=folds, search_rounds=search_rounds,
        search_seeds=search_seeds,
    )  # fmt: skip
    folder = out or Path("results") / ("reproduce-quick" if quick else "reproduce")
    keep_compiled()
    told, console = reporter(make_console(stderr=True)), make_console(stderr=True)
    with goes_on():
        written = reproduce(
            data, folder, figure=figure, quick=quick, protocol=protocol, device=device,
            elsewhere=bare, progress=told,
            say=lambda line: console.print(line, markup=False, soft_wrap=True),
        )  # fmt: skip
    for path in written:
        typer.echo(path)


class Stage(StrEnum):
    """A stage of a contest."""

    search = "search"
    choose = "choose"
    evaluate = "evaluate"
    robust = "robust"
    outside = "outside"
    report = "report"


@app.command("contest")
def hold_contest(
    config: Annotated[Path, typer.Argument(metavar="CONTEST.toml", help="Who, on what data.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results; the config's own if left out.")
    ] = None,
    stage: Annotated[
        Stage | None, typer.Option(help="The next one that is not done if left out.")
    ] = None,
    device: DeviceOption = None,
    bare: BareOption = None,
) -> None:
    """Choose one preset for all data sets on validation data; hold it against tuned baselines."""
    from olrank.experiments.contest.config import read_contest, rivals_folder
    from olrank.experiments.contest.contest import run
    from olrank.experiments.contest.ground import Ground
    from olrank.experiments.running.device import keep_compiled
    from olrank.experiments.running.progress import reporter

    told, console = reporter(make_console(stderr=True)), make_console(stderr=True)
    contest = read_contest(config)
    rivals = rivals_folder(contest, config)
    ground = Ground(contest, out or config.parent, device, bare, told, rivals)
    keep_compiled()
    with goes_on():
        run(ground, stage, lambda line: console.print(line, markup=False, soft_wrap=True))


@app.command("published")
def compare_published(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder with rows.parquet and published.csv.")
    ],
) -> None:
    """Put a finished run beside published numbers, and say where the two differ."""
    from olrank.experiments.reports import published
    from olrank.experiments.rows import files

    compared = published.compare(folder)
    files.write_text(published.markdown(compared), folder / "published.md")
    make_console().print(published.table(compared))
    if not compared["agrees"].all():
        raise typer.Exit(1)


@app.command("figures")
def redraw_figures(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with rows.parquet.")],
) -> None:
    """Redraw the figures of a finished run from its rows."""
    from olrank.experiments.reports.report import draw

    for path in draw(folder):
        typer.echo(path)


@app.command("report")
def report_folder(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with rows.parquet.")],
) -> None:
    """Write figures, tables and claims of a finished run from its rows."""
    from olrank.experiments.reports.report import report

    for path in report(folder):
        typer.echo(path)


@app.command("pages")
def build_pages(
    experiments: Annotated[
        Path, typer.Argument(metavar="[EXPERIMENTS]", help="Folder of experiment folders.")
    ] = Path("experiments"),
    docs: Annotated[Path, typer.Option(help="Folder to write the pages into.")] = Path("docs"),
) -> None:
    """Write a page for every experiment with a page.md, all numbers taken from its rows."""
    from olrank.experiments.reports.pages import build

    for path in build(experiments, docs):
        typer.echo(path)
