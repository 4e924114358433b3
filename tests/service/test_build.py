"""What bits depend on, and compiled programs that were cut short."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from olrank.service import build
from olrank.service.options import warm_sizes


def test_a_build_is_like_itself_and_differences_are_told():
    here = build.fingerprint()
    assert build.differences(here) == []
    assert build.differences({**here, "jax": "0.0.1"}) == [f"jax: 0.0.1 there, {here['jax']} here"]
    assert {"olrank", "jaxlib", "numpy", "cpu", "xla_flags"} <= here.keys()


def test_programs_that_were_written_half_are_deleted(tmp_path: Path):
    whole = zlib.compress(bytes(range(256)) * 50)
    (tmp_path / "good-cache").write_bytes(whole)
    (tmp_path / "cut-cache").write_bytes(whole[:-7])
    (tmp_path / "empty-cache").write_bytes(b"")
    (tmp_path / "other-cache").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(30))  # zstandard
    (tmp_path / "note").write_bytes(b"?")
    assert build.sweep_cache(tmp_path) == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["good-cache", "note", "other-cache"]
    assert build.sweep_cache(tmp_path / "nowhere") == 0


def test_sizes_to_warm_are_the_compiled_ones_that_fit():
    assert warm_sizes("10,16,17,100") == (16, 32, 100)
    assert warm_sizes("1000") == (1024,)
    with pytest.raises(Exception, match='like "16,100", found "1025"'):
        warm_sizes("1025")
