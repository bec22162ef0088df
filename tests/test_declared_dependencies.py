"""Every import is declared as a dependency: of the project, or of its extra ``dev`` if only tests need it."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from pytest_mlebench.catalog import default_catalogue
from tools import dependency_sizes

ROOT = Path(__file__).parents[1]
OWN = {"pytest_mlebench", "competitions", "tests", "benchmarks", "tools"}


@pytest.mark.full
def test_the_package_and_competitions_import_only_dependencies() -> None:
    files = [path for path in what_users_run() if not may_lack_arrow(path)]
    extras = ("plagiarism", "ray", "view", "gcs", "otlp", "gym")
    assert undeclared(files, "dependencies", *extras) == {"hypothesis"}  # optional in the root conftest


def test_competitions_that_import_arrow_require_it() -> None:
    files = [path for path in what_users_run() if may_lack_arrow(path)]
    assert {path.parent.name for path in files} == {
        "authoring",
        "data",
        *(id for id in default_catalogue().ids if arrow(id)),
    }
    assert undeclared(files, "dependencies", "parquet") == set()


@pytest.mark.full
def test_each_dependency_is_imported() -> None:
    modules = {name for path in what_users_run() for name in _modules(ast.parse(path.read_bytes()))}
    distributions = packages_distributions()
    used = {normalised(name) for module in modules for name in distributions.get(module, [module])}
    assert declared("dependencies", "parquet") - used == {"pytest-html", "pytest-xdist"}  # plugins that pytest loads


def test_each_large_dependency_has_a_documented_reason() -> None:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    table = page.partition("## What each dependency is for")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([\w.-]+) \| [<\d]+ \| (.+) \|$", table, re.M)
    explained = {normalised(name): reason for name, reason in rows}
    assert declared("dependencies", "parquet") <= explained.keys()
    large = {name for megabytes, name, _ in dependency_sizes.sizes() if megabytes > 5}
    assert {"scipy", "pandas"} <= large <= explained.keys()
    assert all(len(reason) > 10 for reason in explained.values())


def what_users_run() -> list[Path]:
    folders = (ROOT / "pytest_mlebench", ROOT / "competitions")
    return [*(path for folder in folders for path in folder.rglob("*.py")), ROOT / "conftest.py"]


def arrow(id: str) -> bool:
    """Return whether a competition declares that preparing its data requires Arrow."""
    return "pyarrow" in default_catalogue()[id].requires


def may_lack_arrow(path: Path) -> bool:
    if path.parent.parent == ROOT / "competitions":
        return arrow(path.parent.name)
    return path in {ROOT / "pytest_mlebench/authoring/tables.py", ROOT / "pytest_mlebench/data/dataset.py"}


@pytest.mark.full
def test_imports_of_tests_benchmarks_and_tools_are_in_the_extra_dev() -> None:
    folders = [ROOT / name for name in ("tests", "benchmarks", "tools")]
    programs_in_containers = ROOT / "tests/sandbox/agents"
    files = [path for folder in folders for path in folder.rglob("*.py") if programs_in_containers not in path.parents]
    assert undeclared(files, "dependencies", "parquet", "docs", "gym", "dev") == set()


def undeclared(files: Iterable[Path], *groups: str) -> set[str]:
    """Packages that the files import and that no distribution in these groups of pyproject.toml provides.

    A package that is not installed is assumed to have the same name as its distribution.
    """
    distributions = packages_distributions()
    modules = {name for path in files for name in _modules(ast.parse(path.read_bytes()))}
    third_party = modules - OWN - set(sys.stdlib_module_names) - {"compression"}  # in Python 3.14 and later
    allowed = declared(*groups)
    return {name for name in third_party if allowed.isdisjoint(map(normalised, distributions.get(name, [name])))}


def _modules(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


def declared(*groups: str) -> set[str]:
    """Distributions that these groups of pyproject.toml require."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lists = {"dependencies": project["dependencies"], **project["optional-dependencies"]}
    return {normalised(re.split(r"[<>=~!; \[]", entry)[0]) for group in groups for entry in lists[group]}


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
