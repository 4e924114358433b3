"""SQLite's errors as the log's own, with what to do about them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from olrank.errors import LogDamagedError, LogError, LogUnavailableError


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """SQLite's errors as ours."""
    try:
        yield
    except LogError:
        raise
    except (apsw.CorruptError, apsw.NotADBError, ValueError) as reason:
        # A ValueError is text that is not UTF-8, or not JSON: a flipped bit made it so.
        raise LogDamagedError(
            f"{path}: damaged ({reason}). Bring the data folder back from a copy."
        ) from reason
    except apsw.FullError as reason:
        raise LogUnavailableError(
            f"{path}: the disk is full, nothing was written. Free some space, then try again."
        ) from reason
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError) as reason:
        raise LogUnavailableError(
            f"{path}: cannot be opened for writing ({reason}). Make the folder writable, or name "
            "another one with --data."
        ) from reason
    except apsw.Error as reason:
        raise LogUnavailableError(
            f"{path}: {reason}. Look after the disk, then start the service again."
        ) from reason
