"""A new ranker is one file and one line: it passes the contracts and `olrank list` names it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import olrank

TESTS = Path(__file__).parents[1]

TOY = '''
"""Toy: every order is as good as any other."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from olrank.explore.order import draw_topological
from olrank.rankers.entry import Entry
from olrank.types import Array, Impression, Key, Ranker, Ranking, Rows


class Design(NamedTuple):
    """Settings that change shapes."""

    k: int = 10


class Numbers(NamedTuple):
    """Numeric settings."""

    patience: Any = 1.0


def toy(design: Design) -> Ranker:
    """A ranker that shuffles, and counts clicks."""

    def init(key: Key, n_features: int, numbers: Numbers) -> Array:
        return jnp.zeros((), jnp.result_type(float))

    def score(state: Array, features: Array) -> Array:
        return jnp.zeros(features.shape[0], features.dtype)

    def rank(state: Array, key: Key, features: Array, mask: Array, k: int) -> Ranking:
        n_docs = mask.shape[0]
        return draw_topological(key, jnp.zeros((n_docs, n_docs), bool), mask, mask, k)

    def learn(state: Array, key: Key, impression: Impression, rows: Rows) -> Array:
        return state + jnp.sum(impression.clicks)

    return Ranker(init, score, rank, learn)


ENTRY = Entry(
    summary="Shuffles like a deck of cards.",
    factory=toy,
    design=Design,
    numbers=Numbers,
    presets={"paper": {}, "released": {}},
)
'''
LINE = '    "toy": "olrank.rankers.toy:ENTRY",\n'


@pytest.fixture(scope="module")
def python_with_toy(tmp_path_factory):
    """Runs Python on a copy of the package that has one file and one line more."""
    source = tmp_path_factory.mktemp("copy")
    package = source / "olrank"
    shutil.copytree(
        Path(olrank.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__")
    )
    (package / "rankers" / "toy.py").write_text(TOY)
    table = package / "rankers" / "table.py"
    text = table.read_text()
    with_toy = text.replace("_TABLE = {\n", "_TABLE = {\n" + LINE)
    assert with_toy != text
    table.write_text(with_toy)

    def run(*arguments):
        paths = os.pathsep.join([str(source), str(TESTS)])
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=source,
            env={**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run


def test_a_new_ranker_appears_in_the_list(python_with_toy):
    listed = python_with_toy("-m", "olrank", "list")
    assert listed.returncode == 0, listed.stderr
    assert re.search(r"^toy +Shuffles like a deck of cards\.", listed.stdout, re.MULTILINE)
    assert "olranknet" in listed.stdout


def test_a_new_ranker_passes_the_contract_tests(python_with_toy):
    # No config file: the project's would put the project's own source first.
    ran = python_with_toy(
        "-m", "pytest", "-c", os.devnull, "--rootdir", str(TESTS), "-p", "no:cacheprovider",
        "--import-mode=importlib", "-W", "error", "-q", "-k", "toy",
        str(TESTS / "contracts" / "test_ranker_contract.py"),
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    counted = re.search(r"^(\d+) passed(?:, (\d+) skipped)?, \d+ deselected", ran.stdout, re.M)
    assert counted, ran.stdout
    # Nine checks, and one more of each of seven extremes.
    assert int(counted[1]) + int(counted[2] or 0) == 16
    assert int(counted[1]) >= 15
