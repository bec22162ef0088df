"""What agents left is never collected: neither by a plain ``pytest`` above run groups, nor by naming it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_mlebench.plugin import internals
from pytest_mlebench.runs.guard import CONFTEST, group_of, has_guard, is_group


class Leavings(pytest.Directory):
    """The folder of a run group or of a run: nothing in it is collected, and no conftest of it imported."""

    def collect(self) -> Iterator[pytest.Collector]:
        return iter(())


def is_ignored(path: Path) -> bool:
    return path.is_dir() and is_group(path)


def refuse_paths(config: pytest.Config) -> None:
    """Raise UsageError for a path in a run group: pytest would import each ``conftest.py`` on the way to it."""
    for name in internals.initial_paths(config):
        path = Path(os.path.abspath(config.invocation_params.dir / name.split("::")[0]))  # noqa: PTH100 - links count
        # pytest looks for conftests in folders called test… as well.
        tests = [folder for folder in path.glob("test*") if (folder / CONFTEST).exists()] if path.is_dir() else []
        for way in {path, path.resolve(), *(folder for folder in tests if not has_guard(folder))}:
            if (group := group_of(way)) is not None:
                raise pytest.UsageError(
                    f"{name} is in the run group {group}, whose files agents wrote: pytest does not collect or import "
                    "them. Name your tests, or start pytest in the folder of your project. To look at these files: "
                    "mlebench files, mlebench unpack"
                )
