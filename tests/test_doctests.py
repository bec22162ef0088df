"""Doctests pass, and each public name has an example."""

from __future__ import annotations

import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import FunctionType

import pytest

import pytest_mlebench

_PACKAGE = Path(pytest_mlebench.__file__).parent
_EXAMPLES = {
    ".".join(path.relative_to(_PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): text
    for path in sorted(_PACKAGE.rglob("*.py"))
    if ">>>" in (text := path.read_text(encoding="utf-8"))
}
_NEEDS_RUNS = re.compile(r">>> .*(reports/first|DataStore\(|Bench\()")
_NEEDS_ENGINE = re.compile(r">>> DockerSandbox\(")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run group of `pytest --agent=dummy --split=smoke`, for examples that read one."""
    made = tmp_path_factory.mktemp("examples")
    command = [sys.executable, "-m", "pytest", "--agent=dummy", "--split=smoke", "--sandbox=local", "--run-group=first"]
    subprocess.run([*command, "--data-dir=data", "-p", "no:cacheprovider"], cwd=made, check=True, capture_output=True)
    return made


def _fails(module: str) -> int:
    return doctest.testmod(importlib.import_module(module)).failed


@pytest.mark.parametrize(
    "module",
    [
        pytest.param(name, marks=pytest.mark.docker if _NEEDS_ENGINE.search(text) else ())
        for name, text in _EXAMPLES.items()
        if not _NEEDS_RUNS.search(text)
    ],
)
def test_the_examples_in_docstrings_are_correct(module: str) -> None:
    assert _fails(module) == 0


@pytest.mark.full
@pytest.mark.parametrize("module", [name for name, text in _EXAMPLES.items() if _NEEDS_RUNS.search(text)])
def test_the_examples_that_read_data_and_runs_are_correct(
    module: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MLEBENCH_DATA_DIR", str(folder / "data"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert _fails(module) == 0


@pytest.mark.parametrize("name", pytest_mlebench.__all__)
def test_each_public_name_has_an_example(name: str) -> None:
    value = getattr(pytest_mlebench, name)
    if isinstance(value, type | FunctionType):
        assert doctest.DocTestParser().get_examples(value.__doc__ or "")
    else:  # an object without a docstring is described in its module's
        text = importlib.import_module(pytest_mlebench._MODULE_OF[name]).__doc__ or ""
        assert any(name in example.source for example in doctest.DocTestParser().get_examples(text))


def test_there_are_examples() -> None:
    assert "pytest_mlebench.io.units" in _EXAMPLES
