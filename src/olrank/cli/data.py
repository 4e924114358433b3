"""Data sets: check and describe them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from olrank.cli.app import app

data_app = typer.Typer(help="Look at data before learning from it.", no_args_is_help=True)
app.add_typer(data_app, name="data")


class BadLines(StrEnum):
    """What to do with lines that cannot be read."""

    error = "error"
    skip = "skip"


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
