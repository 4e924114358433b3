"""Routes about snapshots: list, take, bring in, take away, promote."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from olrank.service import schema
from olrank.service import snapshots as files
from olrank.service.bodies import BINARY, ERRORS, takes_bytes
from olrank.service.problems import Problem
from olrank.service.records import SnapshotRow
from olrank.service.runtime import Runtime


def snapshots(runtime: Runtime) -> APIRouter:
    """The routes."""
    router = APIRouter(prefix="/v1", tags=["snapshots"], responses=ERRORS)

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
        openapi_extra=takes_bytes(),
    )
    async def take_in(name: str, request: Request) -> Any:
        """Take in an exported snapshot; promote it to serve it."""
        snapshot_id = await runtime.import_snapshot(name, await request.body())
        return JSONResponse(_snapshot(await find(name, snapshot_id)), 201)

    @router.get(
        "/rankers/{name}/snapshots/{snapshot_id}/export",
        response_class=Response,
        responses={200: {"content": {"application/octet-stream": {"schema": BINARY}}}},
    )
    async def export(name: str, snapshot_id: str) -> Any:
        """The snapshot as a safetensors file, with everything else as JSON in its metadata."""
        row, ranker = await find(name, snapshot_id), runtime.find(name)
        place = files.path(runtime.options.folder, ranker.birth, row.snapshot_id)
        await runtime.run(lambda: files.check(place))
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
