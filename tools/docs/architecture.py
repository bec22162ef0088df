"""Draws the import layers from the contracts in ``pyproject.toml`` that ``lint-imports`` checks."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import Any

from tools.docs.docstrings import markdown

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pytest_mlebench"


def contracts() -> list[dict[str, Any]]:
    """The contracts in ``pyproject.toml``."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found: list[dict[str, Any]] = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    return found


def layers() -> list[list[str]]:
    """The layers from top to bottom. A package imports only from lower layers, not from its own."""
    (contract,) = (own for own in contracts() if own["type"] == "layers")
    return [[name.strip(" ()") for name in layer.split("|")] for layer in contract["layers"]]


def diagram() -> str:
    """The layers as HTML."""
    packages = ("".join(f'<a class="mleb-package" href="#{name}">{name}</a>' for name in layer) for layer in layers())
    rows = "".join(f'<li class="mleb-layer">{row}</li>' for row in packages)
    return f'<ol class="mleb-layers">{rows}</ol>'


def packages() -> str:
    """A table of the packages, from their docstrings."""
    lines = (f'| <span id="{name}">`{name}`</span> | {_purpose(name)} |' for layer in layers() for name in layer)
    return "\n".join(["| package | what it is for |", "|---|---|", *lines])


def other_contracts() -> str:
    """The names of the other contracts."""
    return "\n".join(f"- {own['name']}" for own in contracts() if own["type"] != "layers")


def _purpose(name: str) -> str:
    file = PACKAGE / name / "__init__.py"
    tree = ast.parse((file if file.exists() else PACKAGE / f"{name}.py").read_text(encoding="utf-8"))
    return " ".join(markdown((ast.get_docstring(tree) or "").partition("\n\n")[0]).split())


PARTS = {"layers": diagram, "packages": packages, "contracts": other_contracts}
"""Functions that replace ``<!-- architecture: NAME -->`` in a page, by name."""
