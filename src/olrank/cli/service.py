"""The service: serve, replay its log, keep its keys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from olrank.cli.app import app
from olrank.errors import ConfigError

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
