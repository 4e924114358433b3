"""The public data sets: what each should contain, and who publishes it under which terms.

Nothing is ever fetched: each set has its owner's terms, which a person must accept. The counts are
those of the owners and of the papers that introduced the sets.
"""

from __future__ import annotations

from typing import NamedTuple

from olrank.errors import unknown_name


class Count(NamedTuple):
    """How many queries and documents."""

    queries: int
    documents: int


class PublicSet(NamedTuple):
    """A public data set.

    Attributes:
        name: what the literature calls it.
        whole: its size.
        n_features: its width.
        sparse: whether files leave out features that are 0, so that a part may be narrower.
        max_grade: grades are 0 to this.
        files: the files of the set, as its owner packs them.
        folds: how the set is divided.
        counts: sizes of files, by the end of their path without ending ("Fold1/train", "S1").
        owner: who publishes it.
        page: where.
        licence: in short; the owner's text counts.
        citation: the paper that introduced it.
    """

    name: str
    whole: Count
    n_features: int
    sparse: bool
    max_grade: int
    files: tuple[str, ...]
    folds: str
    counts: dict[str, Count]
    owner: str
    page: str
    licence: str
    citation: str


_FIVE_FOLDS = "five cyclic folds: train S_i to S_(i+2), validation S_(i+3), test S_(i+4)"
_PROVIDED = "one provided split into train, validation and test"
_FOLD_FILES = tuple(
    f"Fold{fold}/{part}.txt" for fold in range(1, 6) for part in ("train", "vali", "test")
)
_PART_FILES = tuple(f"S{part}.txt" for part in range(1, 6))
_LETOR_PAGE = (
    "https://www.microsoft.com/en-us/research/project/letor-learning-rank-information-retrieval/"
)
_LETOR_PAPER = "T. Qin, T.-Y. Liu. Introducing LETOR 4.0 Datasets. arXiv:1306.2597, 2013."
_MICROSOFT = "Microsoft Research"
_MICROSOFT_TERMS = "research use, under the agreement on the owner's page; not to be passed on"
_YAHOO_PAPER = (
    "O. Chapelle, Y. Chang. Yahoo! Learning to Rank Challenge Overview. "
    "JMLR Workshop and Conference Proceedings 14, 2011."
)
_YAHOO_TERMS = (
    "non-commercial research, on request, under the owner's agreement; not to be passed on"
)

SETS: dict[str, PublicSet] = {
    record.name: record
    for record in (
        PublicSet(
            name="MSLR-WEB10K",
            whole=Count(10_000, 1_200_192),
            n_features=136,
            sparse=False,
            max_grade=4,
            files=_FOLD_FILES,
            folds=_FIVE_FOLDS,
            counts={
                "Fold1/train": Count(6_000, 723_412),
                "Fold1/vali": Count(2_000, 235_259),
                "Fold1/test": Count(2_000, 241_521),
            },
            owner=_MICROSOFT,
            page="https://www.microsoft.com/en-us/research/project/mslr/",
            licence=_MICROSOFT_TERMS,
            citation=_LETOR_PAPER,
        ),
        PublicSet(
            name="MSLR-WEB30K",
            whole=Count(31_531, 3_771_125),
            n_features=136,
            sparse=False,
            max_grade=4,
            files=_FOLD_FILES,
            folds=_FIVE_FOLDS,
            counts={
                "Fold1/train": Count(18_919, 2_270_296),
                "Fold1/vali": Count(6_306, 747_218),
                "Fold1/test": Count(6_306, 753_611),
            },
            owner=_MICROSOFT,
            page="https://www.microsoft.com/en-us/research/project/mslr/",
            licence=_MICROSOFT_TERMS,
            citation=_LETOR_PAPER,
        ),
        PublicSet(
            name="Yahoo-set1",
            whole=Count(29_921, 709_877),
            n_features=700,
            sparse=True,
            max_grade=4,
            files=("set1.train.txt", "set1.valid.txt", "set1.test.txt"),
            folds=_PROVIDED,
            counts={
                "set1.train": Count(19_944, 473_134),
                "set1.valid": Count(2_994, 71_083),
                "set1.test": Count(6_983, 165_660),
            },
            owner="Yahoo! Webscope (C14)",
            page="https://webscope.sandbox.yahoo.com/catalog.php?datatype=c",
            licence=_YAHOO_TERMS,
            citation=_YAHOO_PAPER,
        ),
        PublicSet(
            name="Yahoo-set2",
            whole=Count(6_330, 172_870),
            n_features=700,
            sparse=True,
            max_grade=4,
            files=("set2.train.txt", "set2.valid.txt", "set2.test.txt"),
            folds=_PROVIDED,
            counts={
                "set2.train": Count(1_266, 34_815),
                "set2.valid": Count(1_266, 34_881),
                "set2.test": Count(3_798, 103_174),
            },
            owner="Yahoo! Webscope (C14)",
            page="https://webscope.sandbox.yahoo.com/catalog.php?datatype=c",
            licence=_YAHOO_TERMS,
            citation=_YAHOO_PAPER,
        ),
        PublicSet(
            name="Istella-S",
            whole=Count(33_018, 3_408_630),
            n_features=220,
            sparse=False,
            max_grade=4,
            files=("train.txt", "vali.txt", "test.txt"),
            folds=_PROVIDED,
            counts={
                "train": Count(19_245, 2_043_304),
                "vali": Count(7_211, 684_076),
                "test": Count(6_562, 681_250),
            },
            owner="Istella",
            page="https://istella.ai/data/letor-dataset/",
            licence="non-commercial use, under the owner's licence agreement",
            citation=(
                "C. Lucchese, F. M. Nardini, S. Orlando, R. Perego, F. Silvestri, S. Trani. "
                "Post-Learning Optimization of Tree Ensembles for Efficient Ranking. SIGIR 2016."
            ),
        ),
        PublicSet(
            name="MQ2007",
            whole=Count(1_692, 69_623),
            n_features=46,
            sparse=False,
            max_grade=2,
            files=(*_FOLD_FILES, *_PART_FILES),
            folds=_FIVE_FOLDS,
            counts={
                "Fold1/train": Count(1_017, 42_158),
                "Fold1/vali": Count(339, 13_813),
                "Fold1/test": Count(336, 13_652),
                "S4": Count(339, 13_813),
                "S5": Count(336, 13_652),
            },
            owner=_MICROSOFT,
            page=_LETOR_PAGE,
            licence=_MICROSOFT_TERMS,
            citation=_LETOR_PAPER,
        ),
        PublicSet(
            name="MQ2008",
            whole=Count(784, 15_211),
            n_features=46,
            sparse=False,
            max_grade=2,
            files=(*_FOLD_FILES, *_PART_FILES),
            folds=_FIVE_FOLDS,
            counts={
                "Fold1/train": Count(471, 9_630),
                "Fold1/vali": Count(157, 2_707),
                "Fold1/test": Count(156, 2_874),
                "S1": Count(157, 2_933),
                "S2": Count(157, 3_635),
                "S3": Count(157, 3_062),
                "S4": Count(157, 2_707),
                "S5": Count(156, 2_874),
            },
            owner=_MICROSOFT,
            page=_LETOR_PAGE,
            licence=_MICROSOFT_TERMS,
            citation=_LETOR_PAPER,
        ),
    )
}


def public_set(name: str) -> PublicSet:
    """The record of a public set, by name."""
    if name not in SETS:
        raise unknown_name("public data set", name, SETS)
    return SETS[name]
