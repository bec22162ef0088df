"""The page on helpers has every name that competitions import, and examples of those for graders."""

from __future__ import annotations

import inspect
import pydoc
import re

import pytest

from pytest_mlebench import authoring
from tests.docs.pages import ROOT
from tools.docs.authoring import MODULES, page

IMPORT = re.compile(r"^from pytest_mlebench\.authoring(?:\.(\w+))?(?:\.\w+)? import (?:\(([^)]+)\)|(.+))", re.MULTILINE)


@pytest.fixture(scope="module")
def text() -> str:
    return page()


def test_the_page_has_every_name_that_a_competition_imports(text: str) -> None:
    shown = {"worlds", "metrics", "bundled", "checks", "columns", "ids", "text_normalization"}
    for file in [*ROOT.glob("competitions/*/*.py"), *ROOT.glob("examples/competitions/*/*.py")]:
        for module, several, one in IMPORT.findall(file.read_text()):
            if module and module not in MODULES:
                assert module in shown, f"{file}: {module} is missing from the page"
                if module == "worlds":
                    names = re.findall(r"\w+", re.sub(r" as \w+", "", several or one))
                    assert all(f"{{#worlds-{name.lower()}}}" in text for name in names if name.islower()), file
                continue
            for name in re.findall(r"\w+", re.sub(r" as \w+", "", several or one)):
                assert not name.islower() or not module or f"{{#{module}-{name}}}" in text, (file, module, name)


def test_each_name_for_graders_has_an_example_and_help_shows_it(text: str) -> None:
    shown = pydoc.plain(pydoc.render_doc(authoring))
    for name in authoring.__all__:
        value = getattr(authoring, name)
        assert f"{{#{name.lower()}}}" in text and name in dir(authoring)
        if inspect.isfunction(value):
            assert ">>>" in (inspect.getdoc(value) or ""), f"{name} has no example"
            assert f"{name}(" in shown
