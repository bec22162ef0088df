from pathlib import Path

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.data.store import DataStore
from tests.llm.conftest import certificates, upstream
from tests.sandbox.conftest import docker_engine

__all__ = ["certificates", "docker_engine", "upstream"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the data of smoke-diabetes."""
    folder = tmp_path_factory.mktemp("data")
    DataStore(folder).prepare(default_catalogue()["smoke-diabetes"])
    return folder
