"""Configuration for the tests and the competitions of this checkout.

It is also loaded when agents run from the checkout, so it must not need test dependencies. If another project collects
the competitions of an editable install, it changes nothing there. For this reason, pytester is loaded in
``tests/conftest.py``: pytest rejects ``pytest_plugins`` in a conftest that it finds after it has started.
"""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_configure(config: pytest.Config) -> None:
    if config.rootpath != Path(__file__).parent:
        return
    if config.getoption("mlebench_agent", default=None) or config.getoption("mlebench_resume", default=None):
        config.addinivalue_line("filterwarnings", "default")  # warnings fail tests, but not runs of agents
    else:
        _load_hypothesis_profile("full" if config.getoption("full", default=False) else "quick")


def _load_hypothesis_profile(name: str) -> None:
    try:
        from hypothesis import settings
    except ImportError:
        return
    # A deadline per example would measure the machine, not the code.
    settings.register_profile("quick", deadline=None, max_examples=25)
    settings.register_profile("full", deadline=None, max_examples=200, print_blob=True)
    settings.load_profile(name)
