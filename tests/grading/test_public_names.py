from __future__ import annotations

import importlib
import pkgutil

import pytest

import pytest_mlebench.grading as grading


@pytest.mark.parametrize("name", grading.__all__)
def test_public_names_are_no_modules_whatever_was_imported_before(name: str) -> None:
    for module in pkgutil.iter_modules(grading.__path__):
        importlib.import_module(f"{grading.__name__}.{module.name}")
    assert callable(getattr(grading, name))
