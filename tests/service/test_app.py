"""The HTTP interface: what each route promises, asked through the client and by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from service.running import SETTINGS, D, Service, candidates, wait_for

from olrank.errors import LogUnavailableError, ServiceError
from olrank.service import snapshots
from olrank.service.learner import Learner
from olrank.service.options import LearnerOptions
from olrank.service.records import Kind

X = np.random.default_rng(3).random((8, D))


@pytest.fixture(scope="module")
def ranker(service: Service) -> str:
    service.create("app", "olranknet")
    return "app"


def test_a_created_ranker_warms_up_and_becomes_ready(service: Service):
    first = service.client.create("fresh", D, algorithm="pairrank", k=4, history=50)
    assert first["state"] in ("warming", "ready")
    wait_for(lambda: service.client.ranker("fresh")["state"] == "ready")
    again = service.http.post(
        "/v1/rankers",
        json={"name": "fresh", "features": D, "algorithm": "pairrank", "k": 4, "history": 50},
    )
    assert again.status_code == 200
    other = service.http.post("/v1/rankers", json={"name": "fresh", "features": D + 1})
    assert (other.status_code, other.json()["error"]["code"]) == (409, "ranker_exists")
    assert "fresh" in [one["name"] for one in service.client.rankers()]
    service.client.delete("fresh")
    assert service.http.get("/v1/rankers/fresh").status_code == 404


def test_a_list_holds_each_candidate_once_with_its_propensity(service: Service, ranker: str):
    found = service.client.rank(ranker, candidates(X))
    assert [item["slot"] for item in found["items"]] == [0, 1, 2, 3]
    assert len({item["id"] for item in found["items"]}) == 4
    # Nothing is certain before anything is learned: 8, 7, 6, 5 documents could have stood there.
    assert found["choices"] == [8, 7, 6, 5]
    assert found["log_propensity"] == pytest.approx(-math.log(8 * 7 * 6 * 5), rel=1e-6)
    assert (found["certain_pairs"], found["uncertain_pairs"]) == (0, 4 * 3 // 2)
    assert (found["mode"], found["n_candidates"]) == ("explore", 8)


def test_the_same_ranking_id_gets_the_stored_answer_and_never_another(service: Service):
    service.create("again")
    one = service.client.rank("again", candidates(X), ranking_id="r/1 ü")
    service.teach("again", 3)  # the model moves on
    other = service.client.rank("again", candidates(X), ranking_id="r/1 ü")
    assert other == one
    with pytest.raises(ServiceError, match="409 ranking_exists"):
        service.client.rank("again", candidates(X + 1e-9), ranking_id="r/1 ü")
    with pytest.raises(ServiceError, match="409 ranking_exists"):
        service.client.rank("again", candidates(X), ranking_id="r/1 ü", query="q")


def test_page_two_is_the_rest_in_score_order_without_a_reshuffle(service: Service):
    service.create("pages")
    service.teach("pages", 5)
    x = np.random.default_rng(5).random((12, D))
    served = service.client.rank("pages", candidates(x), ranking_id="a/b")
    whole = service.client.ranking("pages", "a/b")
    assert whole["items"][:4] == served["items"]
    assert sorted(item["id"] for item in whole["items"]) == sorted(f"d{i}" for i in range(12))
    rest = [item["score"] for item in whole["items"][4:]]
    assert rest == sorted(rest, reverse=True)
    second = service.client.ranking("pages", "a/b", first=4, most=3)
    assert second["items"] == whole["items"][4:7]
    assert (whole["n_shown"], whole["closed"], whole["events"]) == (4, False, 0)
    with pytest.raises(ServiceError, match="404 unknown_ranking"):
        service.client.ranking("pages", "never")


def test_every_status_an_event_can_get(service: Service):
    service.create("statuses")
    one = service.client.rank("statuses", candidates(X))
    top, hidden = one["items"][0]["id"], {f"d{i}" for i in range(8)}
    hidden -= {item["id"] for item in one["items"]}

    def send(**event):
        given = {"ranking_id": one["ranking_id"], "event_id": None, **event}
        return service.client.send_events("statuses", [given])[0]["status"]

    click = [{"id": top}]
    assert send(event_id="e", clicks=click) == "accepted"
    assert send(event_id="e", clicks=click) == "duplicate"
    assert send(event_id="e", clicks=[{"id": top, "weight": 2.0}]) == "conflict"
    assert send(clicks=[{"id": min(hidden)}]) == "unknown_item"
    assert send(ranking_id="never", clicks=click) == "unknown_ranking"
    assert send(clicks=[{"id": top, "weight": -1.0}]) == "rejected"
    assert send(clicks=[{"id": top, "weight": 1e7}]) == "rejected"
    assert send(shown_upto=5) == "rejected"
    service.client.switch("statuses", learn=False)
    assert send(event_id="p", clicks=click) == "paused"
    service.client.switch("statuses", learn=True)
    assert send(event_id="c", close=True) == "accepted"
    wait_for(lambda: service.client.ranking("statuses", one["ranking_id"])["closed"])
    assert send(event_id="l", clicks=click) == "late"
    assert send(event_id="e", clicks=click) == "duplicate"


def test_clicks_change_the_order(service: Service):
    service.create("learns")
    x = np.linspace(0, 1, 5)[:, None] * np.array([[1.0, 0, 0]]) + np.array([[0, 0.5, 0.5]])
    service.teach("learns", 60)
    service.client.switch("learns", explore=False)
    found = service.client.rank("learns", candidates(x))
    assert [item["id"] for item in found["items"]] == ["d4", "d3", "d2", "d1"]
    assert (found["mode"], found["log_propensity"]) == ("greedy", 0.0)


def test_catching_up_waits_until_all_that_is_closed_is_served(tmp_path: Path):
    slow = LearnerOptions(gather_s=3.0, batch=8)  # by itself it would be seconds behind
    with Service(tmp_path, learner=slow) as service:
        service.create("prompt")
        for _ in range(20):
            one = service.client.rank("prompt", candidates(X))
            service.client.feedback("prompt", one, [one["items"][0]["id"]], close=True)
        reached = service.client.catch_up("prompt")
        assert reached["n_trained"] == 20
        after = service.client.rank("prompt", candidates(X))
        assert after["model_version"] == reached["model_version"]


def test_a_learner_that_cannot_store_what_is_due_says_so_instead_of_trying_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    log: Any = None
    learner = Learner(log, tmp_path, log, LearnerOptions())
    live: Any = SimpleNamespace(backlog=True)
    learner._live["full"] = live
    monkeypatch.setattr(learner, "_read", lambda: None)
    monkeypatch.setattr(learner, "_close", lambda name: False)
    with pytest.raises(LogUnavailableError, match="could not be stored"):
        learner._do({"op": "catch_up", "ranker": "full"})


def test_a_never_shown_ranking_does_not_train_and_a_seen_one_without_clicks_does(service: Service):
    service.create("unshown", limit_s=0.0)
    service.client.rank("unshown", candidates(X), ranking_id="nobody")
    wait_for(lambda: service.client.ranking("unshown", "nobody")["closed"])
    service.create("seen", window_s=0.0)
    service.client.rank("seen", candidates(X), ranking_id="zero")
    service.client.feedback("seen", "zero", shown_upto=0)
    wait_for(lambda: service.client.ranking("seen", "zero")["closed"])
    service.client.rank("seen", candidates(X), ranking_id="all")
    service.client.feedback("seen", "all")
    service.wait_trained("seen", 1)
    assert service.client.ranker("unshown")["n_trained"] == 0
    assert service.client.ranker("seen")["n_trained"] == 1


def test_switched_off_learning_pauses_events_and_the_model_stands_still(service: Service):
    service.create("still")
    service.teach("still", 3)
    one = service.client.rank("still", candidates(X))
    before = service.client.take_snapshot("still")["digest"]
    assert service.client.switch("still", learn=False) == {
        "explore": True,
        "learn": False,
        "serve": True,
    }
    assert service.client.feedback("still", one, [one["items"][0]["id"]], close=True) == "paused"
    wait_for(lambda: service.client.ranking("still", one["ranking_id"])["closed"])
    after = service.client.take_snapshot("still")
    assert (after["digest"], after["n_trained"]) == (before, 3)


def test_shadow_mode_returns_the_clients_own_order(service: Service):
    service.create("shadow", "olranknet")
    service.client.switch("shadow", serve=False)
    found = service.client.rank("shadow", candidates(X))
    assert [item["id"] for item in found["items"]] == ["d0", "d1", "d2", "d3"]
    assert (found["mode"], found["log_propensity"]) == ("shadow", 0.0)
    order = [f"d{i}" for i in (7, 5, 3, 1, 0, 2, 4, 6)]
    found = service.client.rank("shadow", candidates(X), baseline_order=order)
    assert [item["id"] for item in found["items"]] == order[:4]
    service.client.feedback("shadow", found, ["d5"], close=True)
    service.wait_trained("shadow", 1)  # a ranker that can learn from lists of others does


def test_a_ranker_that_learns_only_from_its_own_draws_does_not_learn_in_shadow_mode(
    service: Service,
):
    service.create("own", "pdgd-linear")
    service.teach("own", 2)
    service.client.switch("own", serve=False)
    found = service.client.rank("own", candidates(X))
    service.client.feedback("own", found, ["d1"], close=True)
    wait_for(lambda: service.client.ranking("own", found["ranking_id"])["closed"])
    assert service.client.take_snapshot("own")["n_trained"] == 2
    service.client.switch("own", serve=True)
    with pytest.raises(ServiceError, match="422 bad_configuration: baseline_order"):
        service.client.rank("own", candidates(X), baseline_order=[f"d{i}" for i in range(8)])


def test_a_baseline_order_is_kept_but_for_the_share_that_explores(service: Service, ranker: str):
    order = [f"d{i}" for i in (7, 5, 3, 1, 0, 2, 4, 6)]
    kept = service.client.rank(ranker, candidates(X), baseline_order=order, explore_share=0.0)
    assert [item["id"] for item in kept["items"]] == order[:4]
    assert (kept["mode"], kept["log_propensity"]) == ("floor", 0.0)
    p_draw = 1 / (8 * 7 * 6 * 5)
    mixed = [
        service.client.rank(ranker, candidates(X), baseline_order=order, explore_share=0.5)
        for _ in range(12)
    ]
    for one in mixed:
        is_kept = [item["id"] for item in one["items"]] == order[:4]
        p = 0.5 * p_draw + 0.5 * is_kept
        assert one["log_propensity"] == pytest.approx(math.log(p), rel=1e-5)
    n_kept = sum(one["log_propensity"] > math.log(0.5) for one in mixed)
    assert 0 < n_kept < 12  # false alarm: 2 / 2^12
    with pytest.raises(ServiceError, match='every candidate once; look at "d6"'):
        service.client.rank(ranker, candidates(X), baseline_order=order[:-1])


def test_roll_back_brings_back_the_same_bits_and_learning_goes_on(service: Service):
    service.create("back", "olranknet")
    service.teach("back", 4)
    old = service.client.take_snapshot("back")
    service.teach("back", 4, seed=1)
    new = service.client.take_snapshot("back")
    assert new["digest"] != old["digest"]
    answer = service.client.promote("back", old["snapshot_id"])
    assert answer["serving"]
    assert answer["model_version"] == service.client.ranker("back")["model_version"]
    assert answer["model_version"] > new["model_version"]
    assert service.client.take_snapshot("back")["digest"] == old["digest"]
    service.teach("back", 1, seed=2)
    assert service.client.take_snapshot("back")["digest"] != old["digest"]
    kept = [one["snapshot_id"] for one in service.client.snapshots("back")]
    assert {old["snapshot_id"], new["snapshot_id"]} <= set(kept)
    with pytest.raises(ServiceError, match="404 unknown_snapshot"):
        service.client.promote("back", "..secret")


def test_a_damaged_snapshot_is_not_promoted_and_no_record_says_so(service: Service):
    service.create("hurt")
    taken = service.client.take_snapshot("hurt")["snapshot_id"]
    place = snapshots.path(service.folder, service.runtime.find("hurt").birth, taken)
    content = place.read_bytes()
    place.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    for ask in (service.client.promote, service.client.export_snapshot):
        with pytest.raises(ServiceError, match="422 bad_snapshot: .*checksum is wrong"):
            ask("hurt", taken)
    kinds = [record.kind for record in service.runtime.log.read(0, 10_000, "hurt")]
    assert Kind.SNAPSHOT in kinds
    assert Kind.PROMOTE not in kinds


def test_a_model_travels_by_export_and_import(service: Service):
    service.create("from")
    service.teach("from", 5)
    taken = service.client.take_snapshot("from")
    content = service.client.export_snapshot("from", taken["snapshot_id"])
    service.create("to")
    imported = service.client.import_snapshot("to", content)
    assert (imported["digest"], imported["reason"]) == (taken["digest"], "import")
    service.client.promote("to", imported["snapshot_id"])
    assert service.client.take_snapshot("to")["digest"] == taken["digest"]
    service.create("narrow", features=D - 1)
    with pytest.raises(ServiceError, match="422 bad_snapshot: .*another n_features"):
        service.client.import_snapshot("narrow", content)
    damaged = bytearray(content)
    damaged[-1] ^= 1
    with pytest.raises(ServiceError, match="422 bad_snapshot: the file: its checksum is wrong"):
        service.client.import_snapshot("to", bytes(damaged))
    with pytest.raises(ServiceError, match="422 bad_snapshot"):
        service.client.import_snapshot("to", b"not a snapshot")


@pytest.mark.parametrize(
    "algorithm", ["olranknet", "olcascade", "olcascade-ours", "pairrank", "pdgd-linear"]
)
def test_an_explanation_adds_up_to_the_difference_of_the_scores(service: Service, algorithm: str):
    name, algorithm = f"why-{algorithm}", algorithm.removesuffix("-ours")
    remembers = name == "why-olcascade"
    more: dict[str, Any] = {}
    if name.endswith("-ours"):
        more["settings"] = {**SETTINGS["olranknet"], "preset": "ours"}
    service.create(name, algorithm, features=["bm25", "price", "age"], keep_candidates=1.0, **more)
    service.teach(name, 30)
    served = service.client.rank(name, candidates(X))
    service.client.feedback(name, served, [served["items"][0]["id"]], close=True)
    service.client.catch_up(name)
    ids = [item["id"] for item in service.client.ranking(name, served["ranking_id"])["items"]]
    found = service.client.explain(name, served["ranking_id"], ids[0], ids[-1])
    difference = found["score_above"] - found["score_below"]
    total = sum(f["contribution"] for f in found["features"]) + found["beyond_features"]
    assert total == pytest.approx(difference, abs=2e-3)
    assert (found["beyond_features"] != 0) == remembers
    assert found["probability"] == pytest.approx(1 / (1 + math.exp(-difference)), abs=1e-6)
    sizes = [abs(feature["contribution"]) for feature in found["features"]]
    assert sizes == sorted(sizes, reverse=True)
    assert {feature["name"] for feature in found["features"]} == {"bm25", "price", "age"}
    assert found["model_version"] == service.client.ranker(name)["model_version"]
    if algorithm == "pdgd-linear":
        assert (found["width"], found["certain"]) == (None, False)
    elif remembers:
        assert found["width_of"] == "logit"
        assert found["certain"] == (abs(difference) > found["width"])
    else:
        assert found["width_of"] == "probability"
        assert found["certain"] == (abs(found["probability"] - 0.5) > found["width"])


def test_features_go_by_name_and_missing_ones_take_their_default(service: Service):
    features = ["bm25", {"name": "price", "default": 0.25}]
    service.create("named", features=features, normalise="none", keep_candidates=1.0)
    one = service.client.rank(
        "named", [{"id": "a", "features": {"bm25": 1}}, {"id": "b", "features": [2, None]}]
    )
    stored = service.runtime.log.ranking("named", one["ranking_id"])
    assert stored is not None
    assert stored.record.arrays["candidates"].tolist() == [[1.0, 0.25], [2.0, 0.25]]
    for features, complaint in [
        ({"price": 1.0}, 'candidate "a", feature "bm25": it is missing and has no default'),
        ({"bm25": 1.0, "colour": 2.0}, 'candidate "a": no feature is called "colour"'),
        ([1.0], 'candidate "a": expected 2 features, found 1'),
        ([1.0, 1e39], 'candidate "a", feature "price": 1e+39 is beyond'),
    ]:
        with pytest.raises(ServiceError) as error:
            service.client.rank("named", [{"id": "a", "features": features}])
        assert complaint in str(error.value)
        assert (error.value.status, error.value.code) == (422, "bad_data")


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999", '"1"', "true"])
def test_what_is_no_finite_number_is_refused_by_place(service: Service, ranker: str, value: str):
    body = '{"candidates": [{"id": "a", "features": [1, 2, VALUE]}]}'.replace("VALUE", value)
    answer = service.http.post(
        f"/v1/rankers/{ranker}/rank", content=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 422
    assert "candidates.0.features" in answer.json()["error"]["message"]


def test_every_failure_has_one_shape(service: Service, ranker: str):
    """One test walks all routes: unknown names, wrong methods, broken bodies, huge ones."""
    paths = service.http.get("/openapi.json").json()["paths"]
    asked = 0
    for path, methods in paths.items():
        url = path.replace("{name}", "nobody").replace("{ranking_id}", "x")
        url = url.replace("{snapshot_id}", "x")
        for method in [*methods, "patch"]:
            for body, kind in [
                (b"", "application/json"),
                (b"{", "application/json"),
                (b"x", "a/b"),
            ]:
                answer = service.http.request(
                    method, url, content=body, headers={"Content-Type": kind}
                )
                if answer.status_code >= 400:
                    assert_error(answer)
                    asked += 1
    assert asked > 40
    assert_error(service.http.get("/nowhere"), 404)
    assert_error(service.http.get("/v1/rankers/"), 404)
    huge = b"[" + b" " * (17 << 20) + b"]"
    headers = {"Content-Type": "application/json"}
    assert_error(service.http.post("/v1/rankers", content=huge, headers=headers), 413)
    assert_error(service.http.get("/healthz", headers={"Host": "evil.example"}), 403)


def assert_error(answer, status: int | None = None) -> None:
    assert set(answer.json()) == {"error"}, answer.text
    assert set(answer.json()["error"]) == {"code", "message", "hint"}
    assert all(answer.json()["error"].values())
    assert status in (None, answer.status_code)
    assert answer.headers["content-type"] == "application/json"


def test_a_body_sent_in_pieces_is_measured_too(service: Service):
    def pieces():
        for _ in range(18):
            yield b" " * (1 << 20)

    headers = {"Content-Type": "application/json"}
    answer = service.http.post("/v1/rankers", content=pieces(), headers=headers)
    assert_error(answer, 413)


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"algorithm": "pdgdd"}, 'no ranker is called "pdgdd"'),
        ({"algorithm": "skyline"}, "learns from judged grades"),
        ({"settings": {"widht": 3}}, 'no setting is called "widht"'),
        ({"settings": {"k": 3}}, 'give "k" beside the settings'),
        ({"settings": {"width": 10**9}}, "more than the 1024 MiB"),
        ({"features": ["a", "a"]}, '"a" comes twice'),
        ({"k": 1}, "at least 2 slots"),
        ({"name": "../x"}, "name: String should match pattern"),
        ({"colour": "red"}, "colour: Extra inputs are not permitted"),
    ],
)
def test_a_bad_configuration_is_refused_with_the_reason(service: Service, more, complaint):
    given = {"name": "bad", "features": D, "algorithm": "olranknet", **more}
    answer = service.http.post("/v1/rankers", json=given)
    assert answer.status_code == 422
    assert complaint in answer.json()["error"]["message"]
    assert service.http.get("/v1/rankers/bad").status_code == 404


def test_metrics_count_what_happened(service: Service):
    service.create("counted")
    service.teach("counted", 5)
    text = service.http.get("/metrics").text
    for line in (
        'olrank_rankings_total{mode="explore",ranker="counted"} 5.0',
        'olrank_feedback_events_total{ranker="counted",status="accepted"} 5.0',
        'olrank_impressions_closed_total{ranker="counted",reason="client"} 5.0',
        'olrank_impressions_trained_total{ranker="counted"} 5.0',
        'olrank_slot_shown_total{ranker="counted",slot="0"} 5.0',
        'olrank_join_ratio{ranker="counted"} 1.0',
        "olrank_learner_up 1.0",
    ):
        assert line in text
    assert 'olrank_request_seconds_count{code="200",method="POST"' in text


def test_a_deleted_ranker_is_gone_and_its_name_begins_anew(service: Service):
    service.create("reborn")
    service.teach("reborn", 3)
    service.client.rank("reborn", candidates(X), ranking_id="r")
    service.client.delete("reborn")
    with pytest.raises(ServiceError, match="404 unknown_ranker"):
        service.client.rank("reborn", candidates(X))
    service.create("reborn", "pdgd-linear")
    assert service.client.ranker("reborn")["n_trained"] == 0
    with pytest.raises(ServiceError, match="404 unknown_ranking"):
        service.client.ranking("reborn", "r")
    service.teach("reborn", 2)


def test_what_was_erased_is_unknown_and_the_model_stays(service: Service):
    service.create("erased")
    service.teach("erased", 2)
    one = service.client.rank("erased", candidates(X), ranking_id="private", query="my secret")
    service.client.feedback("erased", one, ["d1"] if "d1" in str(one["items"]) else [], close=True)
    service.wait_trained("erased", 3)
    before = service.client.take_snapshot("erased")["digest"]
    assert service.client.erase("erased", ["private"]) >= 3  # the ranking, its event, its close
    with pytest.raises(ServiceError, match="404 unknown_ranking"):
        service.client.ranking("erased", "private")
    assert service.client.take_snapshot("erased")["digest"] == before
    assert service.client.feedback("erased", "private", [], close=True) == "unknown_ranking"


def test_a_model_that_runs_away_is_not_served(service: Service):
    service.create("wild", "olranknet", settings={"width": 4, "learning_rate": 1e20, "pull": 0.0})
    sane = service.client.take_snapshot("wild")
    before = service.client.rank("wild", candidates(X))
    for _ in range(3):
        one = service.client.rank("wild", candidates(X))
        service.client.feedback("wild", one, [one["items"][1]["id"]], close=True)
    service.wait_trained("wild", 3)
    text = service.http.get("/metrics").text
    assert 'olrank_model_diverged{ranker="wild"} 1.0' in text
    after = service.client.rank("wild", candidates(X))
    assert all(math.isfinite(item["score"]) for item in after["items"])
    assert after["model_version"] >= before["model_version"]
    assert service.client.promote("wild", sane["snapshot_id"])["serving"]
    assert 'olrank_model_diverged{ranker="wild"} 0.0' in service.http.get("/metrics").text
    service.client.delete("wild")


def test_the_service_says_that_it_is_alive_and_ready(service: Service):
    assert service.http.get("/healthz").json()["status"] == "alive"
    service.client.wait_until_ready()
    assert service.http.get("/readyz").json() == {"status": "ready", "reasons": []}


def test_the_openapi_document_describes_every_body(service: Service):
    document = json.loads(service.http.get("/openapi.json").text)
    text = json.dumps(document)
    named = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert named <= set(document["components"]["schemas"])
    assert {"RankRequest", "Feedback", "CreateRanker", "Switches", "Erase"} <= named
