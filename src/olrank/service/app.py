"""The HTTP interface: routes, and nothing else. Bodies are parsed by pydantic's own JSON parser."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException

import olrank
from olrank.errors import OlrankError
from olrank.service import schema, snapshots
from olrank.service.auth import Keys
from olrank.service.explain import explain
from olrank.service.gate import Gate
from olrank.service.problems import Problem, of_error, warming
from olrank.service.records import SnapshotRow, StoredRanking
from olrank.service.runtime import Runtime, parse
from olrank.service.serving import LiveRanker

_PAGE = 100  # items of a page of a stored ranking, unless asked otherwise
_ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"model": schema.ErrorAnswer}
    for code in (400, 401, 403, 404, 405, 409, 413, 415, 422, 429, 500, 503)
}
Text = Annotated[str, Query(min_length=1, max_length=200)]


def make_app(runtime: Runtime, keys: Keys | None = None, *, owns_runtime: bool = True) -> FastAPI:
    """The service as an ASGI application.

    Args:
        runtime: what answers.
        keys: whose holders may ask; None when everybody on this machine may.
        owns_runtime: close the runtime when the application stops.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        if owns_runtime:
            runtime.close()

    app = FastAPI(
        title="olrank",
        version=olrank.__version__,
        summary="Rank live traffic, learn from its clicks, lose nothing, learn nothing twice.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        separate_input_output_schemas=False,
    )
    app.add_middleware(Gate, limits=runtime.options.limits, keys=keys, metrics=runtime.metrics)
    _answer_errors(app)
    app.include_router(_health(runtime))
    app.include_router(_rankers(runtime))
    app.include_router(_lists(runtime))
    app.include_router(_snapshots(runtime))
    _describe_bodies(app)
    return app


def _health(runtime: Runtime) -> APIRouter:
    router = APIRouter(tags=["health"], responses={500: {"model": schema.ErrorAnswer}})

    @router.get("/healthz", response_model=schema.Health)
    async def healthz() -> Any:
        """The process is alive."""
        return JSONResponse({"status": "alive", "reasons": []})

    @router.get("/readyz", response_model=schema.Health, responses={503: {"model": schema.Health}})
    async def readyz() -> Any:
        """The log is replayed and every ranker's programs are compiled."""
        reasons = runtime.problems()
        status = "waiting" if reasons else "ready"
        return JSONResponse({"status": status, "reasons": reasons}, 503 if reasons else 200)

    @router.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Any:
        """Numbers for Prometheus."""
        await runtime.run(runtime.measure)
        return Response(generate_latest(runtime.metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return router


def _rankers(runtime: Runtime) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["rankers"], responses=_ERRORS)

    @router.post(
        "/rankers",
        response_model=schema.RankerAnswer,
        status_code=201,
        responses={200: {"model": schema.RankerAnswer}},
        openapi_extra=_takes(schema.CreateRanker),
    )
    async def create(request: Request) -> Any:
        """Create a ranker; it is `warming` until its programs are compiled."""
        ranker, new = await runtime.create(await _body(request, schema.CreateRanker))
        return JSONResponse(_describe(ranker), 201 if new else 200)

    @router.get("/rankers", response_model=schema.RankersAnswer)
    async def list_all() -> Any:
        """All rankers."""
        found = sorted(runtime.rankers.values(), key=lambda one: one.name)
        return JSONResponse({"rankers": [_describe(one) for one in found]})

    @router.get("/rankers/{name}", response_model=schema.RankerAnswer)
    async def show(name: str) -> Any:
        """One ranker."""
        return JSONResponse(_describe(runtime.find(name)))

    @router.delete("/rankers/{name}", status_code=204, response_model=None)
    async def delete(name: str) -> Any:
        """Delete a ranker; what the log holds of it goes with the next compaction."""
        await runtime.delete(name)
        return Response(status_code=204)

    @router.put(
        "/rankers/{name}/switches",
        response_model=schema.SwitchesAnswer,
        openapi_extra=_takes(schema.Switches),
    )
    async def switch(name: str, request: Request) -> Any:
        """Switch exploring, learning or serving on or off; serving off is shadow mode."""
        given = await _body(request, schema.Switches)
        return JSONResponse(await runtime.switch(name, given.model_dump(exclude_none=True)))

    @router.post(
        "/rankers/{name}/erase",
        response_model=schema.EraseAnswer,
        openapi_extra=_takes(schema.Erase),
    )
    async def erase(name: str, request: Request) -> Any:
        """Overwrite what the log holds of some closed rankings."""
        given = await _body(request, schema.Erase)
        return JSONResponse({"dropped": await runtime.erase(name, given.ranking_ids)})

    return router


def _lists(runtime: Runtime) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["lists"], responses=_ERRORS)

    @router.post(
        "/rankers/{name}/rank",
        response_model=schema.RankAnswer,
        openapi_extra=_takes(schema.RankRequest),
    )
    async def rank(name: str, request: Request) -> Any:
        """Put candidates in order. The same ranking_id and body get the stored answer."""
        _check_json(request)
        return _fast(await runtime.rank(name, await request.body()))

    @router.post(
        "/rankers/{name}/feedback",
        response_model=schema.FeedbackAnswer,
        status_code=202,
        openapi_extra=_takes(schema.Feedback),
    )
    async def feedback(name: str, request: Request) -> Any:
        """Report what users did; answered after it is durable."""
        given = await _body(request, schema.Feedback)
        return _fast({"statuses": await runtime.feedback(name, given)}, 202)

    @router.get("/rankers/{name}/rankings/{ranking_id:path}", response_model=schema.StoredAnswer)
    async def page(
        name: str,
        ranking_id: str,
        first: Annotated[int, Query(ge=0, le=schema.MAX_CANDIDATES)] = 0,
        most: Annotated[int, Query(ge=1, le=schema.MAX_CANDIDATES)] = _PAGE,
    ) -> Any:
        """A served ranking from slot `first` on: page two, without a reshuffle."""
        stored = await runtime.stored(name, ranking_id)
        return _fast(_page(stored, first, most))

    @router.get("/rankers/{name}/explain", response_model=schema.ExplainAnswer)
    async def why(name: str, ranking_id: Text, above: Text, below: Text) -> Any:
        """Why one candidate stands above another, by the model that serves now."""
        ranker = runtime.find(name)
        serving = ranker.serving
        if serving is None:
            raise warming(name)
        stored = await runtime.stored(name, ranking_id)
        return _fast(await runtime.run(lambda: explain(ranker, serving, stored, above, below)))

    return router


def _snapshots(runtime: Runtime) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["snapshots"], responses=_ERRORS)

    async def find(name: str, snapshot_id: str) -> SnapshotRow:
        runtime.find(name)
        for row in await runtime.run(lambda: runtime.log.snapshots(name)):
            if row.snapshot_id == snapshot_id:
                return row
        raise Problem(
            404,
            "unknown_snapshot",
            f'ranker {name} keeps no snapshot "{snapshot_id}".',
            f"Look at GET /v1/rankers/{name}/snapshots.",
        )

    @router.get("/rankers/{name}/snapshots", response_model=schema.SnapshotsAnswer)
    async def list_all(name: str) -> Any:
        """Kept snapshots."""
        runtime.find(name)
        rows = await runtime.run(lambda: runtime.log.snapshots(name))
        return JSONResponse({"snapshots": [_snapshot(row) for row in rows]})

    @router.post("/rankers/{name}/snapshots", response_model=schema.SnapshotAnswer, status_code=201)
    async def take(name: str) -> Any:
        """Take a snapshot now."""
        return JSONResponse(_snapshot(await find(name, await runtime.take_snapshot(name))), 201)

    @router.post(
        "/rankers/{name}/snapshots/import",
        response_model=schema.SnapshotAnswer,
        status_code=201,
        openapi_extra=_takes_bytes(),
    )
    async def take_in(name: str, request: Request) -> Any:
        """Take in an exported snapshot; promote it to serve it."""
        snapshot_id = await runtime.import_snapshot(name, await request.body())
        return JSONResponse(_snapshot(await find(name, snapshot_id)), 201)

    @router.get(
        "/rankers/{name}/snapshots/{snapshot_id}/export",
        response_class=Response,
        responses={200: {"content": {"application/octet-stream": {"schema": _BINARY}}}},
    )
    async def export(name: str, snapshot_id: str) -> Any:
        """The snapshot as a safetensors file, with everything else as JSON in its metadata."""
        row, ranker = await find(name, snapshot_id), runtime.find(name)
        place = snapshots.path(runtime.options.folder, ranker.birth, row.snapshot_id)
        await runtime.run(lambda: snapshots.check(place))
        return Response(await runtime.run(place.read_bytes), media_type="application/octet-stream")

    @router.post(
        "/rankers/{name}/snapshots/{snapshot_id}/promote", response_model=schema.PromoteAnswer
    )
    async def promote(name: str, snapshot_id: str) -> Any:
        """Serve a snapshot from now on, and learn on from there: roll-back."""
        await find(name, snapshot_id)
        record, serving = await runtime.promote(name, snapshot_id)
        ranker = runtime.find(name)
        version = ranker.serving.version if ranker.serving and serving else None
        return JSONResponse(
            {
                "snapshot_id": snapshot_id,
                "position": record.position,
                "serving": serving,
                "model_version": version,
            }
        )

    return router


async def _body(request: Request, kind: type[Any]) -> Any:
    _check_json(request)
    return parse(kind, await request.body())


def _check_json(request: Request) -> None:
    # Also keeps web pages out: a browser asks first before it sends JSON elsewhere.
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem(
            415,
            "not_json",
            f'expected content-type application/json, found "{kind}".',
            "Send JSON, with that header.",
        )


def _fast(value: Any, status: int = 200) -> Response:
    body = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return Response(body.encode(), status, media_type="application/json")


def _describe(ranker: LiveRanker) -> dict[str, Any]:
    moved = ranker.drift.largest()
    return {
        "name": ranker.name,
        "state": ranker.state,
        "problem": ranker.problem,
        "config": dict(ranker.blueprint.config),
        "switches": dict(ranker.switches),
        "model_version": ranker.serving.version if ranker.serving else None,
        "n_trained": ranker.n_trained,
        "feature_drift": moved[0] if moved else None,
        "drifted_feature": ranker.blueprint.feature_names[moved[1]] if moved else None,
    }


def _page(stored: StoredRanking, first: int, most: int) -> dict[str, Any]:
    header, arrays = stored.record.header, stored.record.arrays
    everything = [*arrays["order"].tolist(), *arrays["rest"].tolist()]
    items = [
        {"id": header["ids"][i], "slot": slot, "score": float(arrays["scores"][i])}
        for slot, i in enumerate(everything)
    ]
    return {
        **header["answer"],
        "items": items[first : first + most],
        "n_shown": len(header["shown"]),
        "closed": stored.close is not None,
        "events": len(stored.events),
    }


def _snapshot(row: SnapshotRow) -> dict[str, Any]:
    header = row.record.header
    return {
        "snapshot_id": row.snapshot_id,
        "covers": row.covers,
        "at_ms": row.record.at_ms,
        "reason": header["reason"],
        "model_version": header["version"],
        "n_trained": header["n_trained"],
        "digest": header["digest"],
    }


_BINARY = {"type": "string", "format": "binary"}


def _takes(kind: type[Any]) -> dict[str, Any]:
    where = {"$ref": f"#/components/schemas/{kind.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": where}}}}


def _takes_bytes() -> dict[str, Any]:
    content = {"application/octet-stream": {"schema": _BINARY}}
    return {"requestBody": {"required": True, "content": content}}


def _describe_bodies(app: FastAPI) -> None:
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


def _answer_errors(app: FastAPI) -> None:
    def respond(problem: Problem) -> JSONResponse:
        return JSONResponse(problem.body(), problem.status, headers=problem.headers)

    @app.exception_handler(OlrankError)
    async def on_purpose(_: Request, error: OlrankError) -> JSONResponse:
        return respond(of_error(error))

    @app.exception_handler(Problem)
    async def problem(_: Request, error: Problem) -> JSONResponse:
        return respond(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        hint = "GET /openapi.json describes every parameter."
        return respond(Problem(422, "bad_request", f"{place}: {first['msg']}", hint))

    @app.exception_handler(HTTPException)
    async def of_http(request: Request, error: HTTPException) -> JSONResponse:
        code = {404: "unknown_route", 405: "wrong_method"}.get(error.status_code, "http")
        text = f"{request.method} {request.url.path}: {error.detail}."
        hint = "GET /openapi.json lists every route."
        return respond(Problem(error.status_code, code, text, hint, dict(error.headers or {})))

    @app.exception_handler(Exception)
    async def unforeseen(_: Request, error: Exception) -> JSONResponse:
        text = f"the service failed ({type(error).__name__})."
        return respond(Problem(500, "internal", text, "Look at the service's logs."))
