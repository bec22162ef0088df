"""A competition's folder as a Python package, so that its files import each other in the ordinary way.

A file imports its neighbours with ``from .labels import VOTES``. A file of a later version, which is one folder below,
imports the common ones with ``from .. import prepare as first`` or ``from ..labels import VOTES``.
"""

from __future__ import annotations

import importlib
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from threading import RLock
from types import ModuleType
from urllib.parse import quote

_lock = RLock()
_sources: dict[str, object] = {}
"""The files of each imported folder as they were, to import them again when one has changed."""


def import_file(folder: Path, path: Path) -> ModuleType:
    """The module of a Python file in a competition's folder, or in a version's folder below it.

    Modules are shared within the process until one of the folder's files changes. Raises whatever importing raises.
    """
    package = f"competition:{quote(str(folder.resolve())).replace('.', '%2E')}"  # folders of the same id do not clash
    files = sorted([*folder.glob("*.py"), *folder.glob("*/*.py")])
    with _lock:
        sources = [(file, (stat := file.stat()).st_mtime_ns, stat.st_size) for file in files]
        if package not in sys.modules or _sources.get(package) != sources:
            for imported in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
                del sys.modules[imported]
            importlib.invalidate_caches()
            _add_package(package, folder.resolve())
            _sources[package] = sources
        return importlib.import_module(".".join([package, *path.relative_to(folder).with_suffix("").parts]))


def _add_package(name: str, folder: Path) -> None:
    """Its ``__path__`` is all that Python needs to find the modules in it."""
    init = folder / "__init__.py"
    if not init.is_file():
        sys.modules[name] = ModuleType(name)
        sys.modules[name].__path__ = [str(folder)]
    elif spec := spec_from_file_location(name, init, submodule_search_locations=[str(folder)]):
        sys.modules[name] = module_from_spec(spec)
        if spec.loader:
            spec.loader.exec_module(sys.modules[name])
