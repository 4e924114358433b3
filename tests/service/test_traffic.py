"""The busy routes as plain ASGI: what only they must see to themselves."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from service.running import Service

from olrank.errors import LogUnavailableError
from olrank.service.options import LearnerOptions
from olrank.service.problems import Problem
from olrank.service.traffic import Traffic

JSON = [(b"content-type", b"application/json; charset=utf-8")]


class Answering:
    """A runtime that answers with what it was asked, or fails."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure

    async def rank(self, name: str, body: bytes) -> Any:
        if self.failure is not None:
            raise self.failure
        return {"name": name, "body": body.decode()}


def ask(
    runtime: Answering, *messages: dict[str, Any], path: str = "/v1/rankers/a.b-1/rank"
) -> tuple[list[Any], list[str]]:
    """What was sent, and the paths that were handed on."""
    sent: list[Any] = []
    handed: list[str] = []
    waiting = list(messages)

    async def behind(scope: Any, receive: Any, send: Any) -> None:
        handed.append(scope["path"])

    async def receive() -> Any:
        return waiting.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": path, "headers": JSON}
    asyncio.run(Traffic(behind, runtime)(scope, receive, send))  # type: ignore[arg-type]
    return sent, handed


def part(body: bytes, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_body_that_comes_in_parts_is_put_together():
    (start, body), handed = ask(Answering(), part(b"on", True), part(b"e", False))
    assert json.loads(body["body"]) == {"name": "a.b-1", "body": "one"}
    assert start["status"] == 200
    assert (b"content-length", str(len(body["body"])).encode()) in start["headers"]
    assert handed == []


def test_a_client_that_hangs_up_gets_no_answer():
    assert ask(Answering(), part(b"on", True), {"type": "http.disconnect"}) == ([], [])


@pytest.mark.parametrize(
    ("failure", "status", "code"),
    [
        (LogUnavailableError("the disk is full."), 503, "log_unavailable"),
        (Problem(409, "ranking_exists", "known.", "Use another."), 409, "ranking_exists"),
        (ZeroDivisionError("nobody should read this"), 500, "internal"),
    ],
)
def test_every_failure_becomes_a_problem(failure: Exception, status: int, code: str):
    with pytest.raises(Problem) as raised:
        ask(Answering(failure), part(b"{}"))
    assert (raised.value.status, raised.value.code) == (status, code)
    assert "nobody should read this" not in str(raised.value.body())


@pytest.mark.parametrize(
    "path", ["/v1/rankers/a/switches", "/v1/rankers/a b/rank", "/v1/rankers/a/rank/", "/healthz"]
)
def test_everything_else_is_handed_on(path: str):
    assert ask(Answering(), path=path) == ([], [path])


def test_impressions_that_come_together_are_learned_and_published_together(tmp_path: Path):
    pace = LearnerOptions(tick_s=0.02, gather_s=1.0)
    with Service(tmp_path, learner=pace) as service:
        service.create("a")
        service.teach("a", 20)
        assert service.client.ranker("a")["model_version"] < 20
