"""Competition folders as Python packages, so that their files import each other: ``from .labels import VOTES``.

A folder's package is named after where it lies, ``pytest_mlebench.catalog.packages.<version>:<path>``. Folders of the
same id do not clash, and what a module defines can be pickled: importing this module, as unpickling in a new process
does, is all that finding a folder's modules needs. A later version's files go before the common ones, which they can
import as ``.v1``: ``from .v1 import prepare as first``.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from threading import RLock
from types import ModuleType
from urllib.parse import quote, unquote

__path__: list[str] = []  # makes this module a package, of the packages that _Finder finds

_FIRST = "v1"
_lock = RLock()
_sources: dict[str, object] = {}
"""The files of each imported package as they were, to import them anew when one has changed."""


def import_module(folder: Path, version: str, name: str) -> ModuleType:
    """A module of a competition's folder; a later version's own file goes before the common one.

    Modules are shared within the process until one of the folder's files changes. Raises whatever importing raises.
    """
    folder = folder.resolve()
    package = f"{__name__}.{version}:{quote(str(folder)).replace('.', '%2E')}"
    with _lock:
        sources = [(path, (stat := path.stat()).st_mtime_ns, stat.st_size) for path in _files(folder, version)]
        if _sources.get(package) != sources:
            for imported in [key for key in sys.modules if key == package or key.startswith(f"{package}.")]:
                del sys.modules[imported]
            importlib.invalidate_caches()
            _sources[package] = sources
        return importlib.import_module(f"{package}.{name}")


def _search_path(folder: Path, version: str) -> list[Path]:
    return [path for path in (folder / version, folder) if path.is_dir()]


def _files(folder: Path, version: str) -> list[Path]:
    return sorted(file for path in _search_path(folder, version) for file in path.glob("*.py"))


class _Finder:
    """Finds the package of a competition's folder; Python itself finds the modules in it."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        parent, _, package = name.rpartition(".")
        is_first = package == _FIRST and parent.startswith(f"{__name__}.")
        if is_first:
            parent, _, package = parent.rpartition(".")
        if parent != __name__ or ":" not in package:
            return None
        version, _, quoted = package.partition(":")
        locations = [str(path) for path in _search_path(Path(unquote(quoted)), _FIRST if is_first else version)]
        for location in locations:
            if (init := Path(location, "__init__.py")).is_file():
                return spec_from_file_location(name, init, submodule_search_locations=locations)
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = locations
        return spec


sys.meta_path.append(_Finder)
