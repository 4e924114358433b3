"""What a model's bits depend on besides its log: code, libraries, processor, threads.

Replayed is the same model, bit for bit, on the same build; elsewhere replay says that it cannot
compare. `prepare` must run before JAX computes anything in the process.
"""

from __future__ import annotations

import hashlib
import os
import platform
import zlib
from functools import cache
from importlib import metadata, resources
from pathlib import Path

_ONE_THREAD = (
    "--xla_cpu_multi_thread_eigen=false"  # sums must not depend on how many cores are free
)
_PACKAGES = ("jax", "jaxlib", "numpy")
_LEARNS = (
    "types.py",
    "nets/*.py",
    "explore/*.py",
    "feedback/*.py",
    "rankers/*.py",
    "service/apply.py",
    "service/blueprint.py",
)


def prepare(cache: Path | None = None) -> None:
    """Compute on the processor in one thread, and keep compiled programs in a folder."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    flags = os.environ.get("XLA_FLAGS", "")
    if _ONE_THREAD not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {_ONE_THREAD}".strip()
    if cache is not None:
        sweep_cache(Path(os.environ.get("JAX_COMPILATION_CACHE_DIR", cache)))
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache))
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")


def sweep_cache(folder: Path) -> int:
    """Delete compiled programs that a killed process wrote half of; how many there were.

    JAX does not write them atomically, finds the damage only when it reads one, and then compiles
    anew at every start, because it does not replace the file either.
    """
    n = 0
    for place in folder.glob("*-cache"):
        try:
            zlib.decompress(place.read_bytes())
        except zlib.error as reason:
            if "incorrect header" in str(reason):  # compressed in another way, not half written
                continue
            place.unlink(missing_ok=True)
            n += 1
        except OSError:
            continue
    return n


def fingerprint() -> dict[str, str]:
    """Everything but the log that a model's bits can depend on."""
    found = {name: metadata.version(name) for name in _PACKAGES}
    return {
        **found,
        "olrank": _code(),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu(),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
    }


def differences(recorded: dict[str, str]) -> list[str]:
    """Where this build differs from a recorded one, in words."""
    here = fingerprint()
    return [
        f"{name}: {recorded.get(name)} there, {here.get(name)} here"
        for name in sorted(here.keys() | recorded.keys())
        if here.get(name) != recorded.get(name)
    ]


@cache
def _code() -> str:
    """SHA-256 over the source of everything that learns."""
    root = Path(str(resources.files("olrank")))
    files = [place for room in _LEARNS for place in sorted(root.glob(room))]
    digest = hashlib.sha256()
    for place in files:
        digest.update(place.relative_to(root).as_posix().encode() + b"\0" + place.read_bytes())
    return digest.hexdigest()[:16]


def _cpu() -> str:
    """The processor's features, which decide what instructions are compiled."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text("utf-8", errors="replace").splitlines():
            if line.startswith(("flags", "Features")):
                flags = " ".join(sorted(line.partition(":")[2].split()))
                return hashlib.sha256(flags.encode()).hexdigest()[:16]
    return platform.processor()
