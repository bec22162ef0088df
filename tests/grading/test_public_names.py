from __future__ import annotations

import importlib
import pkgutil

import pytest

from pytest_mlebench import authoring


@pytest.mark.parametrize("name", authoring.__all__)
def test_public_names_are_no_modules_whatever_was_imported_before(name: str) -> None:
    for module in pkgutil.iter_modules(authoring.__path__):
        importlib.import_module(f"{authoring.__name__}.{module.name}")
    assert callable(getattr(authoring, name))


def test_dir_lists_what_graders_import() -> None:
    assert {"predictions", "align", "require_columns", "InvalidSubmission"} <= set(dir(authoring))
