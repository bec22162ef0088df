from __future__ import annotations

import importlib
import pkgutil

import pytest

from pytest_mlebench import authoring


@pytest.mark.parametrize("name", authoring.__all__)
def test_public_names_are_functions_after_their_modules_are_imported(name: str) -> None:
    for module in pkgutil.iter_modules(authoring.__path__):
        importlib.import_module(f"{authoring.__name__}.{module.name}")
    assert callable(getattr(authoring, name))


def test_dir_lists_what_graders_import() -> None:
    assert {"predictions", "align", "require_columns", "InvalidSubmission"} <= set(dir(authoring))
