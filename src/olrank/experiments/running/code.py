"""Which of olrank's files a module reaches, and a checksum of them: code that can move a number."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from pathlib import Path

_PACKAGE = "olrank"


def reached(root: Path, modules: Iterable[str]) -> set[Path]:
    """The files of these modules and of all that they import, and so on; of this package alone.

    Args:
        root: the package's folder.
        modules: their full names.
    """
    found: set[Path] = set()
    waiting = [file for name in modules if (file := _file(root, name)) is not None]
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            names = _imported(ast.parse(file.read_text("utf-8")))
            waiting += [at for name in names if (at := _file(root, name)) is not None]
    return found


def checksum(root: Path, files: Iterable[Path]) -> str:
    """SHA-256 over the names and contents of files, in the order of their names."""
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _imported(tree: ast.AST) -> list[str]:
    """Modules that a file names; what is imported from a package may be one, too."""
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names


def _file(root: Path, module: str) -> Path | None:
    first, *rest = module.split(".")
    if first != _PACKAGE:
        return None
    place = root.joinpath(*rest)
    for file in (place.with_suffix(".py"), place / "__init__.py"):
        if rest and file.is_file():
            return file
    return None
