"""The command line: parse and call, no logic.

Each command imports its room when it is called, so that `olrank --help` answers at once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import olrank
from olrank.errors import ConfigError, OlrankError

app = typer.Typer(
    help="Rankers that learn from clicks while they serve.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
data_app = typer.Typer(help="Look at data before learning from it.", no_args_is_help=True)
app.add_typer(data_app, name="data")

_LOG_WIDTH = 100  # where no terminal says how wide it is, a table's lines stay whole


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


class BadLines(StrEnum):
    """What to do with lines that cannot be read."""

    error = "error"
    skip = "skip"


def _console(stderr: bool = False) -> Console:
    console = Console(stderr=stderr, highlight=False)
    return console if console.is_terminal else Console(stderr=stderr, width=_LOG_WIDTH)


@contextmanager
def _goes_on() -> Iterator[None]:
    """Say to someone who stops a long command how it goes on."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(
            "olrank: stopped. The same command goes on from the parts that are done.", err=True
        )
        raise typer.Exit(130) from None


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"olrank {olrank.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    pass


@app.command("list")
def list_names() -> None:
    """List the rankers, simulated users and synthetic data sets by name."""
    from olrank.data import synthetic
    from olrank.rankers import table
    from olrank.users import presets

    console = _console()
    rankers = Table("ranker", "what it does", box=None, header_style="bold", pad_edge=False)
    for name in table.names():
        rankers.add_row(name, escape(table.entry(name).summary))
    console.print(rankers)
    console.print(f"\n[bold]users[/bold]      {', '.join(presets.names())}")
    console.print(f"[bold]synthetic[/bold]  {', '.join(synthetic.PRESETS)}")


@app.command("devices")
def list_devices() -> None:
    """Say what JAX computes on here, and how to use a GPU."""
    from olrank.experiments.running.device import devices

    for line in devices():
        typer.echo(line)


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
    told = reporter(_console(stderr=True))
    with _goes_on():
        outcome = run(settings, folder, told, device=device, cluster=cluster, elsewhere=bare)
    figures = draw(folder)
    console = _console()
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
    told, console = reporter(_console(stderr=True)), _console(stderr=True)
    with _goes_on():
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

    told, console = reporter(_console(stderr=True)), _console(stderr=True)
    contest = read_contest(config)
    rivals = rivals_folder(contest, config)
    ground = Ground(contest, out or config.parent, device, bare, told, rivals)
    keep_compiled()
    with _goes_on():
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
    _console().print(published.table(compared))
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


@data_app.command("check")
def check_data(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where a public set lies.")],
) -> None:
    """Recognise a public data set in a folder, verify its counts and say what is off."""
    from olrank.data.catalog import check

    report = check(folder)
    for line in report.lines():
        typer.echo(line)
    if not report.ok:
        raise typer.Exit(1)


@data_app.command("info")
def describe_data(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="LETOR text, one set.")],
    bad_lines: Annotated[
        BadLines, typer.Option(help="Stop at a line that cannot be read, or leave it out.")
    ] = BadLines.error,
) -> None:
    """Describe LETOR files: queries, documents, features, grades."""
    from olrank.data.catalog import info
    from olrank.data.letor import read_letor

    left_out: list[str] = []
    dataset = read_letor(
        files, bad_lines=bad_lines.value, report=lambda skipped: left_out.extend(skipped.lines())
    )
    for line in [*info(dataset), *left_out]:
        typer.echo(line)


keys_app = typer.Typer(help="API keys of a service.", no_args_is_help=True)
app.add_typer(keys_app, name="keys")

DataFolder = Annotated[Path, typer.Option("--data", metavar="DIR", help="The service's folder.")]
_DATA = Path("olrank-data")


@app.command("serve")
def serve_live(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=0, max=65535)] = 8000,
    data: DataFolder = _DATA,
    auth: Annotated[str, typer.Option(help="API keys: auto, on or off.")] = "auto",
    rate: Annotated[float, typer.Option(help="Requests a second of one client; 0: any.")] = 0.0,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    warm: Annotated[
        str, typer.Option(help="Numbers of candidates to compile for before a ranker is ready.")
    ] = "16,32,64,100",
    snapshot_every: Annotated[
        int, typer.Option(help="Impressions learned between snapshots.", min=1)
    ] = 2000,
    snapshot_seconds: Annotated[float, typer.Option(help="Seconds between snapshots.")] = 900.0,
    keep_days: Annotated[float, typer.Option(help="Age from which closed records go.")] = 7.0,
    max_body_mb: Annotated[float, typer.Option(help="Largest body of a request.")] = 16.0,
) -> None:
    """Rank live traffic over HTTP and learn from its clicks."""
    _serve_extra()
    from olrank.service.options import LearnerOptions, Limits, Options, Retention, warm_sizes
    from olrank.service.serve import serve

    options = Options(
        data,
        limits=Limits(rate=rate, body_bytes=int(max_body_mb * 1e6)),
        learner=LearnerOptions(snapshot_every=snapshot_every, snapshot_s=snapshot_seconds),
        retention=Retention(records_s=keep_days * 86_400),
        warm_sizes=warm_sizes(warm),
    )
    serve(options, host, port, auth=auth, log_level=log_level)


@app.command("replay")
def replay_log(
    ranker: Annotated[str | None, typer.Argument(help="Only this one.")] = None,
    data: DataFolder = _DATA,
    upto: Annotated[int | None, typer.Option(help="A position of the log; its end.")] = None,
    from_snapshot: Annotated[bool, typer.Option(help="Start at the newest snapshot.")] = False,
) -> None:
    """Rebuild models from a service's log and print their digests."""
    _serve_extra()
    from olrank.service import build

    build.prepare(data / "cache")
    from olrank.service.replay import replay

    agrees = True
    for one in replay(data, ranker, upto, from_start=not from_snapshot):
        for line in one.lines():
            typer.echo(line)
        agrees = agrees and one.agrees is not False
    if not agrees:
        raise typer.Exit(1)


@keys_app.command("add")
def add_key(
    scope: Annotated[list[str], typer.Option(help="rank, feedback or admin; may be repeated.")],
    name: Annotated[str, typer.Option(help="What you call it.")] = "",
    data: DataFolder = _DATA,
) -> None:
    """Make a key; it is printed once and stored as a hash."""
    from olrank.service.auth import Keys

    typer.echo(Keys(data).add(name, scope))


@keys_app.command("list")
def list_keys(data: DataFolder = _DATA) -> None:
    """List the keys: id, scopes, name."""
    from olrank.service.auth import Keys

    for key in Keys(data).all():
        typer.echo(f"{key.id}  {','.join(key.scopes):20}  {key.name}")


@keys_app.command("remove")
def remove_key(
    key_id: Annotated[str, typer.Argument(help="As `olrank keys list` shows it.")],
    data: DataFolder = _DATA,
) -> None:
    """Remove a key; it stops working at once."""
    from olrank.service.auth import Keys

    Keys(data).remove(key_id)


def _serve_extra() -> None:
    """Say what to install where the service's packages are missing."""
    from importlib.util import find_spec

    missing = [n for n in ("apsw", "fastapi", "prometheus_client", "uvicorn") if not find_spec(n)]
    if missing:
        raise ConfigError(
            f"the service needs {', '.join(missing)}. Install with: pip install 'olrank[serve]'"
        )


def main() -> None:
    """Run the command line; an error meant for a person is printed as such, with exit code 2."""
    try:
        app()
    except OlrankError as error:
        typer.echo(f"olrank: {error}", err=True)
        sys.exit(2)
