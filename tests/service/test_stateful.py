"""Any order of creating, ranking, clicking, closing, promoting and crashing, beside a simple model.

One real service runs for all examples; every example has a ranker of its own in it, and any step
may kill the service or its learner with SIGKILL.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from service.running import SETTINGS, SMALL, Command, D, candidates, run_olrank, wait_for
from service.test_serve import learner_of

EXAMPLES = int(os.environ.get("OLRANK_STATEFUL_EXAMPLES", "3"))


@dataclass
class Seen:
    """A ranking as the simple model knows it."""

    body: list[dict[str, Any]]
    answer: dict[str, Any]
    events: dict[str, dict[str, Any]] = field(default_factory=dict)
    accepted: int = 0
    closed: bool = False


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Command]:
    with Command(tmp_path_factory.mktemp("stateful")) as one:
        yield one


def machine_of(command: Command) -> type[RuleBasedStateMachine]:
    class Machine(RuleBasedStateMachine):
        numbers = iter(range(10_000))

        @initialize(algorithm=st.sampled_from(["olranknet", "pdgd-linear"]))
        def create(self, algorithm: str) -> None:
            self.client = command.client
            self.name = f"m{next(self.numbers)}"
            self.rankings: dict[str, Seen] = {}
            self.learns, self.n_trained = True, 0
            self.snapshots: dict[str, str] = {}
            given = {"settings": SETTINGS[algorithm], **SMALL}
            self.client.create(self.name, D, algorithm=algorithm, **given)
            self.client.wait_until_ready()

        @rule(seed=st.integers(0, 99))
        def rank(self, seed: int) -> None:
            body = candidates(np.random.default_rng(seed).random((6, D)))
            ranking_id = f"r{len(self.rankings)}"
            answer = self.client.rank(self.name, body, ranking_id=ranking_id)
            self.rankings[ranking_id] = Seen(body, answer)

        @precondition(lambda self: self.rankings)
        @rule(pick=st.integers(0, 99))
        def rank_again(self, pick: int) -> None:
            ranking_id, seen = self.one(pick)
            again = self.client.rank(self.name, seen.body, ranking_id=ranking_id)
            assert again == seen.answer

        @precondition(lambda self: self.rankings)
        @rule(pick=st.integers(0, 99), slot=st.integers(0, 3), close=st.booleans())
        def click(self, pick: int, slot: int, close: bool) -> None:
            ranking_id, seen = self.one(pick)
            event = {
                "ranking_id": ranking_id,
                "event_id": f"e{len(seen.events)}",
                "clicks": [{"id": seen.answer["items"][slot]["id"], "weight": 1.0}],
                "shown_upto": None,
                "close": close,
            }
            status = self.client.send_events(self.name, [event])[0]["status"]
            if seen.closed:
                assert status == "late"
                return
            # A lost answer is asked for again, so a crash turns a first answer into a second.
            assert status in ("accepted" if self.learns else "paused", "duplicate")
            seen.events[event["event_id"]] = event
            seen.accepted += self.learns
            if close:
                wait_for(lambda: self.client.ranking(self.name, ranking_id)["closed"])
                seen.closed = True
                self.n_trained += self.learns and seen.accepted > 0
                assert self.client.ranking(self.name, ranking_id)["events"] == len(seen.events)

        @precondition(lambda self: any(seen.events for seen in self.rankings.values()))
        @rule(pick=st.integers(0, 99), other=st.booleans())
        def click_again(self, pick: int, other: bool) -> None:
            known = [event for seen in self.rankings.values() for event in seen.events.values()]
            event = dict(known[pick % len(known)])
            if other:
                event["clicks"] = []
            status = self.client.send_events(self.name, [event])[0]["status"]
            assert status == ("conflict" if other else "duplicate")

        @rule(on=st.booleans())
        def switch_learning(self, on: bool) -> None:
            assert self.client.switch(self.name, learn=on)["learn"] == on
            self.learns = on

        @rule()
        def take_snapshot(self) -> None:
            taken = self.client.take_snapshot(self.name)
            assert taken["n_trained"] == self.n_trained
            self.snapshots[taken["snapshot_id"]] = taken["digest"]

        @precondition(lambda self: self.snapshots)
        @rule(pick=st.integers(0, 99))
        def promote(self, pick: int) -> None:
            snapshot_id = list(self.snapshots)[pick % len(self.snapshots)]
            assert self.client.promote(self.name, snapshot_id)["serving"]
            assert self.client.take_snapshot(self.name)["digest"] == self.snapshots[snapshot_id]

        @rule()
        def kill_the_learner(self) -> None:
            os.kill(learner_of(command), signal.SIGKILL)

        @rule()
        def kill_everything(self) -> None:
            command.kill()
            command.start()
            self.client.wait_until_ready()
            for ranking_id, seen in self.rankings.items():
                stored = self.client.ranking(self.name, ranking_id)
                assert stored["items"][:4] == seen.answer["items"]
                assert (stored["closed"], stored["events"]) == (seen.closed, len(seen.events))

        def one(self, pick: int) -> tuple[str, Seen]:
            ranking_id = list(self.rankings)[pick % len(self.rankings)]
            return ranking_id, self.rankings[ranking_id]

        def teardown(self) -> None:
            if not hasattr(self, "name"):
                return
            wait_for(lambda: self.client.ranker(self.name)["n_trained"] >= self.n_trained)
            final = self.client.take_snapshot(self.name)
            assert final["n_trained"] == self.n_trained
            done = run_olrank("replay", self.name, "--data", str(command.folder))
            assert final["digest"] in done.stdout, done.stderr
            self.client.delete(self.name)

    return Machine


def test_a_simple_model_predicts_the_service_through_any_crash(command: Command):
    run_state_machine_as_test(
        machine_of(command),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=12,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],  # shrinking would start a service for every attempt
            suppress_health_check=list(HealthCheck),
        ),
    )
