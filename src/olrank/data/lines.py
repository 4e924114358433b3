"""Text files in, blocks of whole lines out; plain, .gz and .xz, with line numbers kept."""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from olrank.errors import DataError

_BLOCK_BYTES = 1 << 18  # measured: the arrays of larger blocks leave the processor's cache


class Block(NamedTuple):
    """Whole lines of one file.

    Attributes:
        first_line: number of the first line, from 1.
        text: the lines, each with its newline.
        cut: True when the file ended without a newline, which was added to the last line.
    """

    first_line: int
    text: bytes
    cut: bool = False


def open_binary(path: Path) -> BinaryIO:
    """Open a file for reading bytes, unpacking .gz and .xz (told by their first bytes)."""
    try:
        with path.open("rb") as file:
            magic = file.read(6)
        if magic.startswith(b"\x1f\x8b"):
            return cast(BinaryIO, gzip.open(path, "rb"))
        if magic == b"\xfd7zXZ\x00":
            return cast(BinaryIO, lzma.open(path, "rb"))
        return path.open("rb")
    except IsADirectoryError:
        raise DataError(f"{path}: this is a folder, not a file.\n  Name the files in it.") from None
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file.\n  Check the path.") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).\n  Check the file.") from None


def read_blocks(path: Path, block_bytes: int = _BLOCK_BYTES) -> Iterator[Block]:
    """The lines of a file, a block at a time.

    Raises:
        DataError: the file is missing or empty, or its packed stream is damaged or cut short (after
            the lines before the damage were given).
    """
    line, rest = 1, b""
    with open_binary(path) as file:
        while True:
            piece, damage = _piece(file, block_bytes)
            text = rest + piece
            end = text.rfind(b"\n") + 1
            whole, rest = text[:end], text[end:]
            if whole:
                yield Block(line, whole)
                line += whole.count(b"\n")
            if damage:
                raise _damaged(path, line, damage)
            if not piece:
                break
    if rest:
        yield Block(line, rest + b"\n", cut=True)
    elif line == 1:
        raise DataError(f"{path}, line 1: the file is empty.\n  Fetch or unpack it again.")


def _piece(file: BinaryIO, size: int) -> tuple[bytes, str]:
    """Up to size bytes (none at the end), and what is wrong with the stream after them."""
    pieces: list[bytes] = []
    try:
        # read1 gives what is there before it meets damage, so the damage gets its true line
        while size > 0 and (piece := file.read1(size)):  # type: ignore[attr-defined]
            pieces.append(piece)
            size -= len(piece)
    except EOFError:
        return b"".join(pieces), "ends before its end mark"
    except (OSError, zlib.error, lzma.LZMAError) as error:
        return b"".join(pieces), f"is damaged ({error})"
    return b"".join(pieces), ""


def _damaged(path: Path, line: int, damage: str) -> DataError:
    return DataError(
        f"{path}, line {line}: the packed file {damage}.\n"
        "  It was probably not fetched or copied to its end: fetch it again."
    )
