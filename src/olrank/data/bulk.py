"""A block of lines to arrays, all lines at once; lines not understood at sight go to `oneline`."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from olrank.data.decimals import Bools, Floats, Ints, Words, decimals, whole_numbers, words_of
from olrank.data.layout import Layout, Pieces, lay_out
from olrank.data.lines import Block
from olrank.data.oneline import MAX_INDEX, Grammar, Row, number, read_line
from olrank.data.problems import Problem, shown

_BLANKS = bytes.maketrans(b"\t\r\v\f", b"    ")
_COMMENT = re.compile(rb"#[^\n]*")
_QID = int.from_bytes(b"qid", "little")
_MAX_GRADE = 2**31 - 1


class Rows(NamedTuple):
    """The good lines of a block, and the bad ones.

    Attributes:
        features: [n_rows, width] float32; width is the highest column met, plus one.
        grades: [n_rows] int32.
        query_ids: n_rows ids as written; empty without qid.
        lines: [n_rows] int64, line numbers in the file.
        problems: the bad lines, in order.
    """

    features: npt.NDArray[np.float32]
    grades: npt.NDArray[np.int32]
    query_ids: list[bytes]
    lines: Ints
    problems: list[Problem]


class _Cells(NamedTuple):
    """Features of the lines read at sight: [n] each."""

    lines: Ints
    columns: Ints
    values: Floats

    def where(self, mask: Bools) -> _Cells:
        return _Cells(self.lines[mask], self.columns[mask], self.values[mask])


def read_rows(block: Block, grammar: Grammar) -> Rows:
    """All lines of a block as rows, and the problems of those that are none."""
    text = _plain(block.text)
    words = words_of(text)
    layout = lay_out(text)
    grades = _read_grades(words, layout)
    ids = _read_query_ids(text, words, layout) if grammar.has_qid else {}
    cells = _read_cells(text, words, layout, grammar)
    slow, problems = _read_doubtful(text, block, layout, grammar)
    at_sight = ~(layout.blank | layout.doubtful)
    if layout.doubtful.any():
        cells = cells.where(at_sight[cells.lines])
    rows = _assemble(block.first_line, at_sight, grades, ids, cells, slow)
    return rows._replace(problems=problems)


def _plain(text: bytes) -> bytes:
    """The text without comments, and with spaces for all other blanks."""
    if b"#" in text:
        text = _COMMENT.sub(b"", text)
    has_blanks = any(blank in text for blank in (b"\t", b"\r", b"\v", b"\f"))
    return text.translate(_BLANKS) if has_blanks else text


def _read_grades(words: Words, layout: Layout) -> npt.NDArray[np.int32]:
    """[n_lines]; lines whose grade is no whole number from 0 up become doubtful."""
    _, starts, dots, ends = layout.grades
    values, fine = decimals(words, starts, dots, ends)
    fine &= (values >= 0) & (values <= _MAX_GRADE) & (values == np.floor(values))
    layout.doubtful[~fine & ~layout.blank] = True
    return np.where(fine, values, 0).astype(np.int32)


def _read_query_ids(text: bytes, words: Words, layout: Layout) -> dict[int, bytes]:
    """The query id of each line that has one; lines without become doubtful."""
    names, ids = layout.names.where(layout.is_first), layout.values.where(layout.is_first)
    is_qid = (words[names.ends] >> np.uint64(40) == _QID) & (names.ends - names.starts == 3)
    is_qid &= ids.ends > ids.starts
    without = ~layout.blank
    without[ids.lines[is_qid]] = False
    layout.doubtful[without] = True
    starts, ends = ids.starts.tolist(), ids.ends.tolist()
    return {
        line: text[start:end]
        for line, start, end in zip(ids.lines.tolist(), starts, ends, strict=True)
    }


def _read_cells(text: bytes, words: Words, layout: Layout, grammar: Grammar) -> _Cells:
    """The features of all lines; lines with a bad, unsorted or double one become doubtful."""
    names, pieces = layout.names, layout.values
    if grammar.has_qid:
        names, pieces = names.where(~layout.is_first), pieces.where(~layout.is_first)
    indices, fine = whole_numbers(words, names.starts, names.ends)
    columns = indices.astype(np.int64) - grammar.first_index
    most = MAX_INDEX if grammar.n_features is None else grammar.n_features
    fine &= (names.ends > names.starts) & (columns >= 0) & (columns < most)
    fine[1:] &= (np.diff(columns) > 0) | (np.diff(names.lines) > 0)
    layout.doubtful[names.lines[~fine]] = True
    return _Cells(names.lines, columns, _read_values(text, words, pieces, layout.doubtful))


def _read_values(text: bytes, words: Words, pieces: Pieces, doubtful: Bools) -> Floats:
    """[n] the values; lines with a piece that is no finite number become doubtful."""
    values, fine = decimals(words, pieces.starts, pieces.dots, pieces.ends)
    for i in np.flatnonzero(~fine & ~doubtful[pieces.lines]).tolist():
        value = number(text[pieces.starts[i] : pieces.ends[i]])
        if value is None:
            doubtful[pieces.lines[i]] = True
        else:
            values[i] = value
    return values


def _read_doubtful(
    text: bytes, block: Block, layout: Layout, grammar: Grammar
) -> tuple[dict[int, Row], list[Problem]]:
    """The doubtful lines that turn out to be good, by line, and the problems of the others."""
    good: dict[int, Row] = {}
    problems: list[Problem] = []
    for line in np.flatnonzero(layout.doubtful).tolist():
        line_text = text[layout.starts[line] : layout.ends[line]]
        row = read_line(line_text, block.first_line + line, grammar)
        if isinstance(row, Row):
            good[line] = row
        elif block.cut and line == len(layout.ends) - 1:
            what = f"the file ends in the middle of this line, {shown(line_text[-40:])}."
            problems.append(Problem(row.line, "cut short", what, "Fetch the file again"))
        else:
            problems.append(row)
    return good, problems


def _assemble(
    first_line: int,
    at_sight: Bools,
    grades: npt.NDArray[np.int32],
    ids: dict[int, bytes],
    cells: _Cells,
    slow: dict[int, Row],
) -> Rows:
    """Rows from the lines read at sight and the lines read slowly, in the order of the file."""
    is_row = at_sight.copy()
    is_row[list(slow)] = True
    row_of_line = np.cumsum(is_row) - 1
    lines = np.flatnonzero(is_row)
    width = int(cells.columns.max(initial=-1)) + 1
    width = max([width, *(max(row.columns, default=-1) + 1 for row in slow.values())])
    features = np.zeros((len(lines), width), dtype=np.float32)
    features.reshape(-1)[row_of_line[cells.lines] * width + cells.columns] = cells.values
    for line, row in slow.items():
        features[row_of_line[line], row.columns] = row.values
        grades[line], ids[line] = row.grade, row.query_id
    query_ids = [ids[line] for line in lines.tolist()] if ids else []
    return Rows(features, grades[lines], query_ids, lines + first_line, [])
