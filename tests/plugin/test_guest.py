"""In unrelated projects, the installed plugin changes nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_mlebench
from pytest_mlebench.io.files import bundled
from pytest_mlebench.options import OPTIONS
from tests.plugin.collected import collected

pytestmark = pytest.mark.full

TAKES_SHORT_NAMES = """
    def pytest_addoption(parser):
        for name in ("--agent", "--split", "--network", "--seeds"):
            parser.addoption(name, help="not ours")
"""
USES_THEM = """
    def test_theirs(request):
        assert request.config.getoption("--agent") == "smith"
        assert request.config.getoption("split") is None
        assert request.config.getoption("--mlebench-split") is None
"""
OURS = ("--mlebench-agent=toy/gold", "--mlebench-seeds=2")


@pytest.fixture
def guest(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project unrelated to this plugin."""
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider\n")
    return pytester


@pytest.mark.parametrize("by", ["conftest", "plugin before ours", "plugin after ours"])
def test_a_taken_short_option_stays_theirs_and_ours_keeps_the_long_name(project: pytest.Pytester, by: str) -> None:
    project.makepyfile(theirs=TAKES_SHORT_NAMES)
    project.syspathinsert()
    if by == "conftest":
        project.makeconftest(TAKES_SHORT_NAMES)
    elif by == "plugin after ours":
        project.makeconftest("pytest_plugins = ['theirs']")
    order = ("-p", "theirs") if by == "plugin before ours" else ()
    project.runpytest_subprocess(*order, "--agent=smith", project.makepyfile(USES_THEM)).assert_outcomes(passed=1)
    ours = project.runpytest_subprocess(*order, *OURS, "--co", "-q", "competitions/toy-parity")
    assert [line.split("::")[1] for line in collected(ours)] == ["toy/gold[seed=0]", "toy/gold[seed=1]"]
    text = project.runpytest_subprocess(*order, "--help").stdout.str()
    names = {name for line in re.findall(r"^  (--.*)", text, re.M) for name in re.split(r"[\s,=]+", line)}
    assert {"--mlebench-agent", "--mlebench-min-medal", "--min-medal"} <= names
    assert not re.search(r"--agent\b.*ID", text)  # the help of the other plugin's option does not mention an ID


def test_a_conftest_loaded_during_collection_may_also_take_a_short_name(guest: pytest.Pytester) -> None:
    nested = guest.mkdir("deep") / "deeper"
    nested.mkdir()
    (nested / "conftest.py").write_text("def pytest_addoption(parser):\n    parser.addoption('--agent')\n")
    (nested / "test_it.py").write_text("def test_it(): pass\n")
    guest.runpytest_subprocess().assert_outcomes(passed=1)


def test_the_help_lists_every_option_by_both_names(guest: pytest.Pytester) -> None:
    words = set(re.split(r"[\s,=]+", guest.runpytest_subprocess("--help").stdout.str()))
    assert {name for option in OPTIONS.values() for name in (option.name, option.long_name)} <= words


@pytest.mark.parametrize("content", ["title: of another tool\n", "- a list\n", "leaderboards: [\n", "\xff\xfe\x00"])
def test_a_competition_file_of_another_tool_is_left_alone(guest: pytest.Pytester, content: str) -> None:
    folder = guest.mkdir("race")
    (folder / "competition.yaml").write_text(content, encoding="latin-1")
    guest.makepyfile("def test_own(): pass")
    result = guest.runpytest_subprocess("-ra")
    result.assert_outcomes(passed=1)
    assert "race" not in result.stdout.str()


@pytest.mark.parametrize("name", ["competitions/", "x" * 300, "loop", "loop/inner"])
def test_a_path_that_does_not_exist_gives_pytests_own_error(guest: pytest.Pytester, name: str) -> None:
    (guest.path / "loop").symlink_to("loop")
    result = guest.runpytest_subprocess(name)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.errlines == guest.runpytest_subprocess(name, "-p", "no:mlebench").errlines


def test_starting_pytest_imports_no_heavy_modules(guest: pytest.Pytester) -> None:
    test = guest.makepyfile("def test_own(): pass")

    def modules(*arguments: str) -> set[str]:
        code = f"import sys, pytest; pytest.main(['-q', {str(test)!r}, *sys.argv[1:]]); print(*sys.modules)"
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
        return set(done.stdout.splitlines()[-1].split())

    added = modules() - modules("-p", "no:mlebench")
    assert {name.split(".")[0] for name in added} - set(sys.stdlib_module_names) == {"pytest_mlebench"}
    ours = {name.split(".")[1] for name in added if name.startswith("pytest_mlebench.")}
    assert ours == {"defaults", "errors", "io", "options", "option_values", "plugin", "runs"}
    of_runs = {name for name in added if name.startswith("pytest_mlebench.runs.")}
    assert of_runs == {"pytest_mlebench.runs.guard"}  # it checks each folder and imports nothing itself


@pytest.mark.parametrize("where", ["inside", "outside"])
def test_node_ids_do_not_depend_on_the_location_of_the_virtual_environment(
    guest: pytest.Pytester, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    root = guest.path if where == "inside" else tmp_path_factory.mktemp("elsewhere")
    site = root / ".venv/lib/python3/site-packages"
    package = site / "pytest_mlebench"
    ignore = shutil.ignore_patterns("__pycache__", "bundled")
    shutil.copytree(Path(pytest_mlebench.__file__).parent, package, ignore=ignore)
    shutil.copytree(bundled("agents"), package / "bundled/agents", ignore=ignore)
    for competition in bundled("competitions").glob("smoke-*"):
        shutil.copytree(competition, package / "bundled/competitions" / competition.name, ignore=ignore)
    (root / ".venv/pyvenv.cfg").touch()
    monkeypatch.setenv("PYTHONPATH", str(site))
    result = guest.runpytest_subprocess("--co", "-q", "--split=smoke", "-k", "digits")
    name = "competitions/smoke-digits/competition.yaml"
    assert collected(result) == [f"{name}::{c}" for c in ("prepare", "scores", "rejections", "answers_stay_private")]
    run = guest.runpytest_subprocess("-v", f"{name}::scores")
    run.assert_outcomes(passed=1)
    run.stdout.fnmatch_lines([f"{name}::scores PASSED*"])


def test_an_agent_runs_in_a_checkout_without_the_packages_for_tests() -> None:
    blocked = ("hypothesis", "pytest_benchmark", "shapely", "mypy", "build")
    plugins = ("pytest_mlebench.plugin.hooks", "xdist.plugin", "pytest_metadata.plugin", "pytest_html.plugin")
    arguments = ["--co", "-q", "--agent=baseline", "--split=smoke", *(f"-p{name}" for name in plugins)]
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({blocked})); import pytest; sys.exit(pytest.main({arguments}))"
    )
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 tests collected" in done.stdout


def test_an_invalid_ini_key_gives_a_one_line_error_that_names_the_file(guest: pytest.Pytester) -> None:
    guest.makeini("[pytest]\nmlebench_network = foo\n")
    result = guest.runpytest_subprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: mlebench_network in */tox.ini: 'foo' is not one of llm, none, full"])
