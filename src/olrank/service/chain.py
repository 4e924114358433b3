"""The chain over the log: each record's hash covers its own bytes and the hash before it.

A changed, lost, swapped or repeated record changes every hash from there on.
"""

from __future__ import annotations

import hashlib
import struct

GENESIS = bytes(32)
"""The chain's value before the first record."""

_FIXED = struct.Struct("<QqII")


def link(before: bytes, position: int, kind: str, ranker: str, at_ms: int, body: bytes) -> bytes:
    """[32] the chain's value after a record.

    Args:
        before: [32] the chain's value before it.
        position: of the record, and so on: all that the record says.
        kind: its kind.
        ranker: its ranker.
        at_ms: its time.
        body: its body.
    """
    kind_bytes, ranker_bytes = kind.encode(), ranker.encode()
    sha = hashlib.sha256(before)
    # Lengths come first, so that no two different records give the same bytes.
    sha.update(_FIXED.pack(position, at_ms, len(kind_bytes), len(ranker_bytes)))
    sha.update(kind_bytes)
    sha.update(ranker_bytes)
    sha.update(body)
    return sha.digest()
