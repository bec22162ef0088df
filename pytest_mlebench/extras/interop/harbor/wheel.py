"""Builds a wheel for a task's images from the parts of this package that check and grade submissions."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

from pytest_mlebench._version import __version__
from pytest_mlebench.data.preparing import SOURCES
from pytest_mlebench.io.extensions import extensions

NAME = f"pytest_mlebench-{__version__}-py3-none-any.whl"
_PACKAGES = ("io", "records", "catalog", "authoring", "data", "grading")
_EXTRAS = "pytest_mlebench.extras."
_LEFT_OUT = ("authoring/worlds",)
"""The generators of twins, which agents must not see."""
LIBRARIES = ("numpy", "pandas", "scipy", "scikit-learn", "rapidfuzz", "pillow", "pyyaml", "filelock")
"""All libraries that grading imports. A test grades in an environment without any others."""
_DIST_INFO = f"pytest_mlebench-{__version__}.dist-info"
_TIME = (1980, 1, 1, 0, 0, 0)


def write_wheel(path: Path, *, pulls: bool = False) -> None:
    """Write the wheel. The same code gives the same bytes, so that the images of all tasks share a layer.

    With ``pulls``, it includes the code that reads data from a URL.
    """
    package = Path(__file__).parents[3]
    readers = [entry for entry in extensions(SOURCES).values() if entry.module.startswith(_EXTRAS)] if pulls else []
    packages = {*_PACKAGES, *(f"extras/{entry.module.removeprefix(_EXTRAS).partition('.')[0]}" for entry in readers)}
    files = [*package.glob("*.py"), *(file for name in packages for file in (package / name).rglob("*"))]
    contents = {
        f"pytest_mlebench/{name}": file.read_bytes()
        for file in files
        if file.is_file() and "__pycache__" not in file.parts
        if not (name := file.relative_to(package).as_posix()).startswith(_LEFT_OUT)
    }
    contents[f"{_DIST_INFO}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: pytest-mlebench\nVersion: {__version__}\n".encode()
    )
    contents[f"{_DIST_INFO}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: pytest-mlebench\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    if readers:
        contents["pytest_mlebench/extras/__init__.py"] = b""
        entries = "".join(f"{entry.name} = {entry.value}\n" for entry in sorted(readers))
        contents[f"{_DIST_INFO}/entry_points.txt"] = f"[{SOURCES}]\n{entries}".encode()
    record = [f"{name},{_digest(content)},{len(content)}" for name, content in sorted(contents.items())]
    contents[f"{_DIST_INFO}/RECORD"] = "\n".join([*record, f"{_DIST_INFO}/RECORD,,", ""]).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(contents.items()):
            archive.writestr(zipfile.ZipInfo(name, _TIME), content, zipfile.ZIP_DEFLATED)


def _digest(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
