"""What the tests that start processes share."""

from pathlib import Path

import pytest
from experiments.running.processes import end_run, start_run


@pytest.fixture(scope="session")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with trial.toml, what one undisturbed run of it left in `whole`, and its cache."""
    folder = tmp_path_factory.mktemp("processes")
    end_run(start_run(folder, "whole"))
    return folder
