"""The HTTP interface: the gate, the two busy routes, and behind them FastAPI with all others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

import olrank
from olrank.errors import OlrankError
from olrank.service import schema
from olrank.service.auth import Keys
from olrank.service.bodies import describe_bodies
from olrank.service.gate import Gate
from olrank.service.problems import Problem, internal, of_error
from olrank.service.routes_lists import lists
from olrank.service.routes_rankers import rankers
from olrank.service.routes_snapshots import snapshots
from olrank.service.runtime import Runtime
from olrank.service.traffic import Traffic


def make_app(runtime: Runtime, keys: Keys | None = None, *, owns_runtime: bool = True) -> ASGIApp:
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
    _answer_errors(app)
    app.include_router(_health(runtime))
    app.include_router(rankers(runtime))
    app.include_router(lists(runtime))
    app.include_router(snapshots(runtime))
    describe_bodies(app)
    return Gate(Traffic(app, runtime), runtime.options.limits, keys, runtime.metrics)


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
        return respond(internal(error))
