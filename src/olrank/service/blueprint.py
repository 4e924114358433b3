"""One ranker's configuration, and the pure functions and shapes that follow from it.

The configuration stands in the ranker's create record with every setting spelled out, so that a
later olrank with other defaults replays the same model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from olrank.errors import ConfigError
from olrank.rankers import table
from olrank.types import PyTree, Ranker

NORMALISATIONS = ("query", "unit", "none")

State = dict[str, Any]
"""Everything a model knows: the ranker's state, the ring of feature rows, the count learned."""


@dataclass(frozen=True)
class Blueprint:
    """A ranker as configured.

    Attributes:
        config: as in the create record.
        ranker: its four pure functions.
        numbers: numeric settings for `init`.
        design: its design where it tells which orders it is certain of, else None.
        learns_from_others: also from lists that it did not draw itself.
    """

    config: Mapping[str, Any]
    ranker: Ranker
    numbers: PyTree
    design: Any
    learns_from_others: bool

    @property
    def k(self) -> int:
        """Slots of a list."""
        return int(self.config["k"])

    @property
    def n_features(self) -> int:
        """Features of a candidate."""
        return int(self.config["n_features"])

    @property
    def seed(self) -> int:
        """Of the initial parameters and of what is drawn while learning."""
        return int(self.config["seed"])

    @cached_property
    def feature_names(self) -> list[str]:
        """Names for messages; numbers where the ranker was created with a count."""
        named = self.config["features"]
        return list(named) if named else [str(i) for i in range(self.n_features)]

    def init(self) -> State:
        """A model that has learned nothing."""
        key = jax.random.fold_in(jax.random.key(self.seed), 0)
        state = self.ranker.init(key, self.n_features, self.numbers)
        history = getattr(state, "history", None)
        # One place more than the history holds: rows that turn out to teach nothing fill it.
        n_places = 1 if history is None else history.rows.shape[0] + 1
        dtype = jnp.result_type(float)
        return {
            "ranker": state,
            "rows": jnp.zeros((n_places * self.k, self.n_features), dtype),
            "n_learned": jnp.zeros((), jnp.int32),
        }

    @cached_property
    def shape(self) -> State:
        """The shapes and dtypes of a state, without its memory."""
        shape: State = jax.eval_shape(self.init)
        return shape

    @cached_property
    def like(self) -> State:
        """A state of zeros that takes no memory, to read a saved one into."""
        found: State = jax.tree.map(
            lambda leaf: np.broadcast_to(np.zeros((), leaf.dtype), leaf.shape), self.shape
        )
        return found

    @cached_property
    def size_bytes(self) -> int:
        """The memory that a state takes."""
        leaves = jax.tree.leaves(self.shape)
        return sum(int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in leaves)

    @cached_property
    def memo(self) -> PyTree:
        """A blank memo, with the shapes of those that come with the ranker's own lists."""

        def drawn(state: PyTree) -> Any:
            rows = jnp.zeros((self.k, self.n_features), jnp.result_type(float))
            mask = jnp.ones(self.k, bool)
            return self.ranker.rank(state, jax.random.key(0), rows, mask, self.k).memo

        shapes = jax.eval_shape(drawn, self.shape["ranker"])
        return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)


def serving_part(state: State) -> PyTree:
    """What ranking needs of a state: all but the history, which only learning reads."""
    ranker = state["ranker"]
    return ranker._replace(history=()) if hasattr(ranker, "history") else ranker


def make(config: Mapping[str, Any]) -> Blueprint:
    """The functions and shapes of a stored configuration."""
    made = table.make(config["algorithm"], {**config["settings"], "k": config["k"]})
    entry = made.entry
    design = entry.design(**{key: made.settings[key] for key in entry.design._fields})
    # Swap weights belong to the draw that showed the list; other lists have none.
    swaps = made.settings.get("pair_weights", "none") == "swap"
    return Blueprint(
        config=config,
        ranker=made.ranker,
        numbers=made.numbers,
        design=design if entry.knows_certainty else None,
        learns_from_others=entry.learns_from_others and not swaps,
    )


def resolve(
    *,
    algorithm: str,
    settings: Mapping[str, Any],
    k: int,
    history: int,
    features: int | list[tuple[str, float | None]],
    **rest: Any,
) -> dict[str, Any]:
    """The configuration to store: every setting in force, spelled out.

    Args:
        algorithm: a name of the table.
        settings: of the algorithm; "preset" picks a named set.
        k: slots of a list.
        history: impressions remembered, where the algorithm remembers any.
        features: how many, or each one's name and its value where missing (None: required).
        rest: what the service itself reads; stored as it is.
    """
    entry = table.entry(algorithm)
    if entry.sees_grades:
        raise ConfigError(
            f"ranker {algorithm}: it learns from judged grades, not from clicks. Choose another."
        )
    for name in ("k", "history"):
        if name in settings:
            raise ConfigError(f'settings, {name}: give "{name}" beside the settings, not in them.')
    remembers = {"history": history} if "history" in entry.design._fields else {}
    given = {**settings, **remembers, "k": k}
    in_force = dict(table.make(algorithm, given).settings)
    in_force.pop("k")
    names = None if isinstance(features, int) else [name for name, _ in features]
    defaults = None if isinstance(features, int) else [value for _, value in features]
    if names is not None and len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f'features: "{twice}" comes twice. Give every feature its own name.')
    return {
        "algorithm": algorithm,
        "settings": in_force,
        "k": k,
        "n_features": features if isinstance(features, int) else len(features),
        "features": names,
        "defaults": defaults,
        **rest,
    }
