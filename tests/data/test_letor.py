"""Reading LETOR text: what is accepted, and what every kind of bad line is told."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra import numpy as hnp
from sklearn.datasets import load_svmlight_file

from olrank.data import reader
from olrank.data.letor import read_letor, write_letor
from olrank.data.lines import Block, read_blocks
from olrank.data.problems import SkippedLines
from olrank.errors import ConfigError, DataError
from olrank.types import Dataset

GOOD = "2 qid:10 1:0.5 3:1\n0 qid:10 2:-7.25 # a comment\n1 qid:11 1:1e-3\n"
SKIP = '--bad-lines=skip (bad_lines="skip" in Python) to leave such lines out.'


def write(folder: Path, text: str | bytes, name: str = "train.txt") -> Path:
    path = folder / name
    data = text.encode() if isinstance(text, str) else text
    packers = {".gz": gzip.compress, ".xz": lzma.compress}
    path.write_bytes(packers.get(path.suffix, bytes)(data))
    return path


def read(path: Path | list[Path], **options: object) -> Dataset:
    return read_letor(path, cache=False, **options)  # type: ignore[arg-type]


def error_of(path: Path | list[Path], **options: object) -> str:
    with pytest.raises(DataError) as caught:
        read(path, **options)
    return str(caught.value)


@pytest.mark.parametrize("name", ["train.txt", "train.txt.gz", "train.txt.xz"])
def test_a_plain_and_a_packed_file_give_the_same_set(tmp_path: Path, name: str) -> None:
    data = read(write(tmp_path, GOOD, name))
    assert data.name == "train"
    assert data.features.tolist() == [
        [0.5, 0.0, 1.0],
        [0.0, -7.25, 0.0],
        [np.float32(0.001), 0.0, 0.0],
    ]
    assert data.features.dtype == np.float32
    assert data.grades.tolist() == [2, 0, 1]
    assert data.offsets.tolist() == [0, 2, 3]
    assert list(data.query_ids) == ["10", "11"]


def test_blanks_comments_and_line_ends_do_not_matter(tmp_path: Path) -> None:
    text = (
        b"# a header\n\n  2\tqid:10  1:0.5\t3:1 \r\n\n0 qid:10 2:-7.25#x:y z\n"
        b"1 qid:11 1:1e-3 # caf\xe9 \xff\xfe"
    )
    data, plain = read(write(tmp_path, text)), read(write(tmp_path, GOOD, "plain.txt"))
    np.testing.assert_array_equal(data.features, plain.features)
    np.testing.assert_array_equal(data.grades, plain.grades)
    assert list(data.query_ids) == list(plain.query_ids)


def test_a_last_line_without_newline_counts(tmp_path: Path) -> None:
    assert read(write(tmp_path, GOOD.rstrip("\n"))).n_rows == 3


def test_numbers_are_read_as_python_reads_them(tmp_path: Path) -> None:
    texts = [
        "0", "-0", "+1.5", "7.", ".5", "-.25", "1e5", "1E-7", "12345678", "123456789",
        "0.12345678", "0.123456789", "99999999.99999999", "90071992.54740993", "3.4e38",
        "0.30769230769230771", "-21474836.48", "1e-60", "16777217", "00012.500",
    ]  # fmt: skip
    row = " ".join(f"{i + 1}:{text}" for i, text in enumerate(texts))
    data = read(write(tmp_path, f"1.0 qid:a {row}\n"))
    assert data.features[0].tolist() == [float(np.float32(float(text))) for text in texts]
    assert data.grades.tolist() == [1]


def test_a_finite_number_beyond_32_bits_becomes_their_end(tmp_path: Path) -> None:
    text = "0 qid:1 1:1.79769313486e+308 2:-1.79769313486e+308\n"
    top = np.finfo(np.float32).max
    assert read(write(tmp_path, text)).features[0].tolist() == [top, -top]


def test_features_may_come_in_any_order(tmp_path: Path) -> None:
    assert read(write(tmp_path, "0 qid:1 3:3 1:1 2:2\n")).features.tolist() == [[1, 2, 3]]


def test_query_ids_are_kept_as_written(tmp_path: Path) -> None:
    text = b"0 qid:a:b 1:1\n0 qid:007 1:1\n0 qid:7 1:1\n0 qid:1.2.3 1:1\n0 qid:\xff 1:1\n"
    assert list(read(write(tmp_path, text)).query_ids) == ["a:b", "007", "7", "1.2.3", "\\xff"]


def test_several_files_are_one_set(tmp_path: Path) -> None:
    second = write(tmp_path, "0 qid:12 4:9\n", "more.txt.xz")
    data = read([write(tmp_path, GOOD), second])
    assert data.n_queries == 3
    assert data.features.shape == (4, 4)
    assert data.name == tmp_path.name


@pytest.mark.parametrize(
    ("highest", "scale"), [(0, 1), (1, 1), (2, 2), (3, 4), (4, 4), (5, 5), (9, 9)]
)
def test_the_scale_of_grades_is_one_of_the_usual_or_as_seen(
    tmp_path: Path, highest: int, scale: int
) -> None:
    assert read(write(tmp_path, f"{highest} qid:1 1:1\n")).max_grade == scale


def test_n_features_widens_and_limits(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    assert read(path, n_features=5).features.shape == (3, 5)
    assert error_of(path, n_features=2) == (
        f"{path}, line 1: the feature index 3 is above 2, the last one allowed.\n"
        f"  Correct it or n_features, or pass {SKIP}"
    )


def test_a_set_too_wide_for_memory_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_large(*_: object, **__: object) -> None:
        raise MemoryError

    path = write(tmp_path, GOOD)
    monkeypatch.setattr(reader.Table, "take_features", too_large)
    assert error_of(path) == (
        f"{path}: 3 rows of 3 features do not fit into memory.\n"
        "  If the highest feature index is a slip, pass n_features to find its line."
    )


BAD = {
    "2 qid 10 1:0.5": (
        'expected "GRADE qid:ID FEATURE:VALUE ...", found "2 qid 10 1:0.5".',
        'Put a colon after "qid"',
        "missing qid",
    ),
    "2 1:0.5 2:1": (
        'expected "GRADE qid:ID FEATURE:VALUE ...", found "2 1:0.5 2:1".',
        'Write the query\'s id as "qid:ID" after the grade',
        "missing qid",
    ),
    "2 qid: 1:0.5": (
        'expected "GRADE qid:ID FEATURE:VALUE ...", found "2 qid: 1:0.5".',
        'Write the query\'s id as "qid:ID" after the grade',
        "missing qid",
    ),
    "2": (
        'expected "GRADE qid:ID FEATURE:VALUE ...", found "2".',
        'Write the query\'s id as "qid:ID" after the grade',
        "missing qid",
    ),
    "qid:77 1:0.5": (
        'expected "GRADE qid:ID FEATURE:VALUE ...", the line starts with "qid:77".',
        "Put the grade first",
        "not of the form",
    ),
    "2 qid:77 1:0.5 7": (
        'expected "GRADE qid:ID FEATURE:VALUE ...", found "7".',
        "Write features as FEATURE:VALUE",
        "not of the form",
    ),
    "2 qid:77 1:abc": (
        'the value of feature 1, "abc" is not a number.',
        "Write numbers like 0.5 or 1e-3",
        "not a number",
    ),
    "2 qid:77 1:": (
        'the value of feature 1, "" is not a number.',
        "Write numbers like 0.5 or 1e-3",
        "not a number",
    ),
    "2 qid:77 1:1_000": (
        'the value of feature 1, "1_000" is not a number.',
        "Write numbers like 0.5 or 1e-3",
        "not a number",
    ),
    "2 qid:77 1:0.5:3": (
        'the value of feature 1, "0.5:3" is not a number.',
        "Write numbers like 0.5 or 1e-3",
        "not a number",
    ),
    "2 qid:77 1:0.5.1": (
        'the value of feature 1, "0.5.1" is not a number.',
        "Write numbers like 0.5 or 1e-3",
        "not a number",
    ),
    "2 qid:77 1:NaN": (
        'the value of feature 1, "NaN" is not a finite number.',
        "Replace it by a number",
        "NaN or infinity",
    ),
    "2 qid:77 1:1 2:-inf": (
        'the value of feature 2, "-inf" is not a finite number.',
        "Replace it by a number",
        "NaN or infinity",
    ),
    "2 qid:77 1:1e999": (
        'the value of feature 1, "1e999" is not a finite number.',
        "Replace it by a number",
        "NaN or infinity",
    ),
    "nan qid:77 1:1": (
        'the grade "nan" is not a finite number.',
        "Replace it by a number",
        "NaN or infinity",
    ),
    "x qid:77 1:1": (
        'the grade "x" is not a number.',
        "Write numbers like 0.5 or 1e-3",
        "not a number",
    ),
    "-1 qid:77 1:1": (
        'the grade "-1" is not a whole number from 0 up.',
        "Map the grades to 0, 1, 2, ...",
        "bad grade",
    ),
    "1.5 qid:77 1:1": (
        'the grade "1.5" is not a whole number from 0 up.',
        "Map the grades to 0, 1, 2, ...",
        "bad grade",
    ),
    "1 qid:77 0:1": (
        "the feature index 0 is below 1.",
        "Number the features from 1 up",
        "bad feature index",
    ),
    "1 qid:77 -3:1": (
        "the feature index -3 is below 1.",
        "Number the features from 1 up",
        "bad feature index",
    ),
    "1 qid:77 a:1": (
        'the feature index "a" is not a whole number.',
        "Number the features from 1 up",
        "bad feature index",
    ),
    "1 qid:77 1.5:1": (
        'the feature index "1.5" is not a whole number.',
        "Number the features from 1 up",
        "bad feature index",
    ),
    "1 qid:77 99999999999:1": (
        f"the feature index 99999999999 is above {2**16}, the last one allowed.",
        "Correct it or n_features",
        "bad feature index",
    ),
    "1 qid:77 2:1 2:3": ("feature 2 is given twice.", "Keep one of them", "feature twice"),
    "1 qid:77 2:1 1:1 2:3": ("feature 2 is given twice.", "Keep one of them", "feature twice"),
}


@pytest.mark.parametrize("name", ["train.txt", "train.txt.gz", "train.txt.xz"])
@pytest.mark.parametrize("line", BAD)
def test_a_bad_line_gives_one_error_with_file_and_line(
    tmp_path: Path, line: str, name: str
) -> None:
    what, hint, _ = BAD[line]
    path = write(tmp_path, f"{GOOD}\n# nothing\n{line}\n0 qid:99 1:1\n", name)
    assert error_of(path) == f"{path}, line 6: {what}\n  {hint}, or pass {SKIP}"


def test_an_error_in_the_second_file_names_it_and_its_own_line(tmp_path: Path) -> None:
    first, second = write(tmp_path, GOOD), write(tmp_path, "1 qid:5 1:1\n1 qid:5 1:x\n", "b.txt.xz")
    assert error_of([first, second]).startswith(f"{second}, line 2: ")


def test_the_first_of_several_bad_lines_is_told(tmp_path: Path) -> None:
    comes_back_first = write(tmp_path, "0 qid:1 1:1\n0 qid:2 1:1\n0 qid:1 1:1\n0 1:1\n")
    assert ", line 3: query" in error_of(comes_back_first)
    bad_first = write(tmp_path, "0 qid:1 1:1\n0 qid:2 1:1\n0 1:1\n0 qid:1 1:1\n")
    assert ", line 3: expected" in error_of(bad_first)


def test_a_query_that_comes_back_is_told_where_it_ended(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD + "0 qid:10 1:1\n")
    assert error_of(path) == (
        f'{path}, line 4: query "10" comes back; its rows ended at {path}, line 2.\n'
        f"  Put all rows of a query next to each other, in one file, or pass {SKIP}"
    )


@pytest.mark.parametrize("query", ["10", "11"])
def test_a_query_may_not_come_back_in_a_later_file(tmp_path: Path, query: str) -> None:
    first, second = write(tmp_path, GOOD), write(tmp_path, f"0 qid:{query} 1:1\n", "b.txt")
    ended = {"10": 2, "11": 3}[query]
    assert error_of([first, second]).startswith(
        f'{second}, line 1: query "{query}" comes back; its rows ended at {first}, line {ended}.'
    )


@pytest.mark.parametrize("tail", ["1 qid:12 1:0.5 2", "1 qid:12 1:", "1 qi", "1 qid:12 1:2e"])
def test_a_last_line_cut_in_the_middle_is_told_so(tmp_path: Path, tail: str) -> None:
    path = write(tmp_path, GOOD + tail)
    assert error_of(path) == (
        f'{path}, line 4: the file ends in the middle of this line, "{tail}".\n'
        f"  Fetch the file again, or pass {SKIP}"
    )


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_a_packed_file_that_was_cut_is_told_at_the_line_where_it_ends(
    tmp_path: Path, suffix: str
) -> None:
    rng = np.random.default_rng(0)
    lines = [f"0 qid:{i} 1:{rng.random()}\n" for i in range(20_000)]
    path = write(tmp_path, "".join(lines), f"train.txt{suffix}")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    for mode in ("error", "skip"):
        message = error_of(path, bad_lines=mode)
        line = int(message.partition("line ")[2].partition(":")[0])
        assert message == (
            f"{path}, line {line}: the packed file ends before its end mark.\n"
            "  It was probably not fetched or copied to its end: fetch it again."
        )
        assert 5_000 < line < 15_000  # half of the packed bytes hold about half of the lines


def test_a_damaged_packed_file_is_told(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD * 1000, "train.txt.gz")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    assert "the packed file is damaged" in error_of(path, bad_lines="skip")


@pytest.mark.parametrize("name", ["train.txt", "train.txt.gz", "train.txt.xz"])
def test_an_empty_file_is_told(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, "", name)
    assert error_of(path) == f"{path}, line 1: the file is empty.\n  Fetch or unpack it again."


def test_a_file_of_no_bytes_is_empty_whatever_its_name(tmp_path: Path) -> None:
    path = tmp_path / "train.txt.xz"
    path.write_bytes(b"")
    assert ", line 1: the file is empty." in error_of(path)


def test_a_file_of_comments_has_no_rows(tmp_path: Path) -> None:
    assert ", line 1: the file has no rows." in error_of(write(tmp_path, "# nothing\n\n"))


def test_a_missing_file_and_a_folder_are_told(tmp_path: Path) -> None:
    assert error_of(tmp_path / "no.txt").startswith(f"{tmp_path / 'no.txt'}: ")
    assert error_of(tmp_path).startswith(f"{tmp_path}: ")
    assert error_of([]) == "no file was given.\n  Name at least one."


def test_an_unknown_way_with_bad_lines_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Known: error, skip"):
        read(write(tmp_path, GOOD), bad_lines="ignore")


def test_skipping_leaves_bad_lines_out_and_counts_them_by_reason(tmp_path: Path) -> None:
    text = GOOD + "\n".join(BAD) + "\n0 qid:10 1:1\n0 qid:98 1:4\n1 qid:98 1:"
    path = write(tmp_path, text)
    reports: list[SkippedLines] = []
    data = read(path, bad_lines="skip", report=reports.append)
    assert list(data.query_ids) == ["10", "11", "98"]
    assert data.grades.tolist() == [2, 0, 1, 0]
    expected: dict[str, int] = {"query comes back": 1, "cut short": 1}
    for _, _, reason in BAD.values():
        expected[reason] = expected.get(reason, 0) + 1
    assert len(reports) == 1
    assert dict(reports[0].by_reason) == expected
    assert reports[0].n_lines == len(BAD) + 2
    assert reports[0].lines()[0] == f"left out {len(BAD) + 2} bad lines:"
    assert reports[0].examples[0].startswith(f"{path}, line 4: expected")


def test_skipping_drops_all_rows_of_a_query_that_comes_back(tmp_path: Path) -> None:
    ids = ["1", "2", "1", "1", "2", "3"]
    path = write(tmp_path, "".join(f"0 qid:{i} 1:{n}\n" for n, i in enumerate(ids)))
    reports: list[SkippedLines] = []
    data = read(path, bad_lines="skip", report=reports.append)
    assert data.features[:, 0].tolist() == [0, 1, 5]
    assert data.offsets.tolist() == [0, 1, 2, 3]
    assert dict(reports[0].by_reason) == {"query comes back": 3}


def test_skipping_without_a_report_logs_what_was_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    read(write(tmp_path, GOOD + "0 1:1\n"), bad_lines="skip")
    assert "left out 1 bad lines" in caplog.text
    assert "1 x missing qid" in caplog.text


def test_skipping_everything_is_an_error(tmp_path: Path) -> None:
    assert "no good line is left" in error_of(write(tmp_path, "0 1:1\n"), bad_lines="skip")


def test_blocks_of_any_size_hold_the_same_lines(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD + "x" * 50 + "\ntail")
    whole = list(read_blocks(path))
    assert whole == [Block(1, (GOOD + "x" * 50 + "\n").encode()), Block(5, b"tail\n", cut=True)]
    for size in (1, 7, 30, 64):
        blocks = list(read_blocks(path, size))
        assert b"".join(block.text for block in blocks) == b"".join(b.text for b in whole)
        n_before = 0
        for block in blocks:
            assert block.first_line == n_before + 1
            n_before += block.text.count(b"\n")


finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def datasets(draw: st.DrawFn) -> Dataset:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    n_rows, width = sum(sizes), draw(st.integers(1, 6))
    features = draw(hnp.arrays(np.float32, (n_rows, width), elements=finite))
    features[0, width - 1] = 1.0  # else the last column could be missing from the text
    grades = draw(hnp.arrays(np.int32, n_rows, elements=st.integers(0, 4)))
    offsets = np.cumsum([0, *sizes]).astype(np.int64)
    alphabet = st.characters(codec="utf-8", exclude_categories=["Z", "C"], exclude_characters="#")
    texts = st.text(alphabet, min_size=1, max_size=9)
    ids = draw(st.lists(texts, min_size=len(sizes), max_size=len(sizes), unique=True))
    return Dataset("random", features, grades, offsets, ids, max_grade=4)


@settings(max_examples=150, deadline=None)
@given(data=datasets())
def test_what_is_written_is_read_back(
    data: Dataset, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("letor") / "random.txt"
    write_letor(data, path)
    again = read(path)
    np.testing.assert_array_equal(again.features, data.features)
    np.testing.assert_array_equal(again.grades, data.grades)
    np.testing.assert_array_equal(again.offsets, data.offsets)
    assert list(again.query_ids) == list(data.query_ids)


@settings(max_examples=50, deadline=None)
@given(
    cells=hnp.arrays(np.float64, (6, 5), elements=st.floats(-1e30, 1e30)),
    form=st.sampled_from(["%.6f", "%g", "%.17g", "%.3e", "%.8f", "%r"]),
)
def test_it_agrees_with_scikit_learn_on_good_input(
    cells: np.ndarray, form: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("letor") / "random.txt"
    rows = [" ".join(f"{i + 1}:{form % v}" for i, v in enumerate(row.tolist())) for row in cells]
    path.write_text("".join(f"{n % 3} qid:{n // 2} {row}\n" for n, row in enumerate(rows)))
    expected, grades, query_ids = load_svmlight_file(
        str(path), n_features=5, query_id=True, zero_based=False
    )
    data = read(path)
    np.testing.assert_array_equal(data.features, expected.toarray().astype(np.float32))
    np.testing.assert_array_equal(data.grades, grades)
    assert np.repeat([int(i) for i in data.query_ids], data.sizes).tolist() == query_ids.tolist()


@settings(max_examples=300, deadline=None)
@given(noise=st.text("0123456789 .:-+eqid#\n\tnaf", max_size=60))
def test_the_fast_and_the_slow_way_judge_every_line_alike(
    noise: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each line of random text is good or bad alone exactly as `oneline` says, at sight or not."""
    from olrank.data.bulk import read_rows
    from olrank.data.oneline import Grammar, Row, read_line

    block = Block(1, (noise + "\n").encode())
    rows = read_rows(block, Grammar(n_features=9))
    lines = [line.partition(b"#")[0] for line in block.text.split(b"\n")[:-1]]
    slow = {n: read_line(t, n, Grammar(n_features=9)) for n, t in enumerate(lines, 1) if t.split()}
    good = {n: row for n, row in slow.items() if isinstance(row, Row)}
    assert rows.lines.tolist() == list(good)
    assert [problem.line for problem in rows.problems] == [n for n in slow if n not in good]
    assert rows.grades.tolist() == [row.grade for row in good.values()]
    for features, row in zip(rows.features, good.values(), strict=True):
        expected = np.zeros(rows.features.shape[1], dtype=np.float32)
        expected[row.columns] = row.values
        np.testing.assert_array_equal(features, expected)


def test_mq2008_is_read_whole(data_dir: Path) -> None:
    files = [data_dir / "MQ2008" / f"S{part}.txt.xz" for part in range(1, 6)]
    data = read(files)
    assert (data.n_queries, data.n_rows, data.n_features) == (784, 15_211, 46)
    assert (data.max_grade, data.name) == (2, "MQ2008")


def test_the_mslr_sample_agrees_with_scikit_learn(data_dir: Path, tmp_path: Path) -> None:
    text = lzma.open(data_dir / "MSLR_sample" / "mslr_sample.txt.xz").read()
    path = write(tmp_path, text[: text.index(b"\n", 3_000_000) + 1])
    expected, grades, _ = load_svmlight_file(str(path), query_id=True, zero_based=False)
    data = read(path)
    np.testing.assert_array_equal(data.features, expected.toarray().astype(np.float32))
    np.testing.assert_array_equal(data.grades, grades)
