"""API keys: made once, stored as hashes, scoped, removed at once; where they are needed."""

from __future__ import annotations

import stat
from pathlib import Path

import httpx
import pytest
from service.running import D, Service

from olrank.errors import ConfigError
from olrank.service.auth import Keys, is_loopback, read_secret
from olrank.service.gate import scope_of
from olrank.service.options import Limits
from olrank.service.serve import check_auth


def test_a_key_is_found_by_its_text_and_stored_as_a_hash(tmp_path: Path):
    keys = Keys(tmp_path)
    text = keys.add("shop", ["rank", "feedback"])
    found = Keys(tmp_path).find(text)
    assert found is not None
    assert (found.name, found.allows("rank"), found.allows("admin")) == ("shop", True, False)
    secret = text.split("_")[2]
    assert secret not in (tmp_path / "keys.json").read_text()
    assert stat.S_IMODE((tmp_path / "keys.json").stat().st_mode) == 0o600
    other = text[:-1] + ("0" if text[-1] != "0" else "1")
    for wrong in ("", "olr", secret, other, f"x{text}"):
        assert keys.find(wrong) is None


def test_a_removed_key_stops_working_for_a_running_reader(tmp_path: Path):
    reader, writer = Keys(tmp_path), Keys(tmp_path)
    text = writer.add("", ["admin"])
    assert reader.find(text) is not None
    writer.remove(text.split("_")[1])
    assert reader.find(text) is None
    with pytest.raises(ConfigError, match="no key has the id"):
        writer.remove("nobody")
    with pytest.raises(ConfigError, match="rank, feedback, admin"):
        writer.add("", ["root"])


def test_an_unreadable_key_file_is_an_error_and_not_an_open_door(tmp_path: Path):
    (tmp_path / "keys.json").write_text("{")
    with pytest.raises(ConfigError, match="cannot be read"):
        Keys(tmp_path).all()


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False)]
    + [("10.0.0.1", False), ("example.org", False), ("", False)],
)
def test_only_loopback_needs_no_keys(host: str, loopback: bool, tmp_path: Path):
    assert is_loopback(host) == loopback
    keys = Keys(tmp_path)
    for auth in ("auto", "off"):
        if loopback:
            assert check_auth(host, auth, keys) is None
        else:
            with pytest.raises(ConfigError, match="olrank keys add"):
                check_auth(host, auth, keys)
    keys.add("", ["rank"])
    assert check_auth(host, "auto", keys) is keys
    with pytest.raises(ConfigError, match="auto, on or off"):
        check_auth(host, "maybe", keys)


def test_keys_may_be_asked_for_on_loopback_too(tmp_path: Path):
    with pytest.raises(ConfigError, match="there are none"):
        check_auth("127.0.0.1", "on", Keys(tmp_path))


@pytest.mark.parametrize(
    ("method", "path", "scope"),
    [
        ("POST", "/v1/rankers/a/rank", "rank"),
        ("POST", "/v1/rankers/a/feedback", "feedback"),
        ("GET", "/v1/rankers/a/rankings/x/y", "rank"),
        ("GET", "/v1/rankers/a/explain", "rank"),
        ("POST", "/v1/rankers", "admin"),
        ("DELETE", "/v1/rankers/rank", "admin"),
        ("PUT", "/v1/rankers/a/switches", "admin"),
        ("POST", "/v1/rankers/a/snapshots", "admin"),
        ("POST", "/v1/rankers/a/erase", "admin"),
        ("POST", "/v1/rankers/a/catch-up", "admin"),
        ("GET", "/metrics", "admin"),
        ("GET", "/v1/rankers", "admin"),
        ("POST", "/v1/rankers/a/rank/x", "admin"),
        ("POST", "/v1/rankers/snapshots/rankings/rank", "admin"),
    ],
)
def test_every_route_has_a_scope(method: str, path: str, scope: str):
    assert scope_of(method, path) == scope


def test_a_service_with_keys_lets_in_whom_it_should(tmp_path: Path):
    keys = Keys(tmp_path)
    admin, ranks = keys.add("a", ["admin"]), keys.add("r", ["rank"])
    limits = Limits(rate=0.001, burst=30)
    with Service(tmp_path, keys, limits=limits) as service:

        def ask(method: str, path: str, key: str | None, **more) -> httpx.Response:
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            return service.http.request(method, path, headers=headers, **more)

        body = {"name": "a", "features": D, "algorithm": "pairrank"}
        assert ask("POST", "/v1/rankers", None, json=body).status_code == 401
        assert ask("POST", "/v1/rankers", "olr_x_y", json=body).status_code == 401
        assert ask("POST", "/v1/rankers", ranks, json=body).status_code == 403
        assert ask("POST", "/v1/rankers", admin, json=body).status_code == 201
        assert ask("GET", "/v1/rankers/a/rankings/x", ranks).status_code == 404
        assert ask("GET", "/metrics", None).status_code == 401
        assert ask("GET", "/healthz", None).status_code == 200
        answers = [ask("GET", "/v1/rankers/a/rankings/x", ranks) for _ in range(40)]
        limited = [one for one in answers if one.status_code == 429]
        assert 0 < len(limited) < 40
        assert int(limited[0].headers["Retry-After"]) >= 1
        assert ask("GET", "/v1/rankers", admin).status_code == 200  # another client's bucket


def test_the_secret_of_draws_stays_the_same_and_private(tmp_path: Path):
    secret = read_secret(tmp_path)
    assert (len(secret), read_secret(tmp_path)) == (32, secret)
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600
    (tmp_path / "secret").write_bytes(b"short")
    with pytest.raises(ConfigError, match="expected 32 bytes, found 5"):
        read_secret(tmp_path)
