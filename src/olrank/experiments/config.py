"""One TOML file in, a checked `Config` out; what is wrong is said with file, place and remedy.

name = "default"
[data]                      # exactly one of synthetic, path, parts
synthetic = "small"         # a preset; with queries = [train, validation, test] and seed
# path = "${OLRANK_DATA}/MQ2008"      # a file or folder; folds = [1, 2], or "all"
# parts = { train = ["train.txt"], test = ["test.txt"] }
normalise = "query"
[run]
users = ["perfect"]
stop = ["clicked"]
rounds = 1000
seeds = 5                   # a number, or a list of seeds
# seeds_at_once = 5         # in one part; as the device likes it unless given
# replicas_at_once = 64     # settings, users and stop rules in one step; as many as fit
[[ranker]]
name = "olranknet"
preset = "paper"
label = "olRankNet"         # what rows call it; its name unless given
settings = { alpha = 0.1 }
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from olrank.data.synthetic import PRESETS
from olrank.errors import ConfigError, unknown_name
from olrank.experiments.simulate import grid
from olrank.rankers import table
from olrank.users import presets

Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
Slug = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class PartsConfig(_Section):
    """Files named one by one; a part may be several files."""

    train: Annotated[list[str], Field(min_length=1)]
    validation: list[str] = []
    test: Annotated[list[str], Field(min_length=1)]


class DataConfig(_Section):
    """Where queries come from: exactly one of synthetic, path, parts."""

    synthetic: str | None = None
    queries: Annotated[list[Count], Field(min_length=3, max_length=3)] | None = None
    seed: Seed = 0
    path: str | None = None
    folds: Literal["all"] | Annotated[list[Count], Field(min_length=1)] = "all"
    parts: PartsConfig | None = None
    normalise: Literal["query", "unit", "global", "none"] = "query"

    @model_validator(mode="after")
    def _one_source(self) -> DataConfig:
        sources = ("synthetic", "path", "parts")
        given = [name for name in sources if getattr(self, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none of them"
            raise ValueError(f"give exactly one of {', '.join(sources)}; found {found}.")
        owners = {"queries": "synthetic", "seed": "synthetic", "folds": "path"}
        for setting, owner in owners.items():
            is_default = getattr(self, setting) == type(self).model_fields[setting].default
            if given != [owner] and not is_default:
                raise ValueError(f'"{setting}" belongs to "{owner}", and the data is "{given[0]}".')
        return self


class RunConfig(_Section):
    """What each ranker goes through."""

    users: Annotated[list[str], Field(min_length=1)] = ["perfect"]
    stop: Annotated[list[Literal["clicked", "examined"]], Field(min_length=1)] = ["clicked"]
    rounds: Count = 1000
    seeds: Count | Annotated[list[Seed], Field(min_length=1)] = 5
    seeds_at_once: Count | None = None
    replicas_at_once: Count | None = None
    k: Annotated[int, Field(ge=2)] = 10
    gamma: Annotated[float, Field(gt=0.0, le=1.0)] = 0.9995
    empty: Literal["skip", "zero", "one"] = "skip"

    @field_validator("users", "stop", "seeds")
    @classmethod
    def _each_once(cls, values: Any) -> Any:
        if isinstance(values, list) and len(set(values)) != len(values):
            raise ValueError(f"the same value stands there twice: {values}.")
        return values

    @property
    def seed_list(self) -> list[int]:
        """The seeds one by one: 5 stands for 0, 1, 2, 3, 4."""
        return list(range(self.seeds)) if isinstance(self.seeds, int) else self.seeds


class RankerConfig(_Section):
    """One ranker, as its table and its settings name it."""

    name: str
    preset: str | None = None
    label: str = ""
    settings: dict[str, Any] = {}

    @property
    def title(self) -> str:
        """What rows and figures call it."""
        return self.label or self.name

    def all_settings(self) -> dict[str, Any]:
        """The settings, with the preset among them where one is named."""
        preset = {} if self.preset is None else {"preset": self.preset}
        return {**preset, **self.settings}


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, dict) else value


class Config(_Section):
    """A whole experiment."""

    name: Slug
    data: DataConfig
    run: RunConfig = RunConfig()
    ranker: Annotated[list[RankerConfig], BeforeValidator(_as_list), Field(min_length=1)]

    @field_validator("ranker")
    @classmethod
    def _labels_differ(cls, rankers: list[RankerConfig]) -> list[RankerConfig]:
        titles = [ranker.title for ranker in rankers]
        for title in titles:
            if titles.count(title) > 1:
                raise ValueError(f'two rankers are called "{title}". Give each its own label.')
        return rankers


def read_config(path: Path | None = None) -> Config:
    """The config in this TOML file; the embedded default when there is no path."""
    if path is None:
        text = resources.files("olrank.experiments").joinpath("default.toml").read_text("utf-8")
        return parse_config(text, "default.toml")
    try:
        return parse_config(path.read_text("utf-8"), path.name)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"{path}: cannot be read ({reason}). Name a TOML file.") from error


def parse_config(text: str, source: str = "config.toml") -> Config:
    """The config written in this text; `source` is what errors call it."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source}: not valid TOML: {error}.") from error
    try:
        config = Config.model_validate(raw)
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(error, raw, source))) from None
    _check_names(config, source)
    return config


def _check_names(config: Config, source: str) -> None:
    """Refuse names and settings that no table knows, before anything runs."""
    if config.data.synthetic is not None:
        _known("preset", config.data.synthetic, PRESETS, f"{source}, [data] synthetic")
    for user in config.run.users:
        _known("user", user, presets.names(), f"{source}, [run] users")
    for index, ranker in enumerate(config.ranker):
        where = f"{source}, {_place(('ranker', index), len(config.ranker))}"
        _known("ranker", ranker.name, table.names(), f"{where} name")
        for setting, values in ranker.all_settings().items():
            each_once = isinstance(values, list) and all(values.count(v) == 1 for v in values)
            if isinstance(values, list) and not (values and each_once):
                raise ConfigError(
                    f"{where} {setting}: a list holds each of its values once; found {values}."
                )
        try:
            for settings, _ in grid(ranker.all_settings()):
                table.make(ranker.name, settings)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None


def _known(kind: str, name: str, known: Iterable[str], where: str) -> None:
    if name not in set(known):
        raise unknown_name(kind, name, known, where)


def _explain(error: ValidationError, raw: dict[str, Any], source: str) -> list[str]:
    """One sentence a mistake, with the place it was made at."""
    n_rankers = len(_as_list(raw.get("ranker", [])))
    lines: list[str] = []
    # A misspelt name first: what is missing for it follows from it.
    for mistake in sorted(error.errors(), key=lambda found: found["type"] != "extra_forbidden"):
        where = f"{source}, {_place(mistake['loc'], n_rankers)}"
        if mistake["type"] == "extra_forbidden":
            known = _section_at(mistake["loc"]).model_fields
            lines.append(str(unknown_name("setting", str(mistake["loc"][-1]), known, where)))
        elif mistake["type"] == "missing":
            lines.append(f"{where}: is missing.")
        else:
            told = mistake["msg"].removeprefix("Value error, ").rstrip(".")
            found = (
                "" if isinstance(mistake["input"], dict | list) else f"; found {mistake['input']!r}"
            )
            lines.append(f"{where}: {told[:1].lower()}{told[1:]}{found}.")
    return list(dict.fromkeys(lines))


def _section_at(loc: tuple[int | str, ...]) -> type[BaseModel]:
    """The section that a mistake's key stands in."""
    sections: dict[str, type[BaseModel]] = {
        "data": DataConfig,
        "run": RunConfig,
        "ranker": RankerConfig,
    }
    if "parts" in loc[:-1]:
        return PartsConfig
    return sections.get(str(loc[0]), Config) if len(loc) > 1 else Config


def _place(loc: tuple[int | str, ...], n_rankers: int) -> str:
    """("ranker", 1, "name") as "[ranker 2] name": how a person finds it in the file."""
    head, *rest = loc
    if head == "ranker" and rest and isinstance(rest[0], int):
        head = "ranker" if n_rankers == 1 else f"ranker {rest[0] + 1}"
        rest = rest[1:]
    elif head not in Config.model_fields or head == "name":
        return str(head)
    # pydantic names the branch of a union ("int", "list[...]") as a step of the way; people do not.
    steps = [str(step + 1) if isinstance(step, int) else step for step in rest]
    named = [step for step in steps if step.isidentifier() or step.isdigit()]
    return " ".join([f"[{head}]", *(step for step in named if step not in ("int", "list"))])
