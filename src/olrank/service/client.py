"""A small client with retries that are safe: every request keeps its ids from try to try.

    client = olrank.Client("http://127.0.0.1:8000")
    client.create("search", features=["bm25", "clicks", "age"])
    ranking = client.rank("search", [{"id": "a", "features": [1.2, 3, 0.5]}, ...])
    client.feedback("search", ranking, clicks=["a"], close=True)

A rank request gets its ranking_id here and a feedback event its event_id, so that an answer that
was lost on the way is asked for again without a second list, and without a second click.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import httpx

from olrank.errors import ServiceError

_RETRIED = (429, 502, 503, 504)
_LONGEST_PAUSE_S = 5.0

Click = str | tuple[str, float] | Mapping[str, Any]


class Client:
    """A service, as an object.

    Args:
        url: of the service.
        key: an API key, where the service needs one.
        timeout_s: of one try.
        tries: of one request, before it is given up.
        transport: of httpx, for tests.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        key: str | None = None,
        *,
        timeout_s: float = 10.0,
        tries: int = 8,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Nothing is sent yet."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._http = httpx.Client(
            base_url=url, headers=headers, timeout=timeout_s, transport=transport
        )
        self._tries = tries

    def __enter__(self) -> Client:
        """The client itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close its connections."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def create(
        self, name: str, features: int | Sequence[str | Mapping[str, Any]], **settings: Any
    ) -> dict[str, Any]:
        """Create a ranker; the same call again is no error."""
        given = features if isinstance(features, int) else list(features)
        return self._send("POST", "/v1/rankers", {"name": name, "features": given, **settings})

    def rankers(self) -> list[dict[str, Any]]:
        """All rankers."""
        found: list[dict[str, Any]] = self._send("GET", "/v1/rankers")["rankers"]
        return found

    def ranker(self, name: str) -> dict[str, Any]:
        """One ranker."""
        return self._send("GET", _path(name))

    def delete(self, name: str) -> None:
        """Delete a ranker."""
        self._send("DELETE", _path(name))

    def rank(
        self,
        name: str,
        candidates: Sequence[Mapping[str, Any]],
        *,
        ranking_id: str | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """Put candidates in order; they have an id and features."""
        body = {
            "candidates": list(candidates),
            "ranking_id": ranking_id or uuid.uuid4().hex,
            **more,
        }
        return self._send("POST", _path(name, "rank"), body)

    def ranking(
        self, name: str, ranking_id: str, first: int = 0, most: int = 100
    ) -> dict[str, Any]:
        """A served ranking from slot `first` on."""
        params = {"first": first, "most": most}
        return self._send("GET", _path(name, "rankings", ranking_id), params=params)

    def feedback(
        self,
        name: str,
        ranking: str | Mapping[str, Any],
        clicks: Iterable[Click] = (),
        *,
        shown_upto: int | None = None,
        close: bool = False,
        event_id: str | None = None,
    ) -> str:
        """Report what happened to one ranking; what became of the event, in a word."""
        event = {
            "ranking_id": ranking if isinstance(ranking, str) else ranking["ranking_id"],
            "clicks": [_click(one) for one in clicks],
            "shown_upto": shown_upto,
            "close": close,
            "event_id": event_id or uuid.uuid4().hex,
        }
        status: str = self.send_events(name, [event])[0]["status"]
        return status

    def send_events(self, name: str, events: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Report many events at once; a status for each."""
        given = [{"event_id": uuid.uuid4().hex, **event} for event in events]
        answer = self._send("POST", _path(name, "feedback"), {"events": given})
        statuses: list[dict[str, Any]] = answer["statuses"]
        return statuses

    def switch(self, name: str, **switches: bool) -> dict[str, bool]:
        """Set some of explore, learn and serve; all of them, as they are now."""
        return self._send("PUT", _path(name, "switches"), switches)

    def catch_up(self, name: str) -> dict[str, Any]:
        """Return when the model that serves has learned from all impressions closed so far."""
        return self._send("POST", _path(name, "catch-up"))

    def explain(self, name: str, ranking_id: str, above: str, below: str) -> dict[str, Any]:
        """Why one candidate stands above another."""
        params = {"ranking_id": ranking_id, "above": above, "below": below}
        return self._send("GET", _path(name, "explain"), params=params)

    def snapshots(self, name: str) -> list[dict[str, Any]]:
        """Kept snapshots, the oldest first."""
        found: list[dict[str, Any]] = self._send("GET", _path(name, "snapshots"))["snapshots"]
        return found

    def take_snapshot(self, name: str) -> dict[str, Any]:
        """Take a snapshot now."""
        return self._send("POST", _path(name, "snapshots"))

    def promote(self, name: str, snapshot_id: str) -> dict[str, Any]:
        """Serve a snapshot from now on."""
        return self._send("POST", _path(name, "snapshots", snapshot_id, "promote"))

    def export_snapshot(self, name: str, snapshot_id: str) -> bytes:
        """A snapshot as bytes of a safetensors file."""
        return self._try("GET", _path(name, "snapshots", snapshot_id, "export")).content

    def import_snapshot(self, name: str, content: bytes) -> dict[str, Any]:
        """Take in an exported snapshot."""
        headers = {"Content-Type": "application/octet-stream"}
        path = _path(name, "snapshots", "import")
        found: dict[str, Any] = self._try("POST", path, content=content, headers=headers).json()
        return found

    def erase(self, name: str, ranking_ids: Sequence[str]) -> int:
        """Overwrite what the service knows of closed rankings; how many records are gone."""
        dropped: int = self._send("POST", _path(name, "erase"), {"ranking_ids": list(ranking_ids)})[
            "dropped"
        ]
        return dropped

    def wait_until_ready(self, timeout_s: float = 120.0) -> None:
        """Return when the service is ready; raise when it is not in time."""
        end_s = time.monotonic() + timeout_s
        last = "no answer"
        while time.monotonic() < end_s:
            try:
                answer = self._http.get("/readyz")
                if answer.status_code == 200:
                    return
                last = "; ".join(answer.json().get("reasons", [])) or answer.text
            except httpx.TransportError as reason:
                last = str(reason)
            time.sleep(0.1)
        raise ServiceError(f"{self._http.base_url}: not ready after {timeout_s:g} s ({last}).")

    def _send(
        self, method: str, path: str, body: Any = None, params: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        kwargs: dict[str, Any] = {} if body is None else {"json": body}
        answer = self._try(method, path, params=params, **kwargs)
        found: dict[str, Any] = answer.json() if answer.content else {}
        return found

    def _try(self, method: str, path: str, **kwargs: Any) -> httpx.Response:
        for attempt in range(1, self._tries + 1):
            try:
                answer = self._http.request(method, path, **kwargs)
            except httpx.TransportError as reason:
                if attempt == self._tries:
                    where = f"{method} {self._http.base_url}{path.lstrip('/')}"
                    raise ServiceError(
                        f"{where}: no answer in {attempt} tries ({reason})."
                    ) from None
                time.sleep(_pause_s(attempt, None))
                continue
            if answer.status_code not in _RETRIED or attempt == self._tries:
                return _checked(answer)
            time.sleep(_pause_s(attempt, answer.headers.get("Retry-After")))
        raise AssertionError("unreachable")


def _pause_s(attempt: int, asked: str | None) -> float:
    """Longer from try to try, with a random part so that many clients do not come back at once."""
    if asked is not None and asked.isdigit():
        return min(float(asked), _LONGEST_PAUSE_S)
    return float(min(0.05 * 2**attempt, _LONGEST_PAUSE_S) * random.uniform(0.5, 1.0))


def _checked(answer: httpx.Response) -> httpx.Response:
    if answer.is_success:
        return answer
    try:
        error = answer.json()["error"]
        text = f"{error['message']} {error['hint']}"
        code = error["code"]
    except (ValueError, KeyError, TypeError):
        text, code = answer.text[:200], "unknown"
    raise ServiceError(f"{answer.status_code} {code}: {text}", answer.status_code, code)


def _click(one: Click) -> dict[str, Any]:
    if isinstance(one, str):
        return {"id": one}
    return dict(one) if isinstance(one, Mapping) else {"id": one[0], "weight": one[1]}


def _path(name: str, *parts: str) -> str:
    return "/".join(["/v1/rankers", *(quote(part, safe="") for part in (name, *parts))])
