"""The command line's root, and what its rooms share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console

import olrank

app = typer.Typer(
    help="Rankers that learn from clicks while they serve.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

_LOG_WIDTH = 100  # where no terminal says how wide it is, a table's lines stay whole


def make_console(stderr: bool = False) -> Console:
    """Standard output or error, for a person or for a log."""
    console = Console(stderr=stderr, highlight=False)
    return console if console.is_terminal else Console(stderr=stderr, width=_LOG_WIDTH)


@contextmanager
def goes_on() -> Iterator[None]:
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
