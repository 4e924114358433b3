"""One line of data, read slowly and judged exactly: the authority on what a good line is.

The bulk reader hands over every line that it does not understand at first sight; here the line
either turns out to be good after all, or gets a `Problem` that names what is wrong.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from olrank.data.problems import Problem, shown

_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_NOT_FINITE = re.compile(rb"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_WHOLE = re.compile(rb"[+-]?\d+")
_MAX_FLOAT32 = (2 - 2**-23) * 2.0**127
_MAX_GRADE = 2**31 - 1  # grades are stored in 32 bits
MAX_INDEX = 1 << 16  # rows are stored dense: an index above this is a slip, or n_features says it


class Grammar(NamedTuple):
    """The form of a line: LETOR's, or that of rows whose groups stand in another file."""

    has_qid: bool = True
    first_index: int = 1
    n_features: int | None = None

    @property
    def form(self) -> str:
        """How to show the form to a person."""
        return f"GRADE {'qid:ID ' if self.has_qid else ''}FEATURE:VALUE ..."


class Row(NamedTuple):
    """A good line: its query id (empty without one), grade, 0-based columns and values."""

    query_id: bytes
    grade: int
    columns: list[int]
    values: list[float]


class _Bad(Exception):  # noqa: N818  it never leaves this file
    def __init__(self, reason: str, what: str, hint: str) -> None:
        self.problem = (reason, what, hint)


def read_line(text: bytes, line: int, grammar: Grammar) -> Row | Problem:
    """One line, not blank and without its comment, as a row or as a problem."""
    tokens = text.split()
    try:
        grade = _grade(tokens[0], grammar)
        query_id = _query_id(tokens, grammar)
        columns, values = _features(tokens[2 if grammar.has_qid else 1 :], grammar)
    except _Bad as bad:
        return Problem(line, *bad.problem)
    return Row(query_id, grade, columns, values)


def number(token: bytes) -> float | None:
    """The finite number that a token writes, or None.

    Features are stored in 32 bits: a finite number beyond their range becomes the range's end
    (Istella writes the largest 64-bit number for "not there"), so that infinity never gets in.
    """
    if not _NUMBER.fullmatch(token):
        return None
    value = float(token)
    return max(-_MAX_FLOAT32, min(value, _MAX_FLOAT32)) if math.isfinite(value) else None


def _grade(token: bytes, grammar: Grammar) -> int:
    if b":" in token:
        raise _form(token, grammar, f"the line starts with {shown(token)}", "Put the grade first")
    value = number(token)
    if value is None:
        raise _not_a_number("grade", token)
    if value < 0 or value != int(value) or value > _MAX_GRADE:
        raise _Bad(
            "bad grade",
            f"the grade {shown(token)} is not a whole number from 0 up.",
            "Map the grades to 0, 1, 2, ...",
        )
    return int(value)


def _query_id(tokens: list[bytes], grammar: Grammar) -> bytes:
    if not grammar.has_qid:
        if len(tokens) > 1 and tokens[1].startswith(b"qid:"):
            raise _Bad(
                "unexpected qid",
                f"{shown(tokens[1])} stands in a file whose groups come from a second file.",
                "Read it without the group file (read_letor)",
            )
        return b""
    token = tokens[1] if len(tokens) > 1 else b""
    if token.startswith(b"qid:") and len(token) > len(b"qid:"):
        return token[len(b"qid:") :]
    hint = "Put a colon after" if token == b"qid" else "Write the query's id as"
    example = '"qid"' if token == b"qid" else '"qid:ID" after the grade'
    found = shown(b" ".join(tokens))
    raise _form(token, grammar, f"found {found}", f"{hint} {example}", reason="missing qid")


def _form(
    token: bytes, grammar: Grammar, found: str, hint: str, reason: str = "not of the form"
) -> _Bad:
    return _Bad(reason, f'expected "{grammar.form}", {found}.', hint)


def _not_a_number(kind: str, token: bytes) -> _Bad:
    if _NOT_FINITE.fullmatch(token) or _NUMBER.fullmatch(token):
        what = f"the {kind} {shown(token)} is not a finite number."
        return _Bad("NaN or infinity", what, "Replace it by a number")
    what = f"the {kind} {shown(token)} is not a number."
    return _Bad("not a number", what, "Write numbers like 0.5 or 1e-3")


def _features(tokens: list[bytes], grammar: Grammar) -> tuple[list[int], list[float]]:
    columns: list[int] = []
    values: list[float] = []
    for token in tokens:
        index, colon, text = token.partition(b":")
        if not colon:
            raise _form(token, grammar, f"found {shown(token)}", "Write features as FEATURE:VALUE")
        columns.append(_column(index, grammar))
        value = number(text)
        if value is None:
            raise _not_a_number(f"value of feature {index.decode()},", text)
        values.append(value)
    if len(set(columns)) < len(columns):
        twice = next(c for c in columns if columns.count(c) > 1) + grammar.first_index
        raise _Bad("feature twice", f"feature {twice} is given twice.", "Keep one of them")
    return columns, values


def _column(index: bytes, grammar: Grammar) -> int:
    if not _WHOLE.fullmatch(index):
        what = f"the feature index {shown(index)} is not a whole number."
        raise _Bad("bad feature index", what, f"Number the features from {grammar.first_index} up")
    first, n_features = grammar.first_index, grammar.n_features
    column = int(index) - first
    if column < 0:
        what = f"the feature index {int(index)} is below {first}."
        raise _Bad("bad feature index", what, f"Number the features from {first} up")
    most = MAX_INDEX if n_features is None else n_features
    if column >= most:
        what = f"the feature index {int(index)} is above {most + first - 1}, the last one allowed."
        raise _Bad("bad feature index", what, "Correct it or n_features")
    return column
