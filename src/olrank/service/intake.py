"""From a rank request to normalised rows; mistakes are told by the names of candidate and feature.

Missing values take the feature's default. Everything is checked before anything is drawn.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from olrank.data.normalise import normalise_query
from olrank.errors import DataError
from olrank.service.blueprint import Blueprint
from olrank.service.schema import Candidate, RankRequest

_LARGEST = float(np.finfo(np.float32).max)
_LARGEST_RAW = 1e6  # unnormalised features go into the network as they are


@dataclass(frozen=True)
class Intake:
    """A checked request.

    Attributes:
        ids: [n_docs] of the candidates, as given.
        raw: [n_docs, n_features] as given, defaults filled in.
        rows: [n_docs, n_features] normalised.
        ranks: [n_docs] production's ranks from 0; None without a baseline_order.
        digest: of everything but the ranking_id; equal for equal requests.
    """

    ids: list[str]
    raw: npt.NDArray[np.float64]
    rows: npt.NDArray[np.float32]
    ranks: npt.NDArray[np.int32] | None
    digest: str


def take_in(blueprint: Blueprint, request: RankRequest) -> Intake:
    """Check a request and normalise its features."""
    candidates = request.candidates
    ids = [candidate.id for candidate in candidates]
    if len(set(ids)) < len(ids):
        twice = next(one for one in ids if ids.count(one) > 1)
        raise DataError(f'candidates: the id "{twice}" comes twice. Give each its own id.')
    raw = _filled(blueprint, candidates, _matrix(blueprint, candidates))
    ranks = None if request.baseline_order is None else _ranks(ids, request.baseline_order)
    rows = normalise_query(raw, blueprint.config["normalise"])
    facts = [ids, request.query, request.baseline_order, request.explore_share]
    digest = hashlib.sha256(json.dumps(facts).encode() + raw.tobytes()).hexdigest()
    return Intake(ids, raw, rows, ranks, digest)


def _matrix(blueprint: Blueprint, candidates: Sequence[Candidate]) -> npt.NDArray[np.float64]:
    """[n_docs, n_features], NaN where missing."""
    n = blueprint.n_features
    listed: list[Any] = []
    for candidate in candidates:
        values = candidate.features
        if isinstance(values, dict):
            values = _by_name(blueprint, candidate.id, values)
        elif len(values) != n:
            raise DataError(
                f'candidate "{candidate.id}": expected {n} features, found {len(values)}. Send '
                "them all, in order, with null where one is missing."
            )
        listed.append(values)
    return _packed(listed, n)


def _packed(listed: Sequence[Sequence[float | None]], n: int) -> npt.NDArray[np.float64]:
    """[n_docs, n] numbers of lists, NaN for None."""
    pack = struct.Struct(f"{n}d").pack
    try:  # twice as fast as NumPy's own way, which has to look at every number's type
        raw = b"".join([pack(*values) for values in listed])
    except struct.error:
        return np.array(listed, dtype=np.float64)
    return np.frombuffer(raw, np.float64).reshape(len(listed), n)


def _by_name(
    blueprint: Blueprint, candidate: str, values: Mapping[str, float | None]
) -> list[float | None]:
    if blueprint.config["features"] is None:
        raise DataError(
            f'candidate "{candidate}": features by name, but the ranker was created with a count. '
            "Send a list."
        )
    names = blueprint.feature_names
    unknown = sorted(values.keys() - set(names))
    if unknown:
        raise DataError(
            f'candidate "{candidate}": no feature is called "{unknown[0]}". The feature list is '
            "that of the ranker's creation; create a new ranker for another list."
        )
    return [values.get(name) for name in names]


def _filled(
    blueprint: Blueprint, candidates: Sequence[Candidate], raw: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """The matrix with defaults where values are missing; every value in range."""
    missing = np.isnan(raw)
    if missing.any():
        given = blueprint.config["defaults"] or [None] * blueprint.n_features
        defaults = np.array(given, dtype=np.float64)
        raw = np.where(missing, defaults, raw)
    limit = _LARGEST_RAW if blueprint.config["normalise"] == "none" else _LARGEST
    # NaN compares false, so that a value that is still missing is found here, too.
    wrong = ~(np.abs(raw) <= limit)
    if wrong.any():
        document, feature = np.argwhere(wrong)[0]
        where = (
            f'candidate "{candidates[document].id}", feature "{blueprint.feature_names[feature]}"'
        )
        if np.isnan(raw[document, feature]):
            raise DataError(f"{where}: it is missing and has no default. Send a finite number.")
        raise DataError(f"{where}: {raw[document, feature]:g} is beyond +-{limit:g}.")
    return raw


def _ranks(ids: Sequence[str], order: Sequence[str]) -> npt.NDArray[np.int32]:
    place = {one: rank for rank, one in enumerate(order)}
    if len(place) < len(order) or place.keys() != set(ids):
        odd = sorted(place.keys() ^ set(ids)) or sorted(order)
        raise DataError(f'baseline_order: it must hold every candidate once; look at "{odd[0]}".')
    return np.array([place[one] for one in ids], dtype=np.int32)
