"""The command line: parse and call, no logic.

Each command imports its room when it is called, so that `olrank --help` answers at once. Help shows
commands in the order in which the modules here are imported.
"""

from __future__ import annotations

import sys

import typer

from olrank.cli import about, data, experiments, service
from olrank.cli.app import app
from olrank.errors import OlrankError

__all__ = ["about", "app", "data", "experiments", "main", "service"]


def main() -> None:
    """Run the command line; an error meant for a person is printed as such, with exit code 2."""
    try:
        app()
    except OlrankError as error:
        typer.echo(f"olrank: {error}", err=True)
        sys.exit(2)
