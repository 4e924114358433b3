"""Routes about rankers: create, look at, switch, catch up, erase, delete."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from olrank.service import schema
from olrank.service.bodies import ERRORS, body_of, takes
from olrank.service.runtime import Runtime
from olrank.service.serving import LiveRanker


def rankers(runtime: Runtime) -> APIRouter:
    """The routes."""
    router = APIRouter(prefix="/v1", tags=["rankers"], responses=ERRORS)

    @router.post(
        "/rankers",
        response_model=schema.RankerAnswer,
        status_code=201,
        responses={200: {"model": schema.RankerAnswer}},
        openapi_extra=takes(schema.CreateRanker),
    )
    async def create(request: Request) -> Any:
        """Create a ranker; it is `warming` until its programs are compiled."""
        ranker, new = await runtime.create(await body_of(request, schema.CreateRanker))
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
        openapi_extra=takes(schema.Switches),
    )
    async def switch(name: str, request: Request) -> Any:
        """Switch exploring, learning or serving on or off; serving off is shadow mode."""
        given = await body_of(request, schema.Switches)
        return JSONResponse(await runtime.switch(name, given.model_dump(exclude_none=True)))

    @router.post("/rankers/{name}/catch-up", response_model=schema.CaughtUp)
    async def catch_up(name: str) -> Any:
        """Wait until the model that serves has learned from all impressions closed so far."""
        return JSONResponse(await runtime.catch_up(name))

    @router.post(
        "/rankers/{name}/erase",
        response_model=schema.EraseAnswer,
        openapi_extra=takes(schema.Erase),
    )
    async def erase(name: str, request: Request) -> Any:
        """Overwrite what the log holds of some closed rankings."""
        given = await body_of(request, schema.Erase)
        return JSONResponse({"dropped": await runtime.erase(name, given.ranking_ids)})

    return router


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
