import platform

import olrank
from olrank.experiments.running.machine import code_checksum, machine, processor, versions


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
    assert found["cpu_kind"] == processor()


def test_processors_of_one_name_are_told_apart_by_what_they_can_do(tmp_path):
    """A line a core; what changes while it runs says nothing of the kind."""

    def kind(flags, mhz="cpu MHz : 2400"):
        info = tmp_path / "cpuinfo"
        info.write_text(f"model name : Some CPU\n{mhz}\nflags : {flags}\n" * 2)
        return processor(info)

    assert kind("sse avx2") != kind("sse avx2 avx512f")
    assert kind("sse avx2") == kind("sse avx2", "cpu MHz : 3100")
