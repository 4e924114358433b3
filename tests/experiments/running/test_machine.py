import platform

import olrank
from olrank.experiments.running.machine import code_checksum, machine, versions


def test_versions_name_olrank_python_and_what_can_move_a_number():
    found = versions()
    assert found["olrank"] == olrank.__version__
    assert found["python"] == platform.python_version()
    assert {"jax", "jaxlib", "numpy"} <= set(found)


def test_the_code_has_one_checksum():
    assert code_checksum() == code_checksum() == versions()["olrank_code"]
    assert len(code_checksum()) == 64


def test_the_machine_says_what_jax_computes_on():
    found = machine()
    assert found["cores"] >= 1
    assert found["cpu"]
    assert found["device"] in ("cpu", "gpu", "tpu")
