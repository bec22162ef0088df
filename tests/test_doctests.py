"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import pytest_mlebench

_PACKAGE = Path(pytest_mlebench.__file__).parent
_MODULES = [
    ".".join(path.relative_to(_PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(_PACKAGE.rglob("*.py"))
    if ">>>" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("module", _MODULES)
def test_the_examples_in_docstrings_are_true(module: str) -> None:
    assert doctest.testmod(importlib.import_module(module)).failed == 0


def test_there_are_examples_to_try() -> None:
    assert "pytest_mlebench.units" in _MODULES
