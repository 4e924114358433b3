"""olrank learns to rank from clicks while it serves.

The public names below are loaded when first used, so that `import olrank` costs nothing and the
core runs on a machine that has only NumPy and JAX:

    olrank.read_letor("train.txt")                judged queries from LETOR text
    olrank.synthetic("small", seed=0)             made-up queries with a known relevance
    olrank.simulate("olranknet", train, test)     learn from simulated clicks, and measure it
    olrank.OnlineRanker(n_features=...)           rank arrays, and learn from real clicks
    olrank.Client("http://127.0.0.1:8000")        ask a service that `olrank serve` started
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from olrank import rankers as rankers
    from olrank.data.groups import read_groups as read_groups
    from olrank.data.letor import read_letor as read_letor
    from olrank.data.normalise import normalise as normalise
    from olrank.data.synthetic import synthetic as synthetic
    from olrank.errors import OlrankError as OlrankError
    from olrank.experiments.running.simulate import simulate as simulate
    from olrank.online import OnlineRanker as OnlineRanker
    from olrank.service.client import Client as Client
    from olrank.types import Dataset as Dataset
    from olrank.types import Fold as Fold
    from olrank.types import Impression as Impression
    from olrank.types import Ranker as Ranker
    from olrank.types import Ranking as Ranking

__version__ = "0.1.0"

_HOMES = {
    "Client": "olrank.service.client",
    "Dataset": "olrank.types",
    "Fold": "olrank.types",
    "Impression": "olrank.types",
    "OlrankError": "olrank.errors",
    "OnlineRanker": "olrank.online",
    "Ranker": "olrank.types",
    "Ranking": "olrank.types",
    "normalise": "olrank.data.normalise",
    "read_groups": "olrank.data.groups",
    "read_letor": "olrank.data.letor",
    "simulate": "olrank.experiments.running.simulate",
    "synthetic": "olrank.data.synthetic",
}

__all__ = sorted([*_HOMES, "__version__", "rankers"])


def __getattr__(name: str) -> Any:
    """Load a public name from its room when it is first asked for."""
    if name == "rankers":
        return importlib.import_module("olrank.rankers")
    if name not in _HOMES:
        raise AttributeError(f"module 'olrank' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
