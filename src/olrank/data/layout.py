"""Where the pieces of each line stand, for all lines of a text at once.

One pass finds the bytes that structure a line: space, colon, point, newline (here: marks). A
feature is then a colon between a space and, perhaps past one point, the next space: a comparison
of neighbours in the list of marks, with no loop over lines. Whatever breaks the pattern makes its
line doubtful; nothing is taken on trust.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from olrank.data.decimals import Bools, Ints

_SPACE, _COLON, _DOT, _NEWLINE = b" :.\n"
_IS_MARK = bytes(c in b" :.\n" for c in range(256))


class Pieces(NamedTuple):
    """Pieces of a text, [n] each.

    Attributes:
        lines: the line it stands on, from 0.
        starts: its first byte.
        dots: where its point stands; its end when it has none.
        ends: one past its last byte.
    """

    lines: Ints
    starts: Ints
    dots: Ints
    ends: Ints

    def where(self, mask: Bools) -> Pieces:
        """The pieces at which the mask is True."""
        return self if mask.all() else Pieces(*(array[mask] for array in self))


class Layout(NamedTuple):
    """The pieces of a text. Those of doubtful lines mean nothing, but can be read without harm.

    Attributes:
        starts: [n_lines] first byte of each line.
        ends: [n_lines] its newline.
        blank: [n_lines] bool, lines with nothing on them.
        doubtful: [n_lines] bool, lines that break the pattern.
        grades: one piece for each line.
        names: one piece for each colon, what stands before it; on a good line without points.
        values: one piece for each colon, what stands behind it.
        is_first: [n_colons] bool, the first colon of its line.
    """

    starts: Ints
    ends: Ints
    blank: Bools
    doubtful: Bools
    grades: Pieces
    names: Pieces
    values: Pieces
    is_first: Bools


class _Marks(NamedTuple):
    at: Ints  # [n_marks]
    kind: npt.NDArray[np.uint8]  # [n_marks]
    newlines: Ints  # [n_lines] which marks end lines


def lay_out(text: bytes) -> Layout:
    """The layout of lines that each end in a newline and have no blanks but spaces."""
    at = np.flatnonzero(np.frombuffer(text.translate(_IS_MARK), dtype=np.bool_))
    kind = np.frombuffer(text, dtype=np.uint8)[at]
    marks = _Marks(at, kind, np.flatnonzero(kind == _NEWLINE))
    ends = at[marks.newlines]
    starts = np.concatenate([[0], ends[:-1] + 1])
    n_tokens = _per_line(_ends_token(marks), marks)
    n_colons = _per_line(kind == _COLON, marks)
    doubtful = n_tokens != n_colons + 1
    all_lines = np.arange(len(ends))
    first_marks = np.concatenate([[0], marks.newlines[:-1] + 1])
    grades = _number_before(marks, all_lines, starts, first_marks, doubtful)
    lines = np.repeat(all_lines, n_colons)
    colons = np.flatnonzero(kind == _COLON)
    names, values = _around(marks, colons, lines, doubtful)
    is_first = np.zeros(len(colons), dtype=np.bool_)
    is_first[(np.cumsum(n_colons) - n_colons)[n_colons > 0]] = True
    blank = n_tokens == 0
    doubtful[blank] = False
    return Layout(starts, ends, blank, doubtful, grades, names, values, is_first)


def _ends_token(marks: _Marks) -> Bools:
    """[n_marks] True at the space or newline right behind a token."""
    separates: Bools = (marks.kind == _SPACE) | (marks.kind == _NEWLINE)
    has_text_before: Bools = np.diff(marks.at, prepend=-1) > 1
    has_text_before[1:] |= ~separates[:-1]
    has_text_before &= separates
    return has_text_before


def _per_line(flags: Bools, marks: _Marks) -> Ints:
    """[n_lines] how many marks of each line have the flag."""
    upto = np.searchsorted(np.flatnonzero(flags), marks.newlines, side="right")
    return np.diff(upto, prepend=0)


def _number_before(
    marks: _Marks, lines: Ints, starts: Ints, first: Ints, doubtful: Bools
) -> Pieces:
    """The pieces from these starts, where `first` is the mark that follows each."""
    has_dot = marks.kind[first] == _DOT
    last = first + has_dot  # a text ends in a newline, so a point is never its last mark
    closed = (marks.kind[last] == _SPACE) | (marks.kind[last] == _NEWLINE)
    doubtful[lines[~closed]] = True
    return Pieces(lines, starts, marks.at[first], marks.at[last])


def _around(marks: _Marks, colons: Ints, lines: Ints, doubtful: Bools) -> tuple[Pieces, Pieces]:
    """The pieces before and behind each colon."""
    before = np.maximum(colons - 1, 0)
    doubtful[lines[marks.kind[before] != _SPACE]] = True
    at = marks.at[colons]
    names = Pieces(lines, marks.at[before] + 1, at, at)
    return names, _number_before(marks, lines, at + 1, colons + 1, doubtful)
