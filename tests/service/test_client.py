"""The client: retries keep their ids, so that nothing happens twice."""

from __future__ import annotations

import json

import httpx
import pytest
from service.running import D, Service, candidates

import olrank
from olrank.errors import ServiceError


class Lossy(httpx.BaseTransport):
    """A network that delivers every request and loses the first answers to it."""

    def __init__(self, lost: int) -> None:
        self._real = httpx.HTTPTransport()
        self._lost = lost
        self.bodies: list[bytes] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.bodies.append(request.read())
        answer = self._real.handle_request(request)
        if self._lost > 0:
            self._lost -= 1
            answer.close()
            raise httpx.ReadError("the answer was lost", request=request)
        return answer

    def close(self) -> None:
        self._real.close()


def test_a_lost_answer_is_asked_for_again_without_a_second_list_or_click(service: Service):
    service.create("lossy")
    network = Lossy(lost=3)
    with olrank.Client(service.url, transport=network) as client:
        ranking = client.rank("lossy", candidates([[0.1] * D, [0.9] * D]))
    assert len(network.bodies) == 4
    assert len({json.loads(body)["ranking_id"] for body in network.bodies}) == 1
    network = Lossy(lost=2)
    with olrank.Client(service.url, transport=network) as client:
        assert client.feedback("lossy", ranking, ["d1"], close=True) == "duplicate"
    assert len(set(network.bodies)) == 1
    service.wait_trained("lossy", 1)
    assert service.client.ranking("lossy", ranking["ranking_id"])["events"] == 1


def answering(*statuses: int) -> tuple[httpx.MockTransport, list[int]]:
    left, asked = list(statuses), []

    def handle(_: httpx.Request) -> httpx.Response:
        asked.append(left[0])
        status = left.pop(0)
        if status == 0:
            raise httpx.ConnectError("nobody there")
        error = {"error": {"code": "c", "message": "m.", "hint": "h."}}
        return httpx.Response(status, json=error if status >= 400 else {"rankers": []})

    return httpx.MockTransport(handle), asked


def test_what_may_pass_is_retried_and_what_may_not_is_told():
    transport, asked = answering(503, 0, 429, 200)
    assert olrank.Client(transport=transport).rankers() == []
    assert asked == [503, 0, 429, 200]
    transport, asked = answering(409, 200)
    with pytest.raises(ServiceError, match="409 c: m. h.") as error:
        olrank.Client(transport=transport).rankers()
    assert (asked, error.value.status, error.value.code) == ([409], 409, "c")
    transport, asked = answering(0, 0, 0)
    with pytest.raises(ServiceError, match="no answer in 2 tries"):
        olrank.Client(transport=transport, tries=2).rankers()
    transport, asked = answering(503, 503)
    with pytest.raises(ServiceError, match="503 c"):
        olrank.Client(transport=transport, tries=2).rankers()
    assert asked == [503, 503]


def test_clicks_may_be_ids_pairs_or_maps(service: Service):
    service.create("clicks", window_s=0.2)
    ranking = service.client.rank("clicks", candidates([[0.1] * D, [0.9] * D, [0.5] * D]))
    clicks = ["d0", ("d1", 2.5), {"id": "d2", "weight": 0.5}]
    assert service.client.feedback("clicks", ranking, clicks, shown_upto=3) == "accepted"
    stored = service.runtime.log.ranking("clicks", ranking["ranking_id"])
    assert stored is not None
    assert sorted(stored.events[0].header["clicks"]) == [["d0", 1.0], ["d1", 2.5], ["d2", 0.5]]
    service.wait_trained("clicks", 1)  # by the window, nobody asked for a close
