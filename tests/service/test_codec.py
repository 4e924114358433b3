"""Bodies of records, by hand."""

import json
import struct

import numpy as np
import pytest

from olrank.errors import LogDamagedError
from olrank.service import chain, codec
from olrank.service.records import CloseEntry, Event, Kind, RankingEntry, Record, Status
from olrank.service.remote import decode, encode


def test_a_body_is_a_header_and_raw_arrays_as_its_description_says() -> None:
    rows = np.array([[1.0, 2.0]], np.float32)
    body = codec.encode({"b": 1, "a": "ä"}, {"rows": rows})
    magic, size = struct.unpack_from("<4sI", body)
    assert magic == b"olr1"
    assert json.loads(body[8 : 8 + size]) == [{"a": "ä", "b": 1}, [["rows", "<f4", [1, 2]]]]
    assert body[8 + size :] == struct.pack("<2f", 1.0, 2.0)


def test_equal_contents_give_equal_bytes_whatever_their_order() -> None:
    one, two = np.arange(3), np.ones(2, bool)
    forth = codec.encode({"a": 1, "b": 2}, {"one": one, "two": two})
    back = codec.encode({"b": 2, "a": 1}, {"two": two, "one": one})
    assert forth == back


@pytest.mark.parametrize(
    "array",
    [
        np.array(3.5),
        np.zeros((0, 4), np.float32),
        np.array([True, False]),
        np.array([2**62, -1]),
        np.array([1, 2], ">u2"),
        np.arange(12, dtype=np.int16).reshape(3, 4)[:, ::2],
        np.array([np.nan, -0.0, np.inf]),
    ],
    ids=["scalar", "empty", "bool", "int64", "big-endian", "strided", "special"],
)
def test_arrays_come_back_with_their_shape_type_and_bits(array: np.ndarray) -> None:
    (back,) = codec.decode_arrays(codec.encode({}, {"it": array})).values()
    assert back.shape == array.shape
    assert back.dtype == array.dtype.newbyteorder("<")
    np.testing.assert_array_equal(back, array)
    assert np.signbit(back).tolist() == np.signbit(array).tolist() if back.dtype.kind == "f" else 1


def test_objects_and_numbers_that_json_has_no_word_for_are_refused() -> None:
    with pytest.raises(TypeError, match="a log holds numbers"):
        codec.encode({}, {"it": np.array([object()])})
    with pytest.raises(ValueError, match="JSON"):
        codec.encode({"it": float("nan")}, {})


@pytest.mark.parametrize("body", [b"", b"olr1", b"olr2\x02\x00\x00\x00[]"])
def test_what_is_no_body_is_called_damaged(body: bytes) -> None:
    with pytest.raises(LogDamagedError):
        codec.decode_header(body)


def test_no_two_different_records_share_a_link() -> None:
    before = chain.GENESIS
    records = [
        (before, 1, "close", "shop", 5, b"body"),
        (bytes([1]) + bytes(31), 1, "close", "shop", 5, b"body"),
        (before, 2, "close", "shop", 5, b"body"),
        (before, 1, "batch", "shop", 5, b"body"),
        (before, 1, "close", "news", 5, b"body"),
        (before, 1, "closes", "hop", 5, b"body"),  # the same letters, otherwise divided
        (before, 1, "close", "shopb", 5, b"ody"),
        (before, 1, "close", "shop", 6, b"body"),
        (before, 1, "close", "shop", 5, b"bodi"),
    ]
    assert len({chain.link(*one) for one in records}) == len(records)


def test_what_goes_through_the_pipe_comes_out_equal() -> None:
    record = Record(3, Kind.CLOSE, "shop", 5, b"\x00body", bytes(32))
    event = Event("r", [("a", float("nan"))], 3, True, None)
    value = [None, True, 1.5, "ä", {"~": [1]}, record, event, Status.LATE, CloseEntry("r", "x")]
    back = decode(encode(value))
    assert back[:6] == value[:6]
    assert repr(back[6].clicks[0][1]) == "nan"
    assert back[6].digest == event.digest
    assert back[7] is Status.LATE
    assert back[8] == value[8]
    entry = RankingEntry("shop", 1, "r", "d", ["a"], {}, {"rows": np.arange(4.0).reshape(2, 2)})
    np.testing.assert_array_equal(decode(encode(entry)).arrays["rows"], entry.arrays["rows"])
