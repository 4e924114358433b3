"""The page about speed says what the benchmarks wrote."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_page_about_speed_is_not_stale():
    spec = importlib.util.spec_from_file_location("page", ROOT / "benchmarks" / "page.py")
    assert spec is not None
    assert spec.loader is not None
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    assert page.PAGE.read_text() == page.text()
