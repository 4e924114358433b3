"""What can be said of a cluster without one; tests/experiments/test_spread.py starts Ray."""

import os
import socket
import sys

import pytest

from olrank.engine import cluster
from olrank.errors import ClusterError, ConfigError


@pytest.mark.parametrize(
    ("gpus", "asked", "kind"),
    [(0, None, "cpu"), (0, "cpu", "cpu"), (2, None, "gpu"), (2, "cpu", "cpu"), (2, "gpu", "gpu")],
)
def test_workers_are_of_one_kind_and_gpus_are_used_where_there_are_any(gpus, asked, kind):
    assert cluster._kind({"CPU": 8.0, "GPU": float(gpus)}, "here", asked) == kind


def test_gpus_that_no_worker_has_are_refused():
    with pytest.raises(ConfigError, match=r"cluster here: no worker has a GPU.*--device cpu"):
        cluster._kind({"CPU": 8.0}, "here", "gpu")


def test_a_job_that_always_loses_its_worker_is_given_up():
    for n_lost in range(1, cluster._TRIES):
        cluster._check_patience(n_lost, "out of memory")
    with pytest.raises(ClusterError, match=r"lost its worker 4 times(.|\n)*out of memory"):
        cluster._check_patience(cluster._TRIES, "out of memory")


def test_an_address_where_nobody_listens_is_refused_at_once():
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can take the port
        address = f"127.0.0.1:{busy.getsockname()[1]}"
        for given in (address, f"ray://{address}"):
            with pytest.raises(OSError, match="refused"):
                cluster._knock(given)
    for without_a_port in ("local", "auto"):
        cluster._knock(without_a_port)


def test_ray_is_told_to_report_nothing_and_a_local_one_gets_a_secret(monkeypatch):
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "1")
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    with cluster._environment("local"):
        assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
        assert os.environ["RAY_AUTH_MODE"] == "token"
        first = os.environ["RAY_AUTH_TOKEN"]
    with cluster._environment("local"):
        assert os.environ["RAY_AUTH_TOKEN"] != first
    with cluster._environment("host:6379"):
        assert "RAY_AUTH_TOKEN" not in os.environ  # that cluster has its own
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "1"


def test_a_cluster_needs_ray(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(ConfigError, match=r'pip install "olrank\[cluster\]"'),
        cluster.connect("local"),
    ):
        pass


def test_the_board_keeps_the_last_word_on_each_job_until_it_is_read():
    board = cluster._Board()
    board.tell(0, 1, 10)
    board.tell(1, 2, 10)
    board.tell(0, 3, 10)
    assert board.take() == {0: (3, 10), 1: (2, 10)}
    assert board.take() == {}
