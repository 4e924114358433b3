"""Every exception that olrank raises on purpose.

Each message says what happened, where, and what to do about it; nothing else is raised for what a
user typed.
"""

import difflib
from collections.abc import Iterable


class OlrankError(Exception):
    """The root of all errors raised on purpose; its text is meant for a person."""


class DataError(OlrankError):
    """A data file, folder or array is not what it should be."""


class ConfigError(OlrankError):
    """A setting, a name or a config file is not what it should be."""


class CheckpointError(OlrankError):
    """A saved ranker cannot be read back."""


def unknown_name(kind: str, name: str, known: Iterable[str], where: str = "") -> ConfigError:
    """An error for a name nobody knows, listing the known ones and the nearest of them."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    hint = f' Did you mean "{close[0]}"?' if close else ""
    place = f"{where}: " if where else ""
    return ConfigError(f'{place}no {kind} is called "{name}". Known: {", ".join(names)}.{hint}')
