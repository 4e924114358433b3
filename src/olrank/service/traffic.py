"""The two routes that carry the traffic, `rank` and `feedback`, without a framework in between.

FastAPI describes them like all others (app.py), and would answer them as well; but what it does for
each request takes longer than all else that the event loop does for one.
"""

from __future__ import annotations

import json
import logging
import re
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from olrank.errors import OlrankError
from olrank.service.problems import Problem, internal, of_error
from olrank.service.runtime import Runtime, parse
from olrank.service.schema import Feedback

_LOG = logging.getLogger("olrank.service")
_BUSY = re.compile(r"/v1/rankers/([A-Za-z0-9._-]+)/(rank|feedback)")


class Traffic:
    """Answers the busy routes, and hands everything else on.

    Problems are raised: whoever is in front of it (gate.py) answers them.

    Args:
        app: what is behind it.
        runtime: what answers.
    """

    def __init__(self, app: ASGIApp, runtime: Runtime) -> None:
        """Ready for requests."""
        self._app = app
        self._runtime = runtime

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        is_post = scope["type"] == "http" and scope["method"] == "POST"
        found = _BUSY.fullmatch(scope["path"]) if is_post else None
        if found is None:
            await self._app(scope, receive, send)
            return
        name, what = found.groups()
        scope["olrank.route"] = f"/v1/rankers/{{name}}/{what}"
        check_json(_content_type(scope))
        body = await _whole(receive)
        if body is None:
            return
        try:
            status, answer = await _answer(self._runtime, name, what, body)
        except OlrankError as error:
            raise of_error(error) from error
        except Problem:
            raise
        except Exception as error:
            _LOG.exception("a request failed")
            raise internal(error) from error
        await _send(send, status, answer)


async def _answer(runtime: Runtime, name: str, what: str, body: bytes) -> tuple[int, Any]:
    if what == "rank":
        return 200, await runtime.rank(name, body)
    return 202, {"statuses": await runtime.feedback(name, parse(Feedback, body))}


async def _whole(receive: Receive) -> bytes | None:
    """The body; None when the client hung up before its end."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


async def _send(send: Send, status: int, answer: Any) -> None:
    body = to_json(answer)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _content_type(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"content-type":
            return str(value, "latin-1")
    return ""


def check_json(content_type: str) -> None:
    """Refuse a body that is not said to be JSON."""
    # Also keeps web pages out: a browser asks first before it sends JSON elsewhere.
    kind = content_type.partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem(
            415,
            "not_json",
            f'expected content-type application/json, found "{kind}".',
            "Send JSON, with that header.",
        )


def to_json(value: Any) -> bytes:
    """A body, in as few bytes as JSON allows."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return text.encode()
