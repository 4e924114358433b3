"""Which data sets a folder holds, each named as what it is; made-up shapes where it has none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from olrank.data.catalog import check
from olrank.data.files import find_files
from olrank.data.synthetic import synthetic_folds
from olrank.errors import DataError
from olrank.experiments.paper.protocol import MadeUp
from olrank.experiments.running.config import DataConfig
from olrank.experiments.running.load import load_folds, with_validation
from olrank.types import Fold


class Found(NamedTuple):
    """A data set to run on.

    Attributes:
        source: where it is, or how it is made up.
        told: a sentence on what it is, for a person.
    """

    source: DataConfig | MadeUp
    told: str


class Looked(NamedTuple):
    """What was found in a folder, and a sentence on everything that was not used."""

    found: list[Found]
    passed_over: list[str]


def find_sets(place: Path) -> Looked:
    """The data sets at a place: the place itself, or every folder in it that holds one.

    Sets of the catalog are recognised by their counts; what resembles none of them is used, too,
    under its folder's name.
    """
    if not place.is_dir():
        raise DataError(f"{place}: there is no such folder. Name the folder that holds the sets.")
    folders = [place, *sorted(folder for folder in place.iterdir() if folder.is_dir())]
    looked = Looked([], [])
    for folder in folders:
        try:
            files = find_files(folder)
        except DataError:
            if folder != place:
                looked.passed_over.append(f"{folder.name}: no judged queries in a known form.")
            continue
        prefixes = [prefix for prefix, _ in files.splits]
        places = [folder / prefix for prefix in prefixes] if len(prefixes) > 1 else [folder]
        for where in places:
            try:
                looked.found.append(Found(DataConfig(path=str(where)), _told(where)))
            except DataError as error:
                looked.passed_over.append(f"{where.name}: {error}")
        if folder == place and looked.found:
            break
    return looked


def _told(where: Path) -> str:
    """The catalog's verdict on a set: its last line."""
    report = check(where)
    return " ".join(line.split(": ", 1)[-1] for line in (one.lines()[-1] for one in report.sets))


def made_up(shapes: Sequence[MadeUp]) -> list[Found]:
    """Synthetic sets, to fall back on."""
    return [
        Found(one, f"made up, {sum(one.queries):,} queries, in the synthetic shape {one.preset}.")
        for one in shapes
    ]


def folds_of(source: DataConfig | MadeUp) -> list[Fold]:
    """The folds of a set; a fifth of the train queries to choose on where it has none for that."""
    if isinstance(source, DataConfig):
        return [with_validation(fold) for fold in load_folds(source)]
    preset, queries, name, changes = source
    return [synthetic_folds(preset, queries=queries, name=name, **changes)]
