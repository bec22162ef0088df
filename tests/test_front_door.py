"""``import pytest_mlebench`` is cheap, and its names are visible to ``dir()`` and type checkers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import pytest_mlebench


def python(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", pytest_mlebench.__all__)
def test_every_exported_name_can_be_imported_and_is_listed(name: str) -> None:
    assert getattr(pytest_mlebench, name) is not None
    assert name in dir(pytest_mlebench)


def test_a_name_that_is_not_exported_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'pytest_mlebench' has no attribute 'Leaderbord'"):
        pytest_mlebench.Leaderbord  # type: ignore[attr-defined]  # noqa: B018


def test_a_star_import_gives_every_name() -> None:
    found: dict[str, object] = {}
    exec("from pytest_mlebench import *", found)
    assert found.keys() >= set(pytest_mlebench.__all__)


def test_the_import_loads_no_other_module() -> None:
    program = "import sys; before = set(sys.modules); import pytest_mlebench; print(*(set(sys.modules) - before))"
    assert python(program).split() == ["pytest_mlebench"]


def test_graders_can_import_metrics_without_scikit_learn() -> None:
    folder = Path(pytest_mlebench.__file__).parent / "authoring/metrics"
    names = [f"pytest_mlebench.authoring.metrics.{path.stem}" for path in sorted(folder.glob("[a-z]*.py"))]
    assert len(names) > 3
    assert python(f"import sys, {', '.join(names)}; print('sklearn' in sys.modules)").split() == ["False"], "80 MB"


def test_sessions_and_commands_start_without_pandas() -> None:
    """Prepared data is read by graders, which run in separate processes."""
    folder = Path(pytest_mlebench.__file__).parent / "cli"
    names = [f"pytest_mlebench.cli.{path.stem}" for path in sorted(folder.glob("[a-z]*.py"))]
    assert len(names) > 5
    program = f"import sys, pytest_mlebench.plugin.group, {', '.join(names)}; print('pandas' in sys.modules)"
    assert python(program).split() == ["False"], "pandas takes 60 MB in each worker, and a third of a second"


USER = """
from pathlib import Path

from pytest_mlebench import (
    DataStore,
    Limits,
    LocalSandbox,
    MLEBenchError,
    Outcome,
    RunOptions,
    RunRecord,
    default_agents,
    default_catalogue,
    grade,
    read_group,
    run_agent,
)


def medal(folder: Path) -> Outcome:
    competition = default_catalogue()["smoke-digits"]
    dataset = DataStore(folder / "data").prepare(competition)
    options = RunOptions(folder=folder / "group", limits=Limits(time_limit=600.0))
    record: RunRecord = run_agent(default_agents()["baseline"], competition, dataset, LocalSandbox(), options)
    report = grade(dataset.sample_submission, competition, dataset)
    assert report.valid_submission and record.score is not None
    return record.outcome


if __name__ == "__main__":
    try:
        print(medal(Path.cwd()))
    except MLEBenchError as error:
        raise SystemExit(str(error)) from error
"""


def type_errors(tmp_path: Path, program: str) -> list[str]:
    (tmp_path / "user.py").write_text(program)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--follow-imports=silent", "user.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert not done.stderr
    return [line for line in done.stdout.splitlines() if ": error: " in line]


@pytest.mark.full
def test_a_type_checker_knows_the_names_of_a_users_program(tmp_path: Path) -> None:
    assert type_errors(tmp_path, USER) == []
    wrong = USER.replace("LocalSandbox()", "7").replace("    grade,\n", "    grade,\n    graed,\n")
    errors = type_errors(tmp_path, wrong)
    assert len(errors) == 2 and '"pytest_mlebench" has no attribute "graed"' in errors[0], errors
    assert 'Argument 4 to "run_agent" has incompatible type "int"; expected "Sandbox"' in errors[1]


@pytest.mark.full
def test_a_users_program_runs_an_agent_without_pytest(tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(USER)
    done = subprocess.run([sys.executable, "user.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in ("gold", "silver", "bronze")
