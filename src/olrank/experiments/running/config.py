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
# per_query = true          # keep every held-out query's last value, in queries.parquet
# taste_changes_after = 500 # from the next round on users and judges want something else
[[ranker]]
name = "olranknet"
preset = "paper"
label = "olRankNet"         # what rows call it; its name unless given
settings = { alpha = 0.1 }
# base = "olRankNet"        # of a variant: the label that tables of effects hold it against
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field, field_validator, model_validator

from olrank.data.synthetic import PRESETS
from olrank.errors import ConfigError, unknown_name
from olrank.experiments.running.simulate import grid
from olrank.experiments.running.toml import Section, as_list, numbered, parse, read_text
from olrank.rankers import table
from olrank.users import presets

Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
Slug = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


class PartsConfig(Section):
    """Files named one by one; a part may be several files."""

    train: Annotated[list[str], Field(min_length=1)]
    validation: list[str] = []
    test: Annotated[list[str], Field(min_length=1)]


class DataConfig(Section):
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


class StageConfig(Section):
    """Who clicks, for how long, and how often it is repeated."""

    users: Annotated[list[str], Field(min_length=1)] = ["perfect"]
    stop: Annotated[list[Literal["clicked", "examined"]], Field(min_length=1)] = ["clicked"]
    rounds: Count = 1000
    seeds: Count | Annotated[list[Seed], Field(min_length=1)] = 5
    seeds_at_once: Count | None = None
    replicas_at_once: Count | None = None

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


class MeasuredConfig(StageConfig):
    """What each ranker goes through, and how it is measured."""

    k: Annotated[int, Field(ge=2)] = 10
    gamma: Annotated[float, Field(gt=0.0, le=1.0)] = 0.9995
    empty: Literal["skip", "zero", "one"] = "skip"


class RunConfig(MeasuredConfig):
    """A run of its own."""

    per_query: bool = False
    taste_changes_after: Count | None = None

    @model_validator(mode="after")
    def _taste_changes_before_the_end(self) -> RunConfig:
        after = self.taste_changes_after
        if after is not None and after >= self.rounds:
            raise ValueError(
                f"taste_changes_after: must be less than the {self.rounds} rounds; found {after}."
            )
        return self


class RankerConfig(Section):
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


class VariantConfig(RankerConfig):
    """A ranker that may differ from another one in one choice."""

    base: str | None = None


_Ranker = TypeVar("_Ranker", bound=RankerConfig)


class Config(Section):
    """A whole experiment."""

    name: Slug
    data: DataConfig
    run: RunConfig = RunConfig()
    ranker: Annotated[list[VariantConfig], BeforeValidator(as_list), Field(min_length=1)]

    @field_validator("ranker")
    @classmethod
    def _labels_differ(cls, rankers: list[VariantConfig]) -> list[VariantConfig]:
        return differ(rankers)

    @field_validator("ranker")
    @classmethod
    def _bases_are_others(cls, rankers: list[VariantConfig]) -> list[VariantConfig]:
        titles = [ranker.title for ranker in rankers]
        for ranker in rankers:
            if ranker.base is not None and ranker.base not in set(titles) - {ranker.title}:
                known = ", ".join(title for title in titles if title != ranker.title)
                raise ValueError(
                    f'base: no other ranker is called "{ranker.base}". Known: {known or "none"}.'
                )
        return rankers


def differ(rankers: list[_Ranker]) -> list[_Ranker]:
    """The rankers, when no two of them are called the same."""
    titles = [ranker.title for ranker in rankers]
    for title in titles:
        if titles.count(title) > 1:
            raise ValueError(f'two rankers are called "{title}". Give each its own label.')
    return rankers


def read_config(path: Path | None = None) -> Config:
    """The config in this TOML file; the embedded default when there is no path."""
    if path is None:
        text = resources.files(__package__).joinpath("default.toml").read_text("utf-8")
        return parse_config(text, "default.toml")
    return parse_config(read_text(path), path.name)


def parse_config(text: str, source: str = "config.toml") -> Config:
    """The config written in this text; `source` is what errors call it."""
    config = parse(Config, text, source)
    check_data(config.data, f"{source}, [data]")
    check_users(config.run, f"{source}, [run]")
    for index, ranker in enumerate(config.ranker):
        check_ranker(ranker, f"{source}, [ranker{numbered(index, len(config.ranker))}]")
    return config


def check_data(data: DataConfig, where: str) -> None:
    """Refuse a made-up set that no table knows."""
    if data.synthetic is not None:
        _known("preset", data.synthetic, PRESETS, f"{where} synthetic")


def check_users(stage: StageConfig, where: str) -> None:
    """Refuse users that no table knows."""
    for user in stage.users:
        _known("user", user, presets.names(), f"{where} users")


def check_ranker(ranker: RankerConfig, where: str) -> None:
    """Refuse names and settings that no table knows, before anything runs."""
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
