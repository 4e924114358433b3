"""TOML text as a checked model; what is wrong is said with file, place and remedy."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from olrank.errors import ConfigError, unknown_name

T = TypeVar("T", bound=BaseModel)


class Section(BaseModel):
    """A table of a config file: nothing unknown in it, and nothing changed once it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def read_text(path: Path) -> str:
    """The text of a config file."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"{path}: cannot be read ({reason}). Name a TOML file.") from error


def tables(text: str, source: str) -> dict[str, Any]:
    """What TOML text says, unchecked."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source}: not valid TOML: {error}.") from error


def parse(
    model: type[T], text: str, source: str, unless_said: Mapping[str, Any] | None = None
) -> T:
    """What TOML text says, as a model; what is wrong is said with file, place and remedy.

    Args:
        model: of the text.
        text: TOML.
        source: what errors call it.
        unless_said: whole tables that hold where the text has none of their name.
    """
    raw = {**(unless_said or {}), **tables(text, source)}
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(error, model, raw, source))) from None


def as_list(value: Any) -> Any:
    """A table where there may be several of them stands for a list of one."""
    return [value] if isinstance(value, dict) else value


def numbered(index: int, n: int) -> str:
    """How a person finds one of several tables: " 2" for the second, nothing where it is alone."""
    return "" if n == 1 else f" {index + 1}"


def _explain(
    error: ValidationError, model: type[BaseModel], raw: dict[str, Any], source: str
) -> list[str]:
    """One sentence a mistake, with the place it was made at."""
    lines: list[str] = []
    # A misspelt name first: what is missing for it follows from it.
    for mistake in sorted(error.errors(), key=lambda found: found["type"] != "extra_forbidden"):
        told = mistake["msg"].removeprefix("Value error, ").rstrip(".")
        place = _place(mistake["loc"], model, raw)
        where = f"{source}, {place}" if place else source
        if mistake["type"] == "extra_forbidden":
            known = _section_at(mistake["loc"], model).model_fields
            lines.append(str(unknown_name("setting", str(mistake["loc"][-1]), known, where)))
        elif mistake["type"] == "missing":
            lines.append(f"{where}: is missing.")
        else:
            found = (
                "" if isinstance(mistake["input"], dict | list) else f"; found {mistake['input']!r}"
            )
            lines.append(f"{where}: {told[:1].lower()}{told[1:]}{found}.")
    return list(dict.fromkeys(lines))


def _section_at(loc: tuple[int | str, ...], model: type[BaseModel]) -> type[BaseModel]:
    """The section that a mistake's key stands in."""
    here = model
    for step in loc[:-1]:
        field = here.model_fields.get(str(step))
        here = (field and _section_in(field.annotation)) or here
    return here


def _section_in(annotation: Any) -> type[BaseModel] | None:
    """The section that a field holds, by itself, in a list or as one of several kinds."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_section_in(inner) for inner in get_args(annotation))
    return next((section for section in found if section is not None), None)


def _place(loc: tuple[int | str, ...], model: type[BaseModel], raw: dict[str, Any]) -> str:
    """("ranker", 1, "name") as "[ranker 2] name": how a person finds it in the file."""
    if not loc:
        return ""
    head, *rest = loc
    field = model.model_fields.get(str(head))
    if field is None or _section_in(field.annotation) is None:
        return str(head)
    if rest and isinstance(rest[0], int):
        head = f"{head}{numbered(rest[0], len(as_list(raw.get(str(head), []))))}"
        rest = rest[1:]
    # pydantic names the branch of a union ("int", "list[...]") as a step of the way; people do not.
    steps = [str(step + 1) if isinstance(step, int) else step for step in rest]
    named = [step for step in steps if step.isidentifier() or step.isdigit()]
    return " ".join([f"[{head}]", *(step for step in named if step not in ("int", "list"))])
