"""Keeping house: old snapshots and covered records go, and the model stays what it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from service.running import Service, candidates, wait_for

from olrank.errors import ServiceError
from olrank.service.options import LearnerOptions, Retention
from olrank.service.replay import replay
from olrank.service.retention import keep_house

EAGER = LearnerOptions(tick_s=0.02, gather_s=0.02, snapshot_every=3)


def test_a_young_ranker_keeps_its_whole_log_and_three_automatic_snapshots(tmp_path: Path):
    with Service(tmp_path, learner=EAGER) as service:
        service.create("a")
        asked = service.client.take_snapshot("a")["snapshot_id"]
        for seed in range(5):
            service.teach("a", 3, seed)

        def is_tidy() -> bool:
            kept = service.client.snapshots("a")
            files = {place.stem for place in (tmp_path / "snapshots").glob("*/*")}
            policy = [one["n_trained"] for one in kept if one["reason"] == "policy"]
            return (
                len(policy) == 3
                and policy[-1] == 15
                and files == {one["snapshot_id"] for one in kept}
                and asked in files
            )

        wait_for(is_tidy)
        assert service.runtime.log.rankers()[0].compacted == 0
        (whole,) = replay(tmp_path, from_start=True)
        assert (whole.agrees, whole.notes) == (True, ())


def automatic(service: Service) -> list[str]:
    found = service.client.snapshots("a")
    return [one["snapshot_id"] for one in found if one["reason"] == "policy"]


def test_old_records_go_and_the_model_can_still_be_replayed(tmp_path: Path):
    with Service(tmp_path, learner=EAGER, retention=Retention(1, records_s=3600)) as service:
        service.create("a", "olranknet")
        first = service.client.rank("a", candidates([[0.1, 0.2, 0.3]] * 2))
        service.client.feedback("a", first, close=True)
        service.teach("a", 6)
        still_open = service.client.rank("a", candidates([[0.1, 0.2, 0.3]] * 2))
        wait_for(lambda: len(automatic(service)) == 1)
        promoted = service.client.take_snapshot("a")
        log = service.runtime.log
        n_before = len(log.read(0, 10_000))
        assert keep_house(log, tmp_path, Retention(1, records_s=0)) > 10
        assert len(log.read(0, 10_000)) < n_before
        log.verify()
        with pytest.raises(ServiceError, match="404 unknown_ranking"):
            service.client.ranking("a", first["ranking_id"])
        assert service.client.ranking("a", still_open["ranking_id"])["n_candidates"] == 2
        assert service.client.feedback("a", first) == "unknown_ranking"
        service.teach("a", 2, seed=4)
        digest = service.client.take_snapshot("a")["digest"]
        (rebuilt,) = replay(tmp_path, from_start=True)
        assert rebuilt.digest == digest
        assert "compacted" in rebuilt.notes[0]
        service.client.promote("a", promoted["snapshot_id"])
        assert service.client.take_snapshot("a")["digest"] == promoted["digest"]


def test_a_deleted_rankers_data_goes(tmp_path: Path):
    with Service(tmp_path) as service:
        service.create("secretive")
        service.client.rank("secretive", candidates([[0.1, 0.2, 0.3]] * 2), query="a secret query")
        service.client.take_snapshot("secretive")
        birth = service.runtime.find("secretive").birth
        service.client.delete("secretive")
        wait_for(lambda: not (tmp_path / "snapshots" / str(birth)).exists())
        wait_for(lambda: not service.runtime.log.read(0, 1000, "secretive"))
    everything = b"".join(p.read_bytes() for p in tmp_path.glob("log.db*"))
    assert b"a secret query" not in everything
