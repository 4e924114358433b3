"""Failures that a client sees: one shape, a code for programs, words for people."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from olrank.errors import (
    CheckpointError,
    ConfigError,
    DataError,
    LogDamagedError,
    LogRefusedError,
    LogUnavailableError,
    OlrankError,
    UnknownRankerError,
)

_STATUS: list[tuple[type[OlrankError], int, str, str]] = [
    (UnknownRankerError, 404, "unknown_ranker", "Create it first, or look at GET /v1/rankers."),
    (LogRefusedError, 409, "refused", "Look at the present state, then decide again."),
    (LogUnavailableError, 503, "log_unavailable", "Nothing was acknowledged. Retry with the ids."),
    (LogDamagedError, 500, "log_damaged", "Stop the service and restore its folder from a copy."),
    (ConfigError, 422, "bad_configuration", "Correct the configuration and send it again."),
    (DataError, 422, "bad_data", "Correct the data and send it again."),
    (CheckpointError, 422, "bad_snapshot", "Use another snapshot."),
]


class Problem(Exception):  # noqa: N818  a problem is an answer, not a bug
    """A failure to answer with.

    Args:
        status: of HTTP.
        code: a word for programs.
        message: what happened, and where.
        hint: what to do.
        headers: of the answer.
    """

    def __init__(
        self, status: int, code: str, message: str, hint: str, headers: dict[str, str] | None = None
    ) -> None:
        """Keep what will be said."""
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.hint = hint
        self.headers = headers or {}

    def body(self) -> dict[str, Any]:
        """The answer's body."""
        return {"error": {"code": self.code, "message": self.message, "hint": self.hint}}


def of_error(error: OlrankError) -> Problem:
    """The answer to an error that was raised on purpose."""
    for kind, status, code, hint in _STATUS:
        if isinstance(error, kind):
            retry = {"Retry-After": "1"} if status == 503 else {}
            return Problem(status, code, str(error), hint, retry)
    return Problem(500, "internal", str(error), "Look at the service's logs.")


def of_validation(error: ValidationError) -> Problem:
    """The answer to a body that is not what the schema says, naming the first place."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"]) or "body"
    more = error.error_count() - 1
    also = f" (and {more} more)" if more else ""
    code = "not_json" if first["type"] == "json_invalid" else "bad_request"
    return Problem(
        422, code, f"{place}: {first['msg']}{also}", "GET /openapi.json describes every body."
    )


def internal(error: Exception) -> Problem:
    """The answer to what nobody foresaw; the logs say more than a client should know."""
    text = f"the service failed ({type(error).__name__})."
    return Problem(500, "internal", text, "Look at the service's logs.")


def warming(name: str) -> Problem:
    """The answer while a ranker's programs are being compiled."""
    return Problem(
        503,
        "warming",
        f"ranker {name} is being compiled.",
        "Retry in a moment, with the same ranking_id.",
        {"Retry-After": "1"},
    )
