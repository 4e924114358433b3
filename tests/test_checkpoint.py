"""Saved states: bit for bit, and every kind of damage noticed."""

import contextlib
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

from olrank import checkpoint
from olrank.errors import CheckpointError


class Inner(NamedTuple):
    weights: jnp.ndarray
    count: jnp.ndarray


def made(shift=0.0):
    inner = Inner(jnp.arange(6.0).reshape(2, 3) + shift, jnp.asarray(3, jnp.int32))
    return {"inner": inner, "empty": (), "list": (jnp.ones(2, bool), jnp.zeros((0, 4)))}


def saved(folder: Path) -> Path:
    path = folder / "deep" / "state"
    checkpoint.write(path, made(), {"name": "x", "n": 3})
    return path


def test_a_state_comes_back_bit_for_bit_with_its_facts(tmp_path: Path):
    path = saved(tmp_path)
    assert checkpoint.read_facts(path) == {"name": "x", "n": 3}
    back = checkpoint.read(path, made(shift=7.0))
    assert checkpoint.digest(back) == checkpoint.digest(made()) != checkpoint.digest(made(7.0))
    assert isinstance(back["inner"], Inner)
    assert back["inner"].count.dtype == jnp.int32
    assert [file.name for file in path.parent.iterdir()] == ["state"]  # nothing left beside it


def test_a_flipped_bit_anywhere_is_noticed(tmp_path: Path):
    path = saved(tmp_path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.choice(len(whole), size=60, replace=False):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(damaged))
        # Noticed, or a bit that says nothing, such as the header's padding.
        with contextlib.suppress(CheckpointError):
            back = checkpoint.read(path, made())
            assert checkpoint.digest(back) == checkpoint.digest(made())
            assert checkpoint.read_facts(path) == {"name": "x", "n": 3}


@pytest.mark.parametrize("length", [0, 1, 7, 100, -1])
def test_a_truncated_file_is_noticed(tmp_path: Path, length: int):
    path = saved(tmp_path)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(CheckpointError, match="damaged"):
        checkpoint.read(path, made())


def test_a_state_of_another_shape_is_refused_by_name(tmp_path: Path):
    path = saved(tmp_path)
    other = {**made(), "inner": Inner(jnp.zeros((3, 3)), jnp.asarray(3, jnp.int32))}
    with pytest.raises(CheckpointError, match=r"inner\.weights does not fit .*\(3, 3\).*\(2, 3\)"):
        checkpoint.read(path, other)


def test_what_is_no_checkpoint_is_refused(tmp_path: Path):
    with pytest.raises(CheckpointError, match="no such file"):
        checkpoint.read_facts(tmp_path / "nothing")
    from safetensors.numpy import save_file

    save_file({"a": np.zeros(2)}, tmp_path / "foreign")
    with pytest.raises(CheckpointError, match="expected format"):
        checkpoint.read_facts(tmp_path / "foreign")
