"""The README's ten lines against the real service: rank, click, and see the order change."""

import re
from pathlib import Path

import pytest
from service.running import Command

import olrank

README = (Path(__file__).parent.parent.parent / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)
LIVE = [block for block in BLOCKS if "olrank.Client(" in block]


def test_the_ten_lines_of_the_readme_change_the_order(tmp_path: Path):
    (block,) = LIVE
    assert len([line for line in block.splitlines() if line.strip()]) <= 12
    with Command(tmp_path) as command:
        text = block.replace(":8000", f":{command.port}")
        assert text != block
        found: dict[str, object] = {"__name__": "readme"}
        try:
            exec(compile(text, "README.md", "exec"), found)
        finally:
            assert isinstance(found["client"], olrank.Client)
            found["client"].close()
    best = found["best"]
    assert isinstance(best, list)
    assert set(best[:2]) == {"shoe 3", "shoe 7"}


@pytest.mark.parametrize("option", ["--data", "--keep-days"])
def test_the_options_that_the_readme_names_exist(option: str):
    from service.running import run_olrank

    assert option in README
    assert option in run_olrank("serve", "--help").stdout
