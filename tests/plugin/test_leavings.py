"""Files that an agent leaves are data: no program started in or above a run group executes them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pytest_mlebench.runs.files import open_files, unpack
from pytest_mlebench.runs.guard import protect_all

pytestmark = pytest.mark.full

INI_FILES = ("pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
"""If pytest starts in a folder of an earlier version's group, it reads these before it calls any plugin."""
TOYS = Path(__file__).parents[1] / "toys"
INI = """
[pytest]
addopts = -p no:cacheprovider
mlebench_data_dir = data
mlebench_agents_dir = agents
mlebench_sandbox = local
mlebench_trust_agent = leaver
mlebench_time_limit = 60s
"""
CONFIG = "leaver:\n  start: leaver/start.sh\n  dockerfile: leaver/Dockerfile\n  trusted: true\n"
START = """
cp -rT "$AGENT_DIR/traps/code" "$CODE_DIR"
cp -rT "$AGENT_DIR/traps/logs" "$LOGS_DIR"
cp -rT "$AGENT_DIR/traps/submission" "$SUBMISSION_DIR"
cat "$AGENT_DIR/traps/doctest"
{ echo id,odd; for k in $(seq 80 99); do echo $k,0; done; cat "$AGENT_DIR/traps/doctest"; } > result
mv result "$SUBMISSION_DIR/submission.csv"
"""


def touching(mark: Path) -> str:
    return f"open({str(mark)!r}, 'w').close()\n"


def traps(marks: Path) -> Mapping[str, str]:
    """Files that create a mark in a folder when something executes or obeys them."""
    numbers = iter(range(1000))

    def python() -> str:
        return touching(marks / str(next(numbers)))

    def shell() -> str:
        return f"touch {marks / str(next(numbers))}"

    test, plugin = "def test_it():\n    ", "def pytest_configure():\n    "
    toy = {
        f"code/competitions/toy-parity/{path.name}": path.read_text() + (python() if path.suffix == ".py" else "")
        for path in (TOYS / "competitions/toy-parity").iterdir()
        if path.is_file()
    }
    return {
        **toy,
        "doctest": "".join(f">>> {line}\n" for line in python().splitlines()),
        "code/test_x.py": python() + test + python(),
        "code/conftest.py": python() + plugin + python(),
        "code/conftest/__init__.py": python(),
        "code/x_test.py": test + python(),
        "code/__init__.py": python(),
        "code/setup.py": python(),
        "code/sitecustomize.py": python(),
        "code/usercustomize.py": python(),
        "code/evil.py": python(),
        "code/a.pth": f"import sys; {python()}",
        "code/doc.py": f'"""\n>>> {python()}"""\n',
        "code/test_doc.txt": f">>> {python()}",
        "code/test_doc.rst": f">>> {python()}",
        "code/pytest.ini": "[pytest]\naddopts = -p evil\npythonpath = .\n",
        "code/pyproject.toml": "[tool.pytest.ini_options]\naddopts = '-p evil'\npythonpath = '.'\n",
        "code/tox.ini": "[pytest]\naddopts = -p evil\n",
        "code/setup.cfg": "[tool:pytest]\naddopts = -p evil\n",
        "code/.git/config": f"[core]\nrepositoryformatversion = 0\nfsmonitor = {shell()};\npager = {shell()}\n",
        "code/.git/HEAD": "ref: refs/heads/main\n",
        "code/.git/objects/x": "",
        "code/.git/refs/x": "",
        "code/.envrc": shell(),
        "code/.vscode/tasks.json": "{}",
        "code/Makefile": f"all:\n\t{shell()}\n",
        "code/test_package/__init__.py": python(),
        "code/test_package/conftest.py": python(),
        "code/test_package/test_in.py": python() + test + python(),
        "logs/test_y.py": python(),
        "logs/conftest.py": python(),
        "logs/deep/er/test_z.py": python(),
        "submission/conftest.py": python(),
        "submission/test_s.py": python(),
        "submission/__init__.py": python(),
        "submission/competition.yaml": toy["code/competitions/toy-parity/competition.yaml"],
        "submission/grade.py": python(),
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which an agent left its traps."""
    project = tmp_path_factory.mktemp("leavings") / "project"
    shutil.copytree(TOYS, project)
    (project / "pytest.ini").write_text(INI)
    (project / "test_own.py").write_text("def test_own(): pass\n")
    (project / "marks").mkdir()
    agent = project / "agents/leaver"
    agent.mkdir()
    (agent / "config.yaml").write_text(CONFIG)
    (agent / "start.sh").write_text(START)
    for name, content in traps(project / "marks").items():
        path = agent / "traps" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (project / "secret").write_text("x")
    made = run(project, sys.executable, "-m", "pytest", "competitions", "--agent=leaver", "--run-group=g")
    assert "1 invalid submission" in made.stdout, made.stdout + made.stderr
    assert not marks(project)
    # The agent's folder contains the traps as plain files, which are not part of the test.
    shutil.rmtree(project / "agents")
    shutil.rmtree(project / "competitions")
    (project / "pytest.ini").write_text("\n".join(INI.splitlines()[:3]))
    return project


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "GIT_"))}
    environment["GIT_CEILING_DIRECTORIES"] = str(folder.anchor)
    return subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def marks(project: Path) -> list[str]:
    """The marks of executed traps."""
    return sorted(path.name for path in (project / "marks").iterdir())


def run_dir(project: Path) -> Path:
    (found,) = (path.parent for path in project.glob("reports/*/*/run.json"))
    return found


@pytest.fixture
def project(finished: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """The project as the session left it."""
    yield finished
    for path in (finished / "marks").iterdir():
        path.unlink()


@pytest.fixture
def earlier(project: Path) -> Iterator[Path]:
    """The project with a run group of an earlier version, which kept agents' files in folders."""
    group = project / "reports/g"
    kept = project.parent / "kept"
    shutil.copytree(group, kept)
    folder = run_dir(project)
    unpack(folder, project / "unpacked")
    for path in (project / "unpacked").iterdir():
        shutil.copytree(path, folder / path.name, dirs_exist_ok=True)
    shutil.rmtree(project / "unpacked")
    for name in INI_FILES:
        (folder / "code" / name).unlink()
    shutil.rmtree(folder / "code/.git")
    (folder / "files.zip").unlink()
    (group / "conftest.py").unlink()
    yield project
    shutil.rmtree(group)
    kept.rename(group)


PYTEST = (sys.executable, "-m", "pytest")
ABOVE = {
    "plain": (),
    "the runs": ("reports",),
    "doctests": ("--doctest-modules",),
    "all text is doctests": ("--doctest-modules", "--doctest-glob=*", "--doctest-continue-on-failure"),
    "every file is a test": ("-o", "python_files=*"),
    "no folder is left out": ("-o", "norecursedirs=", "-o", "python_files=*"),
    "importlib": ("--import-mode=importlib", "-o", "python_files=*.py"),
    "append": ("--import-mode=append",),
    "workers": ("-n", "2"),
    "keeping duplicates": ("--keep-duplicates", "reports", "reports"),
    "another root": ("--rootdir=reports",),
    "another cut": ("--confcutdir=/",),
    "collecting in environments": ("--collect-in-virtualenv",),
    "test paths by pattern": ("-o", "testpaths=reports reports/* *.py"),
    "all test paths": ("-o", "testpaths=reports/*/*/*"),
    "collection only": ("--collect-only",),
    "packages": ("--pyargs", "reports"),
    "links": ("linked",),
}
NAMED = ("reports/g", "{run}", "{run}/code", "{run}/code/test_x.py", "{run}/code/test_x.py::test_it", "{run}/logs",
    "{run}/code/test_package/test_in.py", "{run}/submission", "{run}/submission/submission.csv",
    "{run}/code/competitions")  # fmt: skip


@pytest.fixture
def linked(project: Path) -> Iterator[None]:
    (project / "linked").symlink_to("reports")
    yield
    (project / "linked").unlink()


@pytest.mark.parametrize("plugin", ["with the plugin", "without the plugin"])
@pytest.mark.parametrize("how", ABOVE)
def test_pytest_above_a_run_group_runs_nothing_of_an_agent(project: Path, linked: None, how: str, plugin: str) -> None:
    without = ("-p", "no:mlebench") if plugin.startswith("without") else ()
    result = run(project, *PYTEST, *without, *ABOVE[how])
    assert marks(project) == [], result.stdout
    if how in ("plain", "doctests", "every file is a test", "workers", "importlib"):
        assert "1 passed" in result.stdout, result.stdout + result.stderr


@pytest.mark.parametrize("how", ABOVE)
def test_pytest_above_a_group_of_an_earlier_version_runs_nothing_of_an_agent(
    earlier: Path, linked: None, how: str
) -> None:
    result = run(earlier, *PYTEST, *ABOVE[how])
    assert marks(earlier) == [], result.stdout


@pytest.mark.parametrize("path", NAMED)
def test_a_path_in_a_run_group_is_rejected_before_a_conftest_is_imported(earlier: Path, path: str) -> None:
    named = path.format(run=run_dir(earlier).relative_to(earlier))
    result = run(earlier, *PYTEST, "--doctest-modules", "--doctest-glob=*", named)
    assert marks(earlier) == [] and result.returncode == pytest.ExitCode.USAGE_ERROR
    assert "is in the run group" in result.stderr and "mlebench unpack" in result.stderr


@pytest.mark.parametrize("folder", ["reports/g", "{run}", "{run}/code", "{run}/code/test_package"])
def test_pytest_started_inside_a_run_group_runs_nothing_of_an_agent(earlier: Path, folder: str) -> None:
    result = run(earlier / folder.format(run=run_dir(earlier).relative_to(earlier)), *PYTEST)
    assert marks(earlier) == [] and result.returncode != pytest.ExitCode.OK


@pytest.mark.parametrize("how", [how for how in ABOVE if how not in ("all test paths", "another root")])
def test_a_session_protects_earlier_groups_for_sessions_without_the_plugin(
    earlier: Path, linked: None, how: str
) -> None:
    protect_all(earlier / "reports")
    result = run(earlier, *PYTEST, "-p", "no:mlebench", *ABOVE[how])
    assert marks(earlier) == [], result.stdout


@pytest.mark.parametrize("mark", ["manifest.json", "metadata.json", "run.json", "running.json"])
def test_any_file_of_a_group_is_enough_to_recognise_it(earlier: Path, mark: str) -> None:
    group, folder = earlier / "reports/g", run_dir(earlier)
    if mark == "running.json":
        (folder / mark).write_text('{"competition_id": "toy-parity", "agent": "leaver", "seed": 0}')
    found = {path.name: path for path in (*group.glob("m*.json"), *folder.glob("run*.json"))}
    for name, path in found.items():
        if name != mark:
            path.unlink()
    result = run(earlier, *PYTEST, "--doctest-modules")
    assert marks(earlier) == [] and "1 passed" in result.stdout, result.stdout


def test_other_folders_with_files_of_these_names_are_collected(tmp_path: Path) -> None:
    for name in ("manifest.json", "metadata.json", "run.json", "running.json"):
        folder = tmp_path / name.partition(".")[0]
        folder.mkdir()
        (folder / name).write_text('{"run_group": "x", "agent": 1}')
        (folder / f"test_{folder.name}.py").write_text("def test_it(): pass\n")
    assert "4 passed" in run(tmp_path, *PYTEST, "-p", "no:cacheprovider").stdout


def test_git_python_and_others_execute_nothing_in_a_run_directory(project: Path) -> None:
    run(project, "git", "init", "-q")
    everywhere = [project, *(path for path in project.glob("reports/**/") if path.is_dir())]
    for folder in everywhere:
        for command in (
            ("git", "status"), ("git", "diff"), ("git", "log"), (sys.executable, "-c", ""), ("make", "-k"),
            (sys.executable, "-m", "unittest", "discover"), ("bash", "-c", "test ! -e .envrc || . ./.envrc"),
        ):  # fmt: skip
            run(folder, *command)
    assert marks(project) == []
    shutil.rmtree(project / ".git")


def test_the_traps_work_if_unpacked_among_tests(project: Path) -> None:
    unpack(run_dir(project), project / "tests")
    run(project / "tests", *PYTEST, "-p", "no:mlebench", "code")
    run(project / "tests/code", "git", "status")
    assert len(marks(project)) > 3
    shutil.rmtree(project / "tests")


def test_a_run_directory_contains_only_the_submission_and_files_of_the_harness(project: Path) -> None:
    folder = run_dir(project)
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
    assert {path for path in found if not path.startswith("snapshots/")} == {
        "files.zip", "run.json", "run.log", "submission/submission.csv",
    }  # fmt: skip
    with zipfile.ZipFile(folder / "files.zip") as archive:
        names = archive.namelist()
    assert {"code/test_x.py", "code/.git/config", "logs/deep/er/test_z.py", "submission/conftest.py"} <= set(names)
    with open_files(folder) as files:
        assert [file.path for file in files.below()] == sorted(names)
        assert b"def test_it" in files.read("code/test_x.py", 1000)


SHOUTS = r"""
printf '::add-mask::e\n  ::stop-commands::x\n##[group]a\n##vso[task.setvariable]b\n#\033[0m#teamcity[c]\n'
printf '\302\240::error::d\nsection_start:1:x\r\033[0Kf\n\342\200\250::set-env name=A::B\n'
printf 'id,odd\n80,::add-mask::x ##vso[y]\n' > "$SUBMISSION_DIR/submission.csv"
exit 3
"""
ORDER = re.compile(r"^\s*::|##[^\s\[]*\[|\x1b|[\r\u2028\x85]", re.M)


@pytest.mark.parametrize("options", [(), ("-rA", "-vv", "--tb=long", "-l"), ("-n1",), ("--tb=line", "-s")])
def test_agent_output_cannot_issue_ci_commands(
    options: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("shouts")
    shutil.copytree(TOYS, folder, dirs_exist_ok=True)
    (folder / "pytest.ini").write_text(INI)
    agent = folder / "agents/leaver"
    agent.mkdir()
    (agent / "config.yaml").write_text(CONFIG)
    (agent / "start.sh").write_text(SHOUTS)
    made = run(folder, *PYTEST, "competitions", "--agent=leaver", "--run-group=g", *options)
    assert "add-mask" in made.stdout and "teamcity" in made.stdout, made.stdout + made.stderr
    assert not ORDER.findall(made.stdout + made.stderr), made.stdout
    for command in (
        ("report", "g", "--runs"),
        ("report", "g", "--format=json"),
        ("watch", "g", "--once"),
        ("audit", "g"),
    ):
        shown = run(folder, sys.executable, "-m", "pytest_mlebench.cli", *command)
        assert not ORDER.findall(shown.stdout + shown.stderr), shown.stdout


def test_a_later_session_restores_the_guard(finished: Path, tmp_path: Path) -> None:
    group = tmp_path / "runs/g"
    shutil.copytree(finished / "reports/g", group)
    (group / "conftest.py").write_text((group / "conftest.py").read_text() + "raise SystemExit\n")
    protect_all(tmp_path / "runs")
    assert (group / "conftest.py").read_text() == (finished / "reports/g/conftest.py").read_text()
    (group / "conftest.py").write_text("# the user's\n")
    protect_all(tmp_path / "runs")
    assert (group / "conftest.py").read_text() == "# the user's\n"
