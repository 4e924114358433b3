"""Requests made up from the OpenAPI document: never a 5xx, never an answer against the document.

The short form is for CI; OLRANK_FUZZ_CASES=10000 asks for the long form. Most made-up requests
would only ever hear 404, so part of them is steered to rankers, rankings and snapshots that exist.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from service.running import Service, candidates

from olrank.service.options import Limits

CASES = int(os.environ.get("OLRANK_FUZZ_CASES", "1500"))
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
OURS = {"name": "api", "features": 2, "algorithm": "pairrank", "k": 3, "history": 20}


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    place: Path = tmp_path_factory.mktemp("fuzz")
    with Service(place, limits=Limits(rankers=1, model_bytes=8 << 20)) as service:
        service.create("api", features=2, k=3, history=20)
        service.client.rank("api", candidates([[0.1, 0.2], [0.3, 0.9], [0.5, 0.1]]), ranking_id="r")
        yield service


def steer(case: Any, rng: random.Random, service: Service, snapshot_id: str) -> None:
    """Turn a made-up request towards something that exists."""
    method, path = case.method.upper(), case.operation.path
    if method == "DELETE":
        return
    if "{name}" in path:
        case.path_parameters["name"] = "api"
    if "{ranking_id}" in path:
        case.path_parameters["ranking_id"] = rng.choice(["r", "r", "x"])
    if "{snapshot_id}" in path:
        case.path_parameters["snapshot_id"] = snapshot_id
    body = case.body
    if path.endswith("/explain"):
        case.query.update(ranking_id="r", above="d0", below=rng.choice(["d1", "d2"]))
    if path == "/v1/rankers" and method == "POST" and rng.random() < 0.7:
        case.body = dict(OURS)
    elif path.endswith("/rank") and isinstance(body, dict):
        for number, one in enumerate(body.get("candidates") or []):
            if isinstance(one, dict):
                one["id"], one["features"] = f"d{number}", [rng.uniform(-5, 5), rng.random()]
        body.pop("baseline_order", None)
        body["ranking_id"] = None
    elif path.endswith("/feedback") and isinstance(body, dict):
        for one in body.get("events") or []:
            if isinstance(one, dict):
                one["ranking_id"] = "r"


OPERATIONS = 19  # routes times methods; the cases are shared among them


@pytest.mark.usefixtures("programs")
def test_no_made_up_request_breaks_the_service_or_its_document(fuzzed: Service):
    schema = schemathesis.openapi.from_dict(fuzzed.http.get("/openapi.json").json())
    schema.config.update(base_url=fuzzed.url)
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) == OPERATIONS
    snapshot_id = fuzzed.client.take_snapshot("api")["snapshot_id"]
    counts: Counter[int] = Counter()
    for operation in operations:

        @seed(7)
        @settings(
            max_examples=-(-CASES // len(operations)),
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(), how=st.integers(0, 2**32))
        def ask(case: Any, how: int) -> None:
            rng = random.Random(how)
            if rng.random() < 0.75:
                steer(case, rng, fuzzed, snapshot_id)
            answer = case.call(timeout=60)
            counts[answer.status_code] += 1
            case.validate_response(answer, checks=CHECKS)

        ask()
    total = sum(counts.values())
    accepted = sum(n for status, n in counts.items() if 200 <= status < 300)
    print(f"{total} cases, {accepted / total:.0%} answered 2xx: {dict(sorted(counts.items()))}")
    assert total >= 0.95 * CASES
    assert accepted >= 0.3 * total
    assert fuzzed.client.ranker("api")["state"] == "ready"
