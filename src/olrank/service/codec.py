"""Bytes of a record's body: a JSON header, then raw little-endian arrays. No pickle.

"olr1"  n_json (uint32)  JSON [header, [[name, dtype, shape], ...]]  array bytes, one after another
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from olrank.errors import LogDamagedError

_MAGIC = b"olr1"
_START = struct.Struct("<4sI")
_KINDS = "biuf"  # bool, integers, floats: nothing that could hold an object


def encode(header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """One body. Equal headers and arrays give equal bytes.

    Args:
        header: anything JSON can hold, with finite numbers.
        arrays: bools, integers and floats of any shape.
    """
    plan, parts = [], []
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        if array.dtype.kind not in _KINDS:
            raise TypeError(f"array {name}: a log holds numbers, not {array.dtype}")
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        plan.append([name, array.dtype.str, list(array.shape)])
        parts.append(array.tobytes())
    text = json.dumps([dict(header), plan], sort_keys=True, separators=(",", ":"), allow_nan=False)
    raw = text.encode()
    return b"".join([_START.pack(_MAGIC, len(raw)), raw, *parts])


def decode_header(body: bytes) -> dict[str, Any]:
    """The header of a body."""
    header: dict[str, Any] = _read_json(body)[0]
    return header


def decode_arrays(body: bytes) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a body; views of its bytes, read-only."""
    plan, offset = _read_json(body)[1:]
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, dtype, shape in plan:
        count = math.prod(shape)
        arrays[name] = np.frombuffer(body, np.dtype(dtype), count, offset).reshape(shape)
        offset += arrays[name].nbytes
    return arrays


def _read_json(body: bytes) -> tuple[dict[str, Any], list[Any], int]:
    if len(body) < _START.size:
        raise LogDamagedError(f"a record's body has only {len(body)} bytes. Use a copy of the log.")
    magic, size = _START.unpack_from(body)
    if magic != _MAGIC:
        raise LogDamagedError(
            f"a record's body begins with {magic!r}, not with {_MAGIC!r}: it is damaged, or from "
            "another version of olrank."
        )
    end = _START.size + size
    header, plan = json.loads(body[_START.size : end])
    return header, plan, end
