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


class WaitingError(OlrankError):
    """A run cannot go on before another machine has done its part."""


class ClusterError(OlrankError):
    """Work that was spread over a cluster could not be finished."""


class LogError(OlrankError):
    """The service's log cannot do what was asked; the root of the errors below."""


class LogDamagedError(LogError):
    """A record is changed, missing or repeated."""


class LogUnavailableError(LogError):
    """Nothing can be written now: disk full, an I/O error, or the log is closed."""


class LogLockedError(LogError):
    """Another process has the log open for writing."""


class LogVersionError(LogError):
    """The log was written by a newer olrank."""


class LogRefusedError(LogError):
    """The request contradicts what the log holds."""


class UnknownRankerError(LogError):
    """No ranker has this name, or it was deleted."""


class StaleEpochError(LogError):
    """Another learner has taken over; this one must stop."""


class ServiceError(OlrankError):
    """A service answered with an error, or not at all.

    Args:
        message: what happened.
        status: of HTTP; 0 without an answer.
        code: the error's code in the answer.
    """

    def __init__(self, message: str, status: int = 0, code: str = "") -> None:
        """Keep what the service said."""
        super().__init__(message)
        self.status = status
        self.code = code


def unknown_name(kind: str, name: str, known: Iterable[str], where: str = "") -> ConfigError:
    """An error for a name nobody knows, listing the known ones and the nearest of them."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    hint = f' Did you mean "{close[0]}"?' if close else ""
    place = f"{where}: " if where else ""
    return ConfigError(f'{place}no {kind} is called "{name}". Known: {", ".join(names)}.{hint}')
