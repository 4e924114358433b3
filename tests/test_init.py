import subprocess
import sys

import pytest

import olrank


def test_importing_olrank_loads_nothing_heavy():
    code = (
        "import sys, olrank; "
        "print(*sorted({'jax', 'numpy', 'polars', 'scipy', 'pydantic'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == ""


@pytest.mark.parametrize("name", olrank.__all__)
def test_every_public_name_can_be_loaded(name: str):
    assert getattr(olrank, name) is not None
    assert name in dir(olrank)


def test_a_name_that_is_not_public_is_refused():
    with pytest.raises(AttributeError, match="no attribute 'sumilate'"):
        _ = olrank.sumilate
