"""The real processes: started, stopped, killed, started again; the model is what its log says."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
from service.running import SETTINGS, SMALL, Command, D, candidates, run_olrank, wait_for

from olrank.service.records import Kind
from olrank.service.sqlite import SqliteReader

RNG = np.random.default_rng(0)


def create(command: Command, name: str = "a", algorithm: str = "olranknet", **more) -> None:
    settings = {"settings": SETTINGS[algorithm], **SMALL, **more}
    command.client.create(name, D, algorithm=algorithm, **settings)
    command.client.wait_until_ready()


def live_with(command: Command, rounds: int, name: str = "a") -> list[str]:
    """Serve and click; the ids of the rankings whose closing event was acknowledged."""
    acknowledged = []
    for _ in range(rounds):
        x = RNG.random((8, D))
        ranking = command.client.rank(name, candidates(x))
        clicks = [i["id"] for i in ranking["items"] if x[int(i["id"][1:]), 0] > 0.6]
        status = command.client.feedback(name, ranking, clicks, close=True)
        assert status in ("accepted", "duplicate")
        acknowledged.append(ranking["ranking_id"])
    return acknowledged


def trained(command: Command, n: int, name: str = "a") -> None:
    wait_for(lambda: command.client.ranker(name)["n_trained"] >= n)


def replayed(folder: Path, *more: str) -> tuple[str, str]:
    """(digest, the whole line) of ranker a."""
    done = run_olrank("replay", "a", "--data", str(folder), *more)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[1], done.stdout


def test_stopped_and_started_again_the_model_is_the_same_to_the_bit(tmp_path: Path):
    with Command(tmp_path) as command:
        create(command)
        live_with(command, 12)
        trained(command, 12)
        before = command.client.take_snapshot("a")["digest"]
        live_with(command, 5)
        trained(command, 17)
        assert command.stop() == 0
        digest, line = replayed(tmp_path)  # from the first record
        assert digest != before
        assert "the same to the bit as snapshot" in line
        assert replayed(tmp_path, "--from-snapshot")[0] == digest
        command.start()
        command.client.wait_until_ready()
        assert command.client.ranker("a")["n_trained"] == 17
        assert command.client.take_snapshot("a")["digest"] == digest
        live_with(command, 3)
        trained(command, 20)
        command.kill()
        assert replayed(tmp_path)[0] != digest


def test_killed_under_traffic_it_loses_nothing_and_learns_nothing_twice(tmp_path: Path):
    with Command(tmp_path) as command:
        create(command)
        acknowledged = live_with(command, 6)
        for _ in range(3):
            command.kill()
            command.start()
            command.client.wait_until_ready()
            acknowledged += live_with(command, 4)
        trained(command, len(acknowledged))
        final = command.client.take_snapshot("a")
        assert final["n_trained"] == len(acknowledged) == 18
        assert replayed(tmp_path)[0] == final["digest"]
        reader = SqliteReader(tmp_path)
        closes = [r.header["ranking_id"] for r in reader.read(0, 10_000) if r.kind is Kind.CLOSE]
        reader.verify()
        reader.close()
        assert sorted(closes) == sorted(acknowledged)


def test_without_its_learner_the_service_serves_on_and_gets_a_new_one(tmp_path: Path):
    with Command(tmp_path) as command:
        create(command)
        live_with(command, 3)
        for _ in range(2):
            os.kill(learner_of(command), signal.SIGKILL)
            live_with(command, 3)
        trained(command, 9)
        digest = command.client.take_snapshot("a")["digest"]
        assert replayed(tmp_path)[0] == digest


def learner_of(command: Command) -> int:
    """The process id of the one learner."""
    found: list[int] = []

    def look() -> bool:
        listed = Path(f"/proc/{command.process.pid}/task/{command.process.pid}/children")
        tasks = Path(f"/proc/{command.process.pid}/task").glob("*/children")
        texts = [file.read_text() for file in tasks] if listed.exists() else []
        found[:] = [int(pid) for text in texts for pid in text.split()]
        return len(found) == 1

    wait_for(look)
    return found[0]


def test_it_refuses_to_listen_to_strangers_without_keys(tmp_path: Path):
    done = run_olrank("serve", "--host", "0.0.0.0", "--data", str(tmp_path))
    assert done.returncode == 2
    assert "olrank keys add" in done.stderr
    made = run_olrank("keys", "add", "--scope", "rank", "--name", "shop", "--data", str(tmp_path))
    assert made.stdout.startswith("olr_")
    listed = run_olrank("keys", "list", "--data", str(tmp_path)).stdout
    assert "shop" in listed
    assert made.stdout.strip() not in listed


def test_two_services_do_not_share_a_folder(tmp_path: Path):
    with Command(tmp_path):
        done = run_olrank("serve", "--port", "0", "--data", str(tmp_path))
    assert done.returncode == 2
    assert "olrank:" in done.stderr
    assert "Traceback" not in done.stderr


def test_logs_are_lines_of_json(tmp_path: Path):
    with Command(tmp_path, "--log-level", "info") as command:
        create(command, algorithm="pairrank")
        live_with(command, 1)
        assert command.stop() == 0
        assert command.process.stderr is not None
        lines = [json.loads(line) for line in command.process.stderr.read().splitlines()]
    routes = {line.get("route") for line in lines}
    assert "/v1/rankers/{name}/rank" in routes
    assert all({"at", "level", "message"} <= line.keys() for line in lines)
    assert any(line["message"] == "a ranker is ready" for line in lines)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("replay", "--data", "nowhere"), "there is no such folder"),
        (("serve", "--warm", "5000"), "expected numbers of candidates up to 1024"),
    ],
)
def test_mistakes_on_the_command_line_are_told(arguments, complaint: str, tmp_path: Path):
    done = run_olrank(*arguments)
    assert done.returncode == 2
    assert complaint in done.stderr
