"""One ranker as the HTTP process sees it: from a request's bytes to the record of its answer."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from olrank.errors import ConfigError
from olrank.service import blueprint as blueprints
from olrank.service import live
from olrank.service.intake import Intake, take_in
from olrank.service.problems import warming
from olrank.service.records import RankerRow, RankingEntry
from olrank.service.schema import RankRequest
from olrank.service.telemetry import Drift


@dataclass
class LiveRanker:
    """A ranker that can be asked for lists.

    Attributes:
        name: of the ranker.
        birth: position of its create record.
        blueprint: as configured.
        switches: explore, learn, serve.
        serving: what the learner published last; None before that.
        n_trained: impressions that it was trained on.
        position: of the last record that is in the published state.
        switched: the position of the record that last set each switch.
        compiled: (mode, size) that are ready to run.
        warm: whether all shapes that must be ready are.
        problem: why it does not learn any more; None when all is well.
        drift: of the features as they are sent.
    """

    name: str
    birth: int
    blueprint: blueprints.Blueprint
    switches: dict[str, bool]
    serving: live.Serving | None = None
    n_trained: int = 0
    position: int = 0
    switched: dict[str, int] = field(default_factory=dict)
    compiled: set[tuple[str, int]] = field(default_factory=set)
    warm: bool = False
    problem: str | None = None
    drift: Drift = field(default_factory=lambda: Drift(1))
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, row: RankerRow) -> LiveRanker:
        """A ranker of the log, with nothing published yet."""
        blueprint = blueprints.make(row.config)
        switches = {"explore": row.explore, "learn": row.learn, "serve": row.serve}
        drift = Drift(blueprint.n_features)
        return cls(row.name, row.birth, blueprint, switches, drift=drift)

    @property
    def state(self) -> str:
        """A word for a person."""
        if self.problem is not None:
            return "broken"
        return "ready" if self.warm and self.serving is not None else "warming"

    def publish(self, leaves: list[Any], version: int) -> None:
        """Serve this state from now on."""
        like = blueprints.serving_part(self.blueprint.shape)
        state = jax.tree.unflatten(jax.tree.structure(like), jax.device_put(leaves))
        self.serving = live.Serving(state, version)

    def set_switches(self, switches: Mapping[str, bool], position: int) -> None:
        """Take over what a switch record says, unless a later record has said otherwise."""
        with self.lock:
            for name, value in switches.items():
                if position > self.switched.get(name, 0):
                    self.switches[name], self.switched[name] = value, position

    def is_compiled(self, request: RankRequest) -> bool:
        """Whether the request can be answered without a compiler."""
        mode = self.mode(request.baseline_order is not None)
        return (mode, live.padded_size(len(request.candidates))) in self.compiled

    def mode(self, has_baseline: bool) -> str:
        """How the next list is drawn."""
        if not self.switches["serve"]:
            return "shadow"
        if has_baseline:
            return "floor"
        return "explore" if self.switches["explore"] else "greedy"

    def warm_up(self, size: int, mode: str) -> None:
        """Compile one shape, unless it is."""
        if self.serving is None or (mode == "floor" and not self.has_floor):
            return
        live.warm(self.blueprint, self.serving, size, mode)
        self.compiled.add((mode, size))

    @property
    def has_floor(self) -> bool:
        """Whether a baseline_order can be kept: certain orders are known, and drawn from."""
        design = self.blueprint.design
        return design is not None and design.order == "topological" and self.learns_from("floor")

    def learns_from(self, mode: str) -> bool:
        """Whether lists of this mode teach the ranker anything."""
        return mode == "explore" or self.blueprint.learns_from_others

    def entry(self, request: RankRequest, secret: bytes) -> RankingEntry:
        """Draw a list and everything that is stored of it."""
        serving = self.serving
        if serving is None:
            raise warming(self.name)
        mode = self.mode(request.baseline_order is not None)
        if mode == "floor" and not self.has_floor:
            raise ConfigError(
                f"baseline_order: ranker {self.name} cannot keep it, because its algorithm does "
                "not tell which orders it is certain of, or weighs pairs by swaps. Use olranknet, "
                'ollambdarank, olcascade or pairrank with order = "topological" and, where it has '
                'them, pair_weights = "none".'
            )
        intake = take_in(self.blueprint, request)
        ranking_id = request.ranking_id or secrets.token_hex(16)
        key = live.ranking_key(secret, self.name, self.birth, serving.version, ranking_id)
        share = self._share(request)
        drawn = live.draw(self.blueprint, serving, key, mode, intake.rows, intake.ranks, share)
        self.compiled.add((mode, live.padded_size(len(intake.ids))))
        with self.lock:
            self.drift.see(intake.raw)
        answer = _answer(ranking_id, mode, intake, drawn)
        return RankingEntry(
            ranker=self.name,
            birth=self.birth,
            ranking_id=ranking_id,
            digest=intake.digest,
            shown=[intake.ids[i] for i in drawn.order],
            header={
                "answer": answer,
                "ids": intake.ids,
                "query": request.query,
                "explore_share": share if mode == "floor" else None,
                "trains": self.learns_from(mode),
            },
            arrays=self._arrays(intake, drawn, key),
        )

    def _share(self, request: RankRequest) -> float:
        if not self.switches["explore"]:
            return 0.0
        given = request.explore_share
        return float(self.blueprint.config["explore_share"] if given is None else given)

    def _arrays(self, intake: Intake, drawn: live.Drawn, key: bytes) -> dict[str, Any]:
        arrays: dict[str, Any] = {
            "features": intake.rows[drawn.order],
            "order": drawn.order,
            "rest": drawn.rest,
            "scores": drawn.scores,
            "choices": drawn.choices,
            "certain": drawn.certain,
            "log_p": np.asarray(drawn.log_p, np.float32),
            **{f"memo.{i:03d}": leaf for i, leaf in enumerate(drawn.memo)},
        }
        # The key's other bytes are a coin that nobody can steer either.
        coin = int.from_bytes(key[8:16], "big") / 2**64
        if coin < self.blueprint.config["keep_candidates"]:
            arrays["candidates"] = intake.rows
        return arrays


def _answer(ranking_id: str, mode: str, intake: Intake, drawn: live.Drawn) -> dict[str, Any]:
    n = len(drawn.order)
    certain = int(np.sum(drawn.certain))
    return {
        "ranking_id": ranking_id,
        "items": [
            {"id": intake.ids[i], "slot": slot, "score": float(drawn.scores[i])}
            for slot, i in enumerate(drawn.order)
        ],
        "choices": drawn.choices.tolist(),
        "log_propensity": drawn.log_p,
        "certain_pairs": certain,
        "uncertain_pairs": n * (n - 1) // 2 - certain,
        "n_candidates": len(intake.ids),
        "model_version": drawn.version,
        "mode": mode,
    }
