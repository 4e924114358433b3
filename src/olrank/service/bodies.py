"""What routes have in common: bodies that they parse themselves, and how OpenAPI hears of them.

Bodies are parsed by pydantic's own JSON parser, which is several times faster than FastAPI's way
through Python objects.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response

from olrank.service import schema
from olrank.service.runtime import parse
from olrank.service.traffic import check_json, to_json

ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"model": schema.ErrorAnswer}
    for code in (400, 401, 403, 404, 405, 409, 413, 415, 422, 429, 500, 503)
}
"""The answers of every route that has not worked out."""

BINARY = {"type": "string", "format": "binary"}


async def body_of(request: Request, kind: type[Any]) -> Any:
    """The request's body, checked."""
    check_json(request.headers.get("content-type", ""))
    return parse(kind, await request.body())


def answer(value: Any, status: int = 200) -> Response:
    """An answer that needs no more checking."""
    return Response(to_json(value), status, media_type="application/json")


def takes(kind: type[Any]) -> dict[str, Any]:
    """A JSON body, for a route's description."""
    where = {"$ref": f"#/components/schemas/{kind.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": where}}}}


def takes_bytes() -> dict[str, Any]:
    """A body of bytes, for a route's description."""
    content = {"application/octet-stream": {"schema": BINARY}}
    return {"requestBody": {"required": True, "content": content}}


def describe_bodies(app: FastAPI) -> None:
    """Put the schemas of bodies that routes parse themselves into the OpenAPI document."""
    original: Callable[[], dict[str, Any]] = app.openapi
    kinds = (
        schema.CreateRanker,
        schema.RankRequest,
        schema.Feedback,
        schema.Switches,
        schema.Erase,
    )

    def openapi() -> dict[str, Any]:
        document = original()
        known = document.setdefault("components", {}).setdefault("schemas", {})
        for kind in kinds:
            found = kind.model_json_schema(ref_template="#/components/schemas/{model}")
            known.update(found.pop("$defs", {}))
            known[kind.__name__] = found
        return document

    app.openapi = openapi  # type: ignore[method-assign]
