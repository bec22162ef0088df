from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.interop.real_harbor import REPOSITORY
from tests.reports.conftest import browser, open_tab
from tests.sandbox.conftest import require_docker

__all__ = ["browser", "open_tab"]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that Harbor's container sees under the same name."""
    require_docker()
    subprocess.run(["bash", str(REPOSITORY / ".ci/harbor")], check=True, timeout=600)
    return tmp_path_factory.mktemp("harbor")
