"""A browser for tests of pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.reports.browser import Browser, Open, Tab


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    found = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("this test needs chromium")
        pytest.skip("chromium is not installed")
    with Browser(found, tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def open_tab(browser: Browser) -> Iterator[Open]:
    """Opens a page: ``open_tab(url, width=390, dark=True)``."""
    tabs: list[Tab] = []

    def open(url: str, **options: object) -> Tab:
        tabs.append(browser.open(url, **options))
        return tabs[-1]

    yield open
    for tab in tabs:
        tab.close()
