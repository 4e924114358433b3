"""Pages are what their rows say; a page that is not is found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from experiments.made_rows import made_rows

from olrank.errors import ConfigError, DataError
from olrank.experiments.reports import pages, report
from olrank.experiments.rows import files

ROOT = Path(__file__).parents[3]


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    folder = tmp_path / "experiments" / "trial"
    files.write_rows(made_rows(), folder / "rows.parquet")
    files.write_json({"seconds": 7200.0}, folder / "run.json")
    report.draw(folder)
    (folder / "page.md").write_text(
        "# Does it hold?\n\n{{run rounds}} rounds, {{run hours}} h.\n\n{{figure learning}}\n\n"
        "olRankNet: {{mean olranknet | perfect | clicked | ndcg@10}}\n\n{{table}}\n"
    )
    return folder


def test_a_page_is_filled_from_rows(experiment: Path, tmp_path: Path):
    written = pages.build(tmp_path / "experiments", tmp_path / "docs")
    names = [path.relative_to(tmp_path / "docs").as_posix() for path in written]
    assert names == ["trial.md", "figures/trial-learning.svg", "experiments.md"]
    text = written[0].read_text()
    assert "100 rounds, 2.0 h." in text
    assert "![learning](figures/trial-learning.svg)" in text
    # 0.01 * (9 letters + log10 of 100) + 0.01 * seed, seeds 0 and 1.
    assert f"olRankNet: {0.01 * (9 + 2) + 0.005:.3f}".replace("0.", ".", 1) in text
    assert "[Does it hold?](trial.md)" in written[2].read_text()


def test_effects_are_of_the_variants_of_one_base(experiment: Path):
    names = ("olranknet", "pdgd-linear", "skyline")
    files.write_rows(made_rows(rankers=names, seeds=range(5)), experiment / "rows.parquet")
    bases = {"pdgd-linear": "olranknet", "skyline": "pdgd-linear"}
    rankers = [{"name": name, "label": "", "base": bases.get(name)} for name in names]
    files.write_json({"config": {"ranker": rankers}}, experiment / "run.json")
    filled = pages.fill("{{effects olranknet}}", experiment)
    assert "against olranknet" in filled
    assert "| pdgd-linear |" in filled
    assert "skyline" not in filled
    report.report(experiment)
    assert filled in (experiment / "effects.md").read_text()
    assert "figures/trial-effects.svg" in pages.fill("{{figure effects}}", experiment)
    with pytest.raises(ConfigError, match='no base is called "skyline"'):
        pages.fill("{{effects skyline}}", experiment)


def test_a_page_is_stale_when_rows_move_or_it_was_edited(experiment: Path, tmp_path: Path):
    where = tmp_path / "experiments", tmp_path / "docs"
    pages.build(*where)
    assert pages.stale(*where) == []
    page = tmp_path / "docs" / "trial.md"
    page.write_text(page.read_text().replace("100 rounds", "101 rounds"))
    assert pages.stale(*where) == ["trial.md"]
    pages.build(*where)
    moved = made_rows(seeds=(0, 1, 2))
    files.write_rows(moved, experiment / "rows.parquet")
    assert pages.stale(*where) == ["trial.md"]


def test_an_experiment_without_rows_has_no_page(experiment: Path, tmp_path: Path):
    (experiment / "rows.parquet").unlink()
    written = pages.build(tmp_path / "experiments", tmp_path / "docs")
    assert [path.name for path in written] == ["experiments.md"]


@pytest.mark.parametrize(
    ("place", "error", "told"),
    [
        ("{{tabel}}", ConfigError, 'no place is called "tabel"'),
        ("{{figure beauty}}", DataError, "there is no figure beauty"),
        ("{{mean nobody | perfect | clicked | ndcg@10}}", ConfigError, "0 such means"),
        ("{{run years}}", ConfigError, 'no count is called "years"'),
    ],
)
def test_a_place_that_cannot_be_filled_is_told(experiment: Path, place, error, told):
    with pytest.raises(error, match=told):
        pages.fill(place, experiment)


def test_every_committed_experiment_with_rows_has_one_text_and_a_page():
    rows = [(ROOT / "experiments").glob(f"*/{name}.parquet") for name in ("rows", "robust")]
    folders = sorted({file.parent for files in rows for file in files})
    assert folders
    for folder in folders:
        assert (folder / "page.md").is_file()
        assert not (folder / "README.md").exists()  # a second text would drift from the page
        assert (ROOT / "docs" / f"{folder.name}.md").is_file()


def test_no_committed_page_is_stale():
    assert pages.stale(ROOT / "experiments", ROOT / "docs") == [], "run: olrank pages"


@pytest.mark.parametrize(
    "template", sorted((ROOT / "experiments").glob("*/page.md")), ids=lambda path: path.parent.name
)
def test_no_result_is_typed_into_a_template(template: Path):
    prose = re.sub(r"\{\{[^{}]*\}\}|`[^`]*`", "", template.read_text())
    typed = re.findall(r"(?<![\w.])0?\.\d{2,}|\b\d{3,4}\.\d\b", prose)
    assert typed == []
