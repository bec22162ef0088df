"""The part of this package that checks and grades submissions, as a wheel for a task's images."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from importlib.metadata import version
from pathlib import Path

from pytest_mlebench._version import __version__

NAME = f"pytest_mlebench-{__version__}-py3-none-any.whl"
_PACKAGES = ("io", "records", "catalog", "authoring", "data", "grading")
_LEFT_OUT = ("authoring/worlds",)
"""What makes twins: agents get no hint of it."""
_LIBRARIES = ("numpy", "pandas", "scipy", "scikit-learn", "rapidfuzz", "pillow", "pyyaml", "filelock")
"""All that grading imports. A test grades in an environment that has nothing else."""
_DIST_INFO = f"pytest_mlebench-{__version__}.dist-info"
_TIME = (1980, 1, 1, 0, 0, 0)


def write_wheel(path: Path) -> None:
    """Write the wheel; the same code gives the same bytes, so that images of all tasks share a layer."""
    package = Path(__file__).parents[3]
    files = [*package.glob("*.py"), *(file for name in _PACKAGES for file in (package / name).rglob("*"))]
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
    record = [f"{name},{_digest(content)},{len(content)}" for name, content in sorted(contents.items())]
    contents[f"{_DIST_INFO}/RECORD"] = "\n".join([*record, f"{_DIST_INFO}/RECORD,,", ""]).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(contents.items()):
            archive.writestr(zipfile.ZipInfo(name, _TIME), content, zipfile.ZIP_DEFLATED)


def requirements() -> str:
    """The libraries that grading uses, in the versions of this environment: others may round differently."""
    return "".join(f"{name}=={version(name)}\n" for name in _LIBRARIES)


def _digest(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
