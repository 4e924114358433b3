"""Start the service: one process for HTTP, one for learning, one folder."""

from __future__ import annotations

import gc
import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from olrank.errors import ConfigError
from olrank.service import build
from olrank.service.auth import Keys, is_loopback
from olrank.service.options import Options
from olrank.service.telemetry import log_to_stderr

_LOG = logging.getLogger("olrank.service")
_SWITCH_S = 0.001  # threads take turns this often, so that drawing does not hold up the loop
_GARBAGE = 20_000  # objects between two searches for cycles; one request makes hundreds, no cycle


def check_auth(host: str, auth: str, keys: Keys) -> Keys | None:
    """The keys to ask for; None when everybody on this machine may come in.

    Args:
        host: the address to listen on.
        auth: "on", "off", or "auto": on wherever others can reach the address or keys exist.
        keys: of the folder.
    """
    if auth not in ("auto", "on", "off"):
        raise ConfigError(f'auth: expected auto, on or off, found "{auth}".')
    if auth == "off":
        if not is_loopback(host):
            raise ConfigError(
                f"host {host}: others can reach it, so the service does not start without API "
                "keys. Make one with `olrank keys add --data DIR`, or listen on 127.0.0.1."
            )
        return None
    if not keys.all():
        if is_loopback(host) and auth == "auto":
            return None
        raise ConfigError(
            f"host {host}: it needs API keys, and there are none. Make one with "
            "`olrank keys add --data DIR`, or listen on 127.0.0.1."
        )
    return keys


def serve(
    options: Options, host: str, port: int, *, auth: str = "auto", log_level: str = "info"
) -> None:
    """Serve until told to stop."""
    folder = options.folder
    keys = check_auth(host, auth, Keys(folder))
    folder.mkdir(parents=True, exist_ok=True)
    build.prepare(folder / "cache")
    log_to_stderr(log_level)
    sys.setswitchinterval(_SWITCH_S)
    gc.set_threshold(_GARBAGE)
    # Only now: these load JAX, which reads its settings once.
    import uvicorn

    from olrank.service.app import make_app
    from olrank.service.runtime import Runtime

    class Server(uvicorn.Server):
        """Stops in order on a signal, and then does not die of it as well."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, self.handle_exit)
            yield

    app = make_app(Runtime.open(options), keys)
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=10,
        server_header=False,
    )
    facts = {"url": f"http://{host}:{port}", "folder": str(folder), "keys": keys is not None}
    _LOG.info("the service starts", extra={"facts": facts})
    Server(config).run()
    _LOG.info("the service has stopped")
