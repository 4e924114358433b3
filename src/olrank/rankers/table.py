"""The table of rankers: a name, and where its Entry stands. A new one is one file and one line."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from math import isfinite
from typing import Any, NamedTuple

from olrank.errors import ConfigError, unknown_name
from olrank.rankers.entry import Entry
from olrank.types import PyTree, Ranker

_TABLE = {
    "olranknet": "olrank.rankers.olranknet:ENTRY",
    "ollambdarank": "olrank.rankers.ollambdarank:ENTRY",
    "olcascade": "olrank.rankers.olcascade:ENTRY",
    "pairrank": "olrank.rankers.pairrank:ENTRY",
    "epsilon-greedy": "olrank.rankers.epsilon_greedy:ENTRY",
    "dbgd-linear": "olrank.rankers.dbgd:LINEAR",
    "dbgd-neural": "olrank.rankers.dbgd:NEURAL",
    "pdgd-linear": "olrank.rankers.pdgd:LINEAR",
    "pdgd-neural": "olrank.rankers.pdgd:NEURAL",
    "skyline": "olrank.rankers.skyline:ENTRY",
}


class Made(NamedTuple):
    """A ranker that is ready to run.

    Attributes:
        ranker: the four pure functions.
        numbers: numeric settings for `ranker.init`.
        settings: all settings in force, by name.
        entry: its line of the table.
    """

    ranker: Ranker
    numbers: PyTree
    settings: dict[str, Any]
    entry: Entry


def names() -> list[str]:
    """All names in the table."""
    return list(_TABLE)


@cache
def entry(name: str) -> Entry:
    """The entry of the ranker called `name`."""
    if name not in _TABLE:
        raise unknown_name("ranker", name, _TABLE)
    module, attribute = _TABLE[name].split(":")
    found: Entry = getattr(import_module(module), attribute)
    return found


def make(name: str, settings: Mapping[str, Any] | None = None) -> Made:
    """Build a ranker from settings by name.

    Args:
        name: in the table.
        settings: "preset" picks a named set (the entry's first by default), the rest overrides it;
            "lambda" sets "pull" and "prior" together.

    Returns:
        The ranker with its numeric settings, and everything that is in force.
    """
    line = entry(name)
    in_force = _resolve(name, line, dict(settings or {}))
    design = line.design(**{key: in_force[key] for key in line.design._fields})
    numbers = line.numbers(**{key: float(in_force[key]) for key in line.numbers._fields})
    return Made(_build(line.factory, design), numbers, in_force, line)


@cache
def _build(factory: Any, design: Any) -> Ranker:
    ranker: Ranker = factory(design)
    return ranker


def _resolve(name: str, line: Entry, given: dict[str, Any]) -> dict[str, Any]:
    preset = given.pop("preset", next(iter(line.presets)))
    if preset not in line.presets:
        raise unknown_name("preset", preset, line.presets, where=f"ranker {name}")
    in_force = {**line.design._field_defaults, **line.numbers._field_defaults}
    jobs = [key for key in ("pull", "prior") if key in in_force]  # of the one letter lambda
    for layer in (dict(line.presets[preset]), given):
        if "lambda" in layer and jobs:
            both = layer.pop("lambda")
            layer = {**dict.fromkeys(jobs, both), **layer}
        for key, value in layer.items():
            if key not in in_force:
                known = [*in_force, "preset", *(["lambda"] if jobs else [])]
                raise unknown_name("setting", key, known, where=f"ranker {name}")
            in_force[key] = _checked(name, key, value, in_force[key], key in line.numbers._fields)
    return {"preset": preset, **in_force}


def _checked(name: str, key: str, value: Any, default: Any, is_number: bool) -> Any:
    """The value, when it is of the kind that the default is."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    least = 0 if default == 0 else 1  # a count of nothing, where that is what holds unless given
    count = isinstance(value, int) and not isinstance(value, bool) and value >= least
    fits = {
        bool: isinstance(value, bool),
        int: count or (value is None and key in ("history_batch", "epochs")),
        str: isinstance(value, str),
        float: number and isfinite(value),
        type(None): count or value is None,
    }[float if is_number else type(default)]
    if not fits:
        kind = "a number" if is_number else f"a value like {default!r}"
        raise ConfigError(f"ranker {name}, {key}: expected {kind}, found {value!r}.")
    return value
