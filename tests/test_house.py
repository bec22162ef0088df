"""The house's directions: the import contract of pyproject.toml holds, and would notice what it forbids."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as main; main()", "--no-cache"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("house")
    shutil.copy(ROOT / "pyproject.toml", root)
    shutil.copytree(ROOT / "pytest_mlebench", root / "pytest_mlebench", ignore=shutil.ignore_patterns("__pycache__"))
    return root


def test_the_import_contract_holds() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("module", "forbidden", "contract"),
    [
        ("catalog/catalogue.py", "pytest_mlebench.runs", "rooms import in one direction"),
        ("runs/group.py", "pytest_mlebench.plugin.hooks", "rooms import in one direction"),
        ("data/store.py", "pytest_mlebench.agents", "data and grading know nothing of agents, models and sandboxes"),
        ("grading/report.py", "pytest_mlebench.sandbox", "data and grading know nothing of agents, models"),
        ("sandbox/gpus.py", "pytest_mlebench.data.locks", "agents, models and sandboxes know nothing of data"),
        ("agents/definition.py", "pytest_mlebench.grading.report", "agents, models and sandboxes know nothing of data"),
        (
            "llm/budget.py",
            "pytest_mlebench.data.locks",
            "agents, models and sandboxes know nothing of data and grading",
        ),
        ("data/jobs.py", "pytest_mlebench as front_door", "data and grading know nothing of agents, models"),
        ("reports/page.py", "pytest", "only the plugin and the terminal writer import pytest"),
        ("runs/record.py", "jinja2", "only reports import jinja2"),
        ("reports/page.py", "starlette", "only the viewer imports a web framework"),
        ("reports/page.py", "pytest_mlebench.viewer.app", "rooms import in one direction"),
        ("sandbox/gpus.py", "docker", "only the Docker sandbox imports docker"),
        ("data/store.py", "fsspec", "only what is remote imports fsspec"),
        ("data/jobs.py", "kagglesdk", "only downloads import Kaggle's client"),
        ("sandbox/network/proxy.py", "requests", "only downloads import Kaggle's client and requests"),
    ],
)
def test_a_forbidden_import_breaks_the_contract(module: str, forbidden: str, contract: str, copy: Path) -> None:
    path = copy / "pytest_mlebench" / module
    before = path.read_text()
    path.write_text(f"{before}\n\ndef _late() -> None:\n    import {forbidden}\n")
    try:
        done = lint_imports(copy)
    finally:
        path.write_text(before)
    assert done.returncode == 1, done.stdout + done.stderr
    broken = [line for line in done.stdout.splitlines() if " BROKEN" in line]
    assert any(line.startswith(contract) for line in broken), done.stdout
