"""The command line: parse and call, no logic.

Each command imports its room when it is called, so that `olrank --help` answers at once.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import olrank
from olrank.errors import OlrankError

app = typer.Typer(
    help="Rankers that learn from clicks while they serve.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
data_app = typer.Typer(help="Look at data before learning from it.", no_args_is_help=True)
app.add_typer(data_app, name="data")

_LOG_WIDTH = 100  # where no terminal says how wide it is, a table's lines stay whole


class BadLines(StrEnum):
    """What to do with lines that cannot be read."""

    error = "error"
    skip = "skip"


def _console(stderr: bool = False) -> Console:
    console = Console(stderr=stderr, highlight=False)
    return console if console.is_terminal else Console(stderr=stderr, width=_LOG_WIDTH)


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
    from olrank.experiments.machine import devices

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
) -> None:
    """Run an experiment: rows, summary and figures from one config file."""
    from olrank.experiments import results
    from olrank.experiments.config import read_config
    from olrank.experiments.progress import reporter
    from olrank.experiments.run import run

    settings = read_config(config)
    folder = out or Path("results") / settings.name
    try:
        outcome = run(settings, folder, reporter(_console(stderr=True)))
    except KeyboardInterrupt:
        typer.echo(
            "olrank: stopped. The same command goes on from the parts that are done.", err=True
        )
        raise typer.Exit(130) from None
    console = _console()
    console.print(results.table(outcome.summary))
    for written in ("rows.parquet", "run.json", "summary.json", "figures"):
        console.print(f"{folder / written}", markup=False, soft_wrap=True)


@app.command("published")
def compare_published(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder with rows.parquet and published.csv.")
    ],
) -> None:
    """Put a finished run beside published numbers, and say where the two differ."""
    from olrank.experiments import published, results

    compared = published.compare(folder)
    results.write_text(published.markdown(compared), folder / "published.md")
    _console().print(published.table(compared))
    if not compared["agrees"].all():
        raise typer.Exit(1)


@app.command("figures")
def redraw_figures(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with rows.parquet.")],
) -> None:
    """Redraw the figures of a finished run from its rows."""
    from olrank.experiments.results import read_rows
    from olrank.figures.all import draw_all

    for path in draw_all(read_rows(folder), folder / "figures"):
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


def main() -> None:
    """Run the command line; an error meant for a person is printed as such, with exit code 2."""
    try:
        app()
    except OlrankError as error:
        typer.echo(f"olrank: {error}", err=True)
        sys.exit(2)
