"""Generates the reference of the helpers for ``prepare.py``, ``grade.py``, ``synthetic.py`` and ``twin.py``."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

from pytest_mlebench import authoring
from pytest_mlebench.authoring import metrics, worlds
from tools.docs.docstrings import markdown, one_line
from tools.docs.reference import code, signature, table

MODULES = {
    "tables": "Preparers: tables",
    "files": "Preparers: files",
    "archives": "Preparers: archives",
    "synthetic": "Synthetic data and submissions",
    "resampling": "Row scores",
    "rle": "Run lengths",
    "tfrecord": "TFRecord files",
    "corrections": "Corrections of version 2",
}
"""The modules that competitions import, with their headings."""


def page() -> str:
    """First the names for graders, then the modules, then the metrics."""
    graders = {name: getattr(authoring, name) for name in authoring.__all__}
    parts = [
        f"# Helpers for authors\n\n{markdown(authoring.__doc__)}",
        "`help(pytest_mlebench.authoring)` shows the same in Python. [Add a competition](../competitions.md) explains "
        "the files that use these helpers.",
        table(
            ("name", "meaning"),
            [(_link(name), one_line((inspect.getdoc(own) or "").split("\n\n")[0])) for name, own in graders.items()],
        ),
        "## Graders\n\n`from pytest_mlebench.authoring import predictions, …`",
        *(_entry(name, own) for name, own in graders.items()),
    ]
    for name, title in MODULES.items():
        module = import_module(f"{authoring.__name__}.{name}")
        parts.append(f"## {title}\n\n`from {module.__name__} import …`\n\n{markdown(module.__doc__)}")
        parts += [_entry(own, function, name) for own, function in functions(module).items()]
    parts.append(f"## Worlds of twins\n\n{markdown(worlds.__doc__)}")
    for module in _modules_of(worlds):
        parts.append(f"### {module.__name__.rpartition('.')[2]}\n\n`from {module.__name__} import …`")
        parts += [_entry(name, own, "worlds", level=4) for name, own in (functions(module) | classes(module)).items()]
    parts.append("## Metrics\n\nThose that scikit-learn lacks.")
    for module in _modules_of(metrics):
        parts.append(f"### {module.__name__.rpartition('.')[2]}\n\n`from {module.__name__} import …`")
        parts += [_entry(name, function, "metrics", level=4) for name, function in functions(module).items()]
    return "\n\n".join(parts) + "\n"


def functions(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """The public functions that a module defines itself."""
    own = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    return {
        name: value
        for name, value in own.items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and name != "module"
    }


def classes(module: ModuleType) -> dict[str, type]:
    """The public classes that a module defines itself."""
    return {
        name: value
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__ and not name.startswith("_")
    }


def _modules_of(package: ModuleType) -> Iterator[ModuleType]:
    for found in pkgutil.iter_modules(package.__path__):
        yield import_module(f"{package.__name__}.{found.name}")


def _link(name: str) -> str:
    return f"[{code(name)}](#{name.lower()})"


def _entry(name: str, own: Any, module: str = "", level: int = 3) -> str:
    """A heading and the text. The anchor includes the module, because two modules may use the same name."""
    head = f"{'#' * level} {name} {{#{'-'.join(filter(None, (module, name))).lower()}}}"
    text = markdown(inspect.getdoc(own))
    if not inspect.isfunction(own):
        return f"{head}\n\n{text}"
    return f"{head}\n\n```python\n{signature(name, own)}\n```\n\n{text}"
