"""What every request passes: size, rate, who it is, how long it took. Plain ASGI around the app."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from olrank.service.auth import Keys, is_loopback
from olrank.service.limits import Buckets, Limits
from olrank.service.problems import Problem
from olrank.service.telemetry import Metrics

_LOG = logging.getLogger("olrank.service.requests")
_OPEN = ("/healthz", "/readyz")  # a load balancer has no key


class Gate:
    """Middleware that refuses early and measures always.

    Args:
        app: what is behind it.
        limits: on bodies and rates.
        keys: whose holders may pass; None when nobody needs one.
        metrics: where times are counted.
    """

    def __init__(self, app: ASGIApp, limits: Limits, keys: Keys | None, metrics: Metrics) -> None:
        """Ready for requests."""
        self._app = app
        self._limits = limits
        self._keys = keys
        self._buckets = Buckets(limits.rate, limits.burst)
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request through, or answer it here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began_s, status = time.perf_counter(), 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            self._admit(scope)
            await self._app(scope, _Measured(receive, self._limits.body_bytes), watched)
        except Problem as problem:
            await _answer(problem, watched)
        finally:
            self._note(scope, status, time.perf_counter() - began_s)

    def _admit(self, scope: Scope) -> None:
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        client = (scope.get("client") or ("", 0))[0]
        if self._keys is None:
            _check_host(headers.get("host", ""))
        elif scope["path"] not in _OPEN:
            client = self._check_key(scope, headers.get("authorization", ""))
        wait_s = self._buckets.wait_s(client)
        if wait_s > 0:
            raise Problem(
                429,
                "too_many_requests",
                f"more than {self._limits.rate:g} requests a second.",
                "Wait as long as Retry-After says.",
                {"Retry-After": str(max(1, round(wait_s + 0.5)))},
            )
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > self._limits.body_bytes:
            raise too_large(self._limits.body_bytes)

    def _check_key(self, scope: Scope, given: str) -> str:
        assert self._keys is not None
        kind, _, text = given.partition(" ")
        key = self._keys.find(text.strip()) if kind.lower() == "bearer" else None
        if key is None:
            raise Problem(
                401,
                "no_key",
                "this service needs an API key.",
                'Send "Authorization: Bearer KEY"; `olrank keys add` makes one.',
                {"WWW-Authenticate": "Bearer"},
            )
        needed = scope_of(scope["method"], scope["path"])
        if not key.allows(needed):
            raise Problem(
                403,
                "scope_missing",
                f'key {key.id} may not do this: it needs the scope "{needed}".',
                "Use another key.",
            )
        return f"key:{key.id}"

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        path = scope.get("olrank.route") or getattr(scope.get("route"), "path", "none")
        self._metrics.requests.labels(path, scope["method"], str(status)).observe(seconds)
        if _LOG.isEnabledFor(logging.INFO):
            facts = {"method": scope["method"], "route": path, "status": status}
            _LOG.info("request", extra={"facts": {**facts, "ms": round(seconds * 1000, 2)}})


class _Measured:
    """A body that may not grow beyond a limit, whatever its header says."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive = receive
        self._left = most
        self._most = most

    async def __call__(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise too_large(self._most)
        return message


def too_large(most: int) -> Problem:
    """The answer to a body that is too large."""
    return Problem(
        413,
        "body_too_large",
        f"the body is larger than {most} bytes.",
        "Send fewer candidates or events at once.",
        {"Connection": "close"},
    )


def scope_of(method: str, path: str) -> str:
    """The scope that a request needs."""
    parts = path.strip("/").split("/")
    if len(parts) == 4 and parts[:2] == ["v1", "rankers"] and method == "POST":
        if parts[3] in ("rank", "feedback"):
            return parts[3]
    if method == "GET" and len(parts) >= 4 and parts[3] in ("rankings", "explain"):
        return "rank"
    return "admin"


def _check_host(host: str) -> None:
    """Without keys only this machine may ask, also not a web page that this machine looks at."""
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    if name and not is_loopback(name):
        raise Problem(
            403,
            "wrong_host",
            f'without API keys the host must be this machine, not "{name}".',
            "Ask for localhost, or make a key with `olrank keys add`.",
        )


async def _answer(problem: Problem, send: Any) -> None:
    body = json.dumps(problem.body()).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body))}
    for name, value in problem.headers.items():
        headers[name.lower()] = value
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
