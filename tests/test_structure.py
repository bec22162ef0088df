"""The import contracts in pyproject.toml hold, and detect forbidden imports."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]
MOST_MODULES = 60
MOST_LATE_IMPORTS = 60
MOST_LINES, MOST_CORE_FILES = 80, 160
FILES = sorted(path for path in (ROOT / "pytest_mlebench").rglob("*.py") if "templates" not in path.parts)


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as main; main()", "--no-cache"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("structure")
    shutil.copy(ROOT / "pyproject.toml", root)
    shutil.copytree(ROOT / "pytest_mlebench", root / "pytest_mlebench", ignore=shutil.ignore_patterns("__pycache__"))
    return root


def test_the_import_contract_holds() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("module", "forbidden", "contract"),
    [
        ("catalog/catalogue.py", "pytest_mlebench.runs", "packages import in one direction"),
        ("records/group.py", "pytest_mlebench.plugin.hooks", "packages import in one direction"),
        ("records/group.py", "pytest_mlebench.catalog.catalogue", "packages import in one direction"),
        ("reports/page.py", "pytest_mlebench.extras.viewer.app", "packages import in one direction"),
        ("extras/viewer/app.py", "pytest_mlebench.extras.audit.scanners", "extras are independent of each other"),
        ("data/store.py", "pytest_mlebench.agents", "data, grading and the gate know nothing of agents"),
        ("grading/grader.py", "pytest_mlebench.sandbox", "data, grading and the gate know nothing of agents"),
        ("data/jobs.py", "pytest_mlebench as front_door", "data, grading and the gate know nothing of agents"),
        ("sandbox/gpus.py", "pytest_mlebench.data.store", "agents, models and sandboxes know nothing of data"),
        ("agents/registry.py", "pytest_mlebench.grading.grader", "agents, models and sandboxes know nothing of data"),
        (
            "llm/budget.py",
            "pytest_mlebench.data.store",
            "agents, models and sandboxes know nothing of data and grading",
        ),
        ("reports/page.py", "pytest", "only the plugin and the terminal writer import pytest"),
        ("records/record.py", "jinja2", "only reports import jinja2"),
        ("reports/page.py", "starlette", "only the viewer imports a web framework"),
        ("sandbox/gpus.py", "docker", "only the Docker sandbox, and what packs a build's files for it, import docker"),
        ("data/store.py", "fsspec", "only what is remote imports fsspec"),
        ("data/jobs.py", "kagglesdk", "only downloads import Kaggle's client"),
        ("sandbox/network/proxy.py", "requests", "only downloads import Kaggle's client and requests"),
    ],
)
def test_a_forbidden_import_breaks_the_contract(module: str, forbidden: str, contract: str, copy: Path) -> None:
    path = copy / "pytest_mlebench" / module
    before = path.read_text()
    path.write_text(f"{before}\n\ndef _late() -> None:\n    import {forbidden}\n")
    try:
        done = lint_imports(copy)
    finally:
        path.write_text(before)
    assert done.returncode == 1, done.stdout + done.stderr
    broken = [line for line in done.stdout.splitlines() if " BROKEN" in line]
    assert any(line.startswith(contract) for line in broken), done.stdout


def test_there_are_no_circular_imports() -> None:
    """Includes imports in functions, and packages of imported modules, but not imports for type checking."""
    graph = grimp.build_graph("pytest_mlebench", exclude_type_checking_imports=True, cache_dir=None)
    front_door = "pytest_mlebench"  # imports each name on first use

    def with_packages(module: str) -> Iterator[str]:
        while module != front_door:
            yield module
            module = module.rpartition(".")[0]

    imports = {
        module: {
            entered
            for imported in graph.find_modules_directly_imported_by(module)
            for entered in with_packages(imported)
            if not module.startswith(f"{entered}.")  # the module's own package
        }
        - {module}
        for module in graph.modules - {front_door}
    }
    TopologicalSorter(imports).prepare()  # raises CycleError with the modules


def test_few_modules_of_the_package_are_imported_within_functions() -> None:
    """Such imports hide dependencies, so they are only for slow imports that are not always needed."""
    late = [f"{path.relative_to(ROOT)}:{line}" for path in FILES for line in late_imports(ast.parse(path.read_text()))]
    assert 0 < len(late) <= MOST_LATE_IMPORTS, "\n".join(late)


def test_no_function_is_longer_than_80_lines_and_the_core_has_few_files() -> None:
    long = [
        f"{path}:{node.lineno} {node.name}"
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno >= MOST_LINES
    ]
    assert not long
    assert sum("extras" not in path.parts for path in FILES) <= MOST_CORE_FILES


def test_each_public_class_has_a_unique_name() -> None:
    """So a name in a traceback or a search is unambiguous."""
    places: dict[str, list[str]] = {}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert "Bench" in places
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def late_imports(node: ast.AST, *, within: bool = False) -> Iterator[int]:
    """Line numbers of imports of this package inside functions."""
    for child in ast.iter_child_nodes(node):
        if (
            within
            and isinstance(child, ast.ImportFrom)
            and (child.level or (child.module or "").startswith("pytest_mle"))
        ):
            yield child.lineno
        yield from late_imports(child, within=within or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))


def test_a_late_import_is_found() -> None:
    code = (
        "from pytest_mlebench import a\ndef f():\n    import os\n    if a:\n        from pytest_mlebench.b import c\n"
    )
    assert list(late_imports(ast.parse(code))) == [5]


NOTE = """
import atexit, inspect, sys, threading
executed = set()

def note(frame, event, _):
    if event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED and not frame.f_code.co_name.startswith("<"):
        executed.add(frame.f_code.co_filename)  # only functions: no class bodies or module-level comprehensions

sys.setprofile(note)
threading.setprofile(note)
atexit.register(lambda: open(FILE, "a").write("".join(f"{name}\\n" for name in executed)))
"""


@pytest.mark.full
def test_a_smoke_run_executes_few_modules(tmp_path: Path) -> None:
    """Limits how many modules a reader must know to follow a run and its report."""
    names = tmp_path / "names"
    (tmp_path / "sitecustomize.py").write_text(f"FILE = {str(names)!r}\n{NOTE}")
    command = [sys.executable, "-m", "pytest", "--agent=baseline", "--split=smoke", "-k", "digits", "--sandbox=local"]
    environment = os.environ | {
        "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}",
        "MLEBENCH_RUNS_DIR": str(tmp_path / "runs"),
        "MLEBENCH_DATA_DIR": str(tmp_path / "data"),  # a new folder, so that the data is prepared too
    }
    subprocess.run([*command, "-p", "no:cacheprovider"], cwd=tmp_path, env=environment, check=True, capture_output=True)
    package = str(ROOT / "pytest_mlebench")
    executed = {name for name in names.read_text().splitlines() if name.startswith(package) and name.endswith(".py")}
    assert f"{package}/runs/run.py" in executed
    assert len(executed) <= MOST_MODULES, sorted(executed)
