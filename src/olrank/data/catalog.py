"""Is this folder a public data set, and is it whole? Every file is read and counted.

The records of the sets are in `public.py`. `check` stands behind `olrank data check`, `info` behind
`olrank data info`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from olrank.data.cache import CacheFolder
from olrank.data.describe import describe
from olrank.data.files import Files, find_files, read_part
from olrank.data.public import SETS, Count, PublicSet
from olrank.errors import DataError
from olrank.types import Dataset

Verdict = Literal["complete", "partial", "different", "unknown"]


class Finding(NamedTuple):
    """One thing that was looked at: fine, missing something, or with something that is wrong."""

    state: Literal["fine", "missing", "wrong"]
    text: str


class Part(NamedTuple):
    """A file that was read; `group` is the fold, or whatever else should sum to the whole set."""

    group: str
    label: str
    size: Count
    n_features: int
    max_grade: int


@dataclass
class SetReport:
    """One set of files, held against a public set.

    Attributes:
        place: where the files are.
        public_set: the set they are taken for; None when they resemble none.
        findings: what was looked at, in order.
    """

    place: Path
    public_set: PublicSet | None
    findings: list[Finding] = field(default_factory=list)

    @property
    def verdict(self) -> Verdict:
        """All as published, something missing, something wrong, or none of the public sets."""
        states = {finding.state for finding in self.findings}
        if self.public_set is None:
            return "unknown"
        return (
            "different" if "wrong" in states else "partial" if "missing" in states else "complete"
        )

    def lines(self) -> list[str]:
        """One line of text for each finding, and the verdict last."""
        name = self.public_set.name if self.public_set else ""
        sentence = {
            "complete": f"{name}, complete, all counts as published.",
            "partial": f"{name}, but only a part of it: say so beside every number.",
            "different": f"resembles {name}, but is not the set that was published.",
            "unknown": f"none of the public sets known here ({', '.join(SETS)}).",
        }[self.verdict]
        return [f"{f.state:8} {f.text}" for f in self.findings] + [f"{self.place}: {sentence}"]


@dataclass
class Report:
    """What a folder holds: usually one set, two in Yahoo's."""

    sets: list[SetReport]

    @property
    def ok(self) -> bool:
        """True when everything in the folder is a whole public set."""
        return all(one.verdict == "complete" for one in self.sets)

    def lines(self) -> list[str]:
        """The whole report, one line of text each."""
        return [line for one in self.sets for line in one.lines()]


def check(directory: str | os.PathLike[str], *, cache: CacheFolder = True) -> Report:
    """Recognise a public set in a folder, by names and by counts, and say what is off.

    Raises:
        DataError: nothing like a data set is there, or a file cannot be read.
    """
    place, files = _find(Path(directory))
    if len(files.splits) < 2:
        return Report([_check_set(place, files, cache)])
    each = [(place / prefix, Files(splits=((prefix, split),))) for prefix, split in files.splits]
    return Report([_check_set(where, one, cache) for where, one in each])


def info(dataset: Dataset) -> list[str]:
    """The facts of a set, one line of text each; `describe` gives them as numbers."""
    return [dataset.name, *(f"  {line}" for line in describe(dataset).lines())]


def _find(place: Path) -> tuple[Path, Files]:
    """The files of a folder, or of the one folder inside it that has any."""
    try:
        return place, find_files(place)
    except DataError:
        inside = sorted(place.iterdir()) if place.is_dir() else []
        found = []
        for folder in filter(Path.is_dir, inside):
            try:
                found.append((folder, find_files(folder)))
            except DataError:
                continue
        if len(found) != 1:
            raise
        return found[0]


def _check_set(place: Path, files: Files, cache: CacheFolder) -> SetReport:
    parts = [_read(group, label, path, cache) for group, label, path in _labelled(files)]
    public_set = _recognise(place, parts)
    report = SetReport(place, public_set)
    if public_set is None:
        total = _total(parts)
        text = f"{total.queries:,} queries, {total.documents:,} documents, {_width(parts)} features"
        report.findings.append(Finding("wrong", f"no public set looks like {text}"))
        return report
    report.findings += _missing_files(files, public_set)
    report.findings += _part_counts(parts, public_set)
    report.findings += _totals(parts, public_set)
    report.findings += _shape(parts, public_set)
    return report


def _labelled(files: Files) -> list[tuple[str, str, Path]]:
    """(group, label, path) of every file; labels are as in `PublicSet.counts`."""
    found = [("", path.name.split(".")[0].upper(), path) for path in files.parts]
    if files.single is not None:
        found.append(("", files.single.name, files.single))
    for group, split in (*files.folds, *files.splits):
        for path in filter(None, split):
            label = re.sub(r"(\.txt)?(\.gz|\.xz)?$", "", path.name)
            in_fold = bool(files.folds)
            fold = f"Fold{group}" if in_fold else ""
            found.append((fold, f"{fold}/{label}" if in_fold else label, path))
    return found


def _read(group: str, label: str, path: Path, cache: CacheFolder) -> Part:
    read = read_part(path, cache=cache)
    size = Count(read.n_queries, read.n_rows)
    return Part(group, label, size, read.n_features, int(read.grades.max()))


def _recognise(place: Path, parts: Sequence[Part]) -> PublicSet | None:
    """The set of this width whose name or, failing that, whose number of queries fits best."""
    width, prefix = _width(parts), parts[0].label.split(".")[0]
    named = [one for one in SETS.values() if f"{prefix}.train" in one.counts]
    fitting = [one for one in SETS.values() if one.n_features == width] or named
    if not fitting:
        return None
    where = re.sub(r"\W|_", "", place.resolve().as_posix().lower())
    n_queries = _total([part for part in parts if part.group == parts[0].group]).queries

    def distance(one: PublicSet) -> tuple[bool, bool, float]:
        named_so = one.name.lower().removeprefix("mslr-").replace("-", "") in where
        ratio = n_queries / one.whole.queries
        return one not in named, not named_so, max(ratio, 1 / ratio)

    return min(fitting, key=distance)


def _missing_files(files: Files, public_set: PublicSet) -> list[Finding]:
    missing: list[str] = []
    if files.parts:
        there = {path.name.split(".")[0].upper() for path in files.parts}
        missing += [f"S{n}" for n in range(1, 6) if f"S{n}" not in there]
    if files.folds:
        missing += [f"Fold{n}" for n in range(1, 6) if str(n) not in dict(files.folds)]
    for group, split in (*files.folds, *files.splits):
        missing += [f"the validation part of {group or 'the split'}"] * (split.validation is None)
    if files.single is not None:
        text = f"{files.single.name} is one file; {public_set.name} has {public_set.folds}"
        return [Finding("missing", text)]
    return [Finding("missing", f"{name} is not there") for name in missing]


def _part_counts(parts: Sequence[Part], public_set: PublicSet) -> list[Finding]:
    known = [(part, public_set.counts.get(part.label)) for part in parts]
    return [_counted(part.label, part.size, wanted) for part, wanted in known if wanted is not None]


def _totals(parts: Sequence[Part], public_set: PublicSet) -> list[Finding]:
    groups = dict.fromkeys(part.group for part in parts)
    return [
        _counted(
            group or "all files",
            _total([part for part in parts if part.group == group]),
            public_set.whole,
        )
        for group in groups
    ]


def _counted(label: str, found: Count, wanted: Count) -> Finding:
    if found == wanted:
        text = f"{label}: {found.queries:,} queries, {found.documents:,} documents"
        return Finding("fine", text)
    more = found.queries > wanted.queries or found.documents > wanted.documents
    text = (
        f"{label}: {found.queries:,} of {wanted.queries:,} queries, "
        f"{found.documents:,} of {wanted.documents:,} documents"
    )
    return Finding("wrong" if more else "missing", text)


def _shape(parts: Sequence[Part], public_set: PublicSet) -> list[Finding]:
    width, wanted = _width(parts), public_set.n_features
    fits = width <= wanted if public_set.sparse else width == wanted
    highest, top = max(part.max_grade for part in parts), public_set.max_grade
    grades: Literal["fine", "missing", "wrong"] = "fine" if highest == top else "missing"
    return [
        Finding("fine" if fits else "wrong", f"{width} features, published: {wanted}"),
        Finding("wrong" if highest > top else grades, f"grades 0 to {highest}, published: {top}"),
    ]


def _width(parts: Sequence[Part]) -> int:
    return max(part.n_features for part in parts)


def _total(parts: Sequence[Part]) -> Count:
    return Count(
        sum(part.size.queries for part in parts), sum(part.size.documents for part in parts)
    )
