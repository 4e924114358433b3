"""Routes about lists: rank, feedback, page two, explain. Most of the first two: traffic.py."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from olrank.service import schema
from olrank.service.bodies import ERRORS, answer, body_of, takes
from olrank.service.explain import explain
from olrank.service.problems import warming
from olrank.service.records import StoredRanking
from olrank.service.runtime import Runtime
from olrank.service.traffic import check_json

_PAGE = 100  # items of a page of a stored ranking, unless asked otherwise
Text = Annotated[str, Query(min_length=1, max_length=200)]


def lists(runtime: Runtime) -> APIRouter:
    """The routes."""
    router = APIRouter(prefix="/v1", tags=["lists"], responses=ERRORS)

    @router.post(
        "/rankers/{name}/rank",
        response_model=schema.RankAnswer,
        openapi_extra=takes(schema.RankRequest),
    )
    async def rank(name: str, request: Request) -> Any:
        """Put candidates in order. The same ranking_id and body get the stored answer."""
        check_json(request.headers.get("content-type", ""))
        return answer(await runtime.rank(name, await request.body()))

    @router.post(
        "/rankers/{name}/feedback",
        response_model=schema.FeedbackAnswer,
        status_code=202,
        openapi_extra=takes(schema.Feedback),
    )
    async def feedback(name: str, request: Request) -> Any:
        """Report what users did; answered after it is durable."""
        given = await body_of(request, schema.Feedback)
        return answer({"statuses": await runtime.feedback(name, given)}, 202)

    @router.get("/rankers/{name}/rankings/{ranking_id:path}", response_model=schema.StoredAnswer)
    async def page(
        name: str,
        ranking_id: str,
        first: Annotated[int, Query(ge=0, le=schema.MAX_CANDIDATES)] = 0,
        most: Annotated[int, Query(ge=1, le=schema.MAX_CANDIDATES)] = _PAGE,
    ) -> Any:
        """A served ranking from slot `first` on: page two, without a reshuffle."""
        stored = await runtime.stored(name, ranking_id)
        return answer(_page(stored, first, most))

    @router.get("/rankers/{name}/explain", response_model=schema.ExplainAnswer)
    async def why(name: str, ranking_id: Text, above: Text, below: Text) -> Any:
        """Why one candidate stands above another, by the model that serves now."""
        ranker = runtime.find(name)
        serving = ranker.serving
        if serving is None:
            raise warming(name)
        stored = await runtime.stored(name, ranking_id)
        return answer(await runtime.run(lambda: explain(ranker, serving, stored, above, below)))

    return router


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
