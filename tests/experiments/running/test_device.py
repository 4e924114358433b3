import os
import sys
import time
import zlib
from pathlib import Path

import jax
import pytest

from olrank.errors import ConfigError
from olrank.experiments.running import device


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where compiled programs would go; JAX is not told of it."""
    monkeypatch.setenv("OLRANK_CACHE", str(tmp_path))
    told: dict[str, object] = {}
    monkeypatch.setattr(device, "_configure", told.__setitem__)
    made = device.keep_compiled()
    assert made is not None
    assert told["jax_compilation_cache_dir"] == str(made)
    return made


def test_devices_say_what_jax_sees_and_how_to_get_a_gpu():
    first, *rest = device.devices()
    assert first.startswith("cpu 0: ")
    assert any('pip install "jax[cuda' in line for line in rest)


def test_jax_s_own_choice_is_left_alone_and_the_processor_can_be_asked_for(monkeypatch):
    told: dict[str, object] = {}
    monkeypatch.setattr(device, "_configure", told.__setitem__)
    assert device.use_device(None) == jax.default_backend()
    assert told == {}
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    assert device.use_device("cpu") == "cpu"
    assert told == {"jax_platforms": "cpu"}


def test_a_gpu_that_is_not_there_is_refused_with_the_way_to_get_one(monkeypatch):
    monkeypatch.setattr(device, "_configure", lambda option, value: None)
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    with pytest.raises(ConfigError, match=r'JAX computes on cpu(.|\n)*pip install "jax\[cuda'):
        device.use_device("gpu")


def test_a_gpu_is_used_also_where_the_environment_hides_it(monkeypatch):
    told: dict[str, object] = {}
    monkeypatch.setattr(device, "_configure", told.__setitem__)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert device.use_device("gpu") == "gpu"
    assert told == {"jax_platforms": None}


def test_a_device_cannot_be_chosen_after_jax_has_started_on_another(monkeypatch):
    monkeypatch.setattr(device, "_configure", lambda option, value: None)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    with pytest.raises(ConfigError, match="JAX has started already"):
        device.use_device("cpu")


def test_an_entry_that_was_cut_by_a_kill_is_dropped_and_whole_ones_stay(folder: Path):
    whole = zlib.compress(bytes(range(256)) * 50)
    (folder / "whole-cache").write_bytes(whole)
    (folder / "cut-cache").write_bytes(whole[:-9])
    (folder / "empty-cache").write_bytes(b"")
    (folder / "zstd-cache").write_bytes(b"\x28\xb5\x2f\xfd....")
    device.keep_compiled()
    assert sorted(file.name for file in folder.glob("*-cache")) == ["whole-cache", "zstd-cache"]


def test_an_entry_is_looked_at_once_and_deleted_when_it_is_months_old(folder: Path):
    for name, age_s in (("known-cache", 3600), ("old-cache", 61 * 24 * 3600)):
        (folder / name).write_bytes(b"not a compressed program")
        os.utime(folder / name, (time.time() - age_s, time.time() - age_s))
    device.keep_compiled()
    assert [file.name for file in folder.glob("*-cache")] == ["known-cache"]


def test_a_folder_that_was_given_to_jax_is_left_to_it(monkeypatch, tmp_path: Path):
    monkeypatch.setattr(device, "_configure", lambda option, value: pytest.fail(option))
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    try:
        assert device.keep_compiled() == tmp_path
    finally:
        jax.config.update("jax_compilation_cache_dir", None)


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX paths")
def test_a_folder_that_cannot_be_made_is_done_without(monkeypatch, tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("OLRANK_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(device, "_configure", lambda option, value: pytest.fail(option))
    assert device.keep_compiled() is None
