"""README is run, not believed: its Python, its commands, its make targets, its links."""

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from olrank import cli

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "CONTRIBUTING.md")


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def alone(block: str) -> bool:
    """Needs no running service; tests/service runs those that do."""
    return "olrank.Client(" not in block


@pytest.mark.parametrize("block", [one for one in blocks("README.md", "python") if alone(one)])
def test_the_python_in_the_readme_runs(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})


def test_the_readme_shows_some_python():
    assert blocks("README.md", "python")


@pytest.mark.parametrize("page", PAGES)
def test_every_make_target_that_is_named_exists(page: str):
    named = set(re.findall(r"\bmake ([a-z]+)\b", "\n".join(code_in(page))))
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE)
    assert named
    assert named <= set(targets)


@pytest.mark.parametrize("page", PAGES)
def test_every_olrank_command_that_is_named_exists(page: str):
    group = get_command(cli.app)
    for command in re.findall(r"\bolrank ((?:data )?[a-z]+)\b", "\n".join(code_in(page))):
        first, *rest = shlex.split(command)
        assert first in group.commands
        assert not rest or rest[0] in group.commands[first].commands


@pytest.mark.parametrize("page", [*PAGES, "CHANGELOG.md"])
def test_every_file_that_is_linked_exists(page: str):
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text("utf-8"))
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (ROOT / link).exists()] == []


def code_in(page: str) -> list[str]:
    """Shell blocks and inline code of a page."""
    text = (ROOT / page).read_text("utf-8")
    return [*blocks(page, "sh"), *re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text)]
