"""The folds that a config asks for: made up, found in a folder, or named file by file."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from olrank.data.folds import read_folds
from olrank.data.letor import read_letor
from olrank.data.normalise import normalise_fold
from olrank.data.synthetic import synthetic_folds
from olrank.errors import ConfigError
from olrank.experiments.running.config import DataConfig, PartsConfig
from olrank.types import Dataset, Fold

_QUERIES = (200, 50, 100)  # train, validation, test of synthetic data, unless the config says
_VALIDATION = 0.2  # of the train queries, where a set comes without a validation part


def load_folds(data: DataConfig) -> list[Fold]:
    """The folds of a data section, normalised as it says; at least one."""
    if data.path is not None:
        only = None if data.folds == "all" else data.folds
        return read_folds(expand(data.path), normalise=data.normalise, only=only)
    fold = _made_up(data) if data.parts is None else _named(data.parts)
    return [normalise_fold(fold, data.normalise)]


def _made_up(data: DataConfig) -> Fold:
    n_train, n_validation, n_test = data.queries or _QUERIES
    return synthetic_folds(data.synthetic, queries=(n_train, n_validation, n_test), seed=data.seed)


def _named(parts: PartsConfig) -> Fold:
    """One fold of named files, all as wide as the widest of them and on one scale of grades."""
    named = [
        [expand(file) for file in files] for files in (parts.train, parts.validation, parts.test)
    ]
    title = named[0][0].resolve().parent.name
    read = [read_letor(files, name=title) for files in named if files]
    width, top = max(part.n_features for part in read), max(part.max_grade for part in read)

    def part(files: list[Path]) -> Dataset:
        return replace(read_letor(files, name=title, n_features=width), max_grade=top)

    train, test = part(named[0]), part(named[2])
    return Fold("1", train, part(named[1]) if named[1] else train.select([]), test)


def expand(path: str) -> Path:
    """A path with its ${VARIABLES} put in; one that is not set is named."""
    for name in re.findall(r"\$\{(\w+)\}", path):
        if name not in os.environ:
            raise ConfigError(
                f'[data] "{path}": the environment variable {name} is not set. '
                "Set it to the folder that holds the data."
            )
        path = path.replace("${" + name + "}", os.environ[name])
    return Path(path).expanduser()


def with_validation(fold: Fold) -> Fold:
    """The fold itself, or one whose validation part was taken out of its train part."""
    train = fold.train
    if fold.validation.n_queries or train.n_queries < 2:
        return fold
    order = np.random.default_rng(0).permutation(train.n_queries)
    n = max(1, round(_VALIDATION * train.n_queries))

    def part(name: str, queries: npt.NDArray[np.int64]) -> Dataset:
        chosen = train.select(np.sort(queries))
        digest = hashlib.sha256(f"{train.checksum} {name} {_VALIDATION}".encode())
        return replace(chosen, checksum=digest.hexdigest())

    held_back, rest = part("validation", order[:n]), part("train", order[n:])
    return fold._replace(train=rest, validation=held_back)
