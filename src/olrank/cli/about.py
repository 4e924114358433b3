"""What there is: rankers, users, data sets, devices."""

from __future__ import annotations

import typer
from rich.markup import escape
from rich.table import Table

from olrank.cli.app import app, make_console


@app.command("list")
def list_names() -> None:
    """List the rankers, simulated users and synthetic data sets by name."""
    from olrank.data import synthetic
    from olrank.rankers import table
    from olrank.users import presets

    console = make_console()
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
