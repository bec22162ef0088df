"""``mlebench`` reads ini files as pytest does, and options mean the same in both."""

from __future__ import annotations

import json
from pathlib import Path

import numpy  # noqa: F401 - a session in this process unloads what it imports, but numpy cannot be imported twice
import pytest

from pytest_mlebench.cli.main import main
from pytest_mlebench.data.dataset import DESCRIPTIONS, OBFUSCATED
from pytest_mlebench.errors import UsageError
from pytest_mlebench.ini import find_ini_file
from pytest_mlebench.options import OPTIONS, from_ini, read
from pytest_mlebench.plugin.session import read_settings
from pytest_mlebench.records.outcome import THRESHOLDS
from pytest_mlebench.sandbox.network.policy import NETWORKS

KEYS = {
    "ini": 'mlebench_seeds = 3\nmlebench_runs_dir = my runs\nmlebench_agents_dir = a "b c"\nmlebench_split = lite\n',
    "toml": "mlebench_seeds = '3'\nmlebench_runs_dir = 'my runs'\nmlebench_agents_dir = ['a', 'b c']\n",
    "ini_options": "mlebench_seeds = 3\nmlebench_runs_dir = 'my runs'\nmlebench_agents_dir = ['a', 'b c']\n",
}
"""The same values in each file format."""
FLAG = "mlebench_allow_unenforced_limits"
FILES = [
    ("pytest.toml", "[pytest]\n" + KEYS["toml"]),
    (".pytest.toml", "[pytest]\n" + KEYS["toml"]),
    ("pytest.ini", "[pytest]\n" + KEYS["ini"]),
    (".pytest.ini", "[pytest]\n" + KEYS["ini"]),
    ("pyproject.toml", "[tool.pytest]\n" + KEYS["toml"]),
    ("pyproject.toml", "[tool.pytest.ini_options]\n" + KEYS["ini_options"]),
    ("tox.ini", "[pytest]\n" + KEYS["ini"]),
    ("setup.cfg", "[tool:pytest]\n" + KEYS["ini"]),
]
PRINT_SETTINGS = """
    import json
    from pytest_mlebench.plugin.session import session_of

    def pytest_collection_finish(session):
        found = session_of(session.config).settings
        names = ("seeds", "runs_dir", "agents_dirs", "split", "competitions_dirs", "allow_unenforced_limits")
        print("settings", json.dumps({name: getattr(found, name) for name in names}, default=str))
"""


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("--network", NETWORKS),
        ("--description", (*DESCRIPTIONS, OBFUSCATED)),
        ("--min-medal", THRESHOLDS),
    ],
)
def test_an_option_accepts_the_values_that_the_code_supports(option: str, values: tuple[str, ...]) -> None:
    """The options duplicate these values, because importing them would slow down every start of pytest."""
    parse = OPTIONS[option].parse
    with pytest.raises(ValueError, match=f"is not one of {', '.join(values)}$"):
        parse("other")
    assert [parse(value) for value in values] == list(values)


@pytest.fixture
def folders(pytester: pytest.Pytester) -> Path:
    """A project's root with the folders that the ini keys name."""
    for name in ("a", "b c", "below/deeper"):
        (pytester.path / name).mkdir(parents=True)
    return pytester.path


def as_pytest_reads_it(pytester: pytest.Pytester) -> dict[str, object]:
    pytester.makeconftest(PRINT_SETTINGS)
    result = pytester.runpytest_inprocess(
        "--collect-only", "-s", "-p", "no:cacheprovider", f"--rootdir={pytester.path}"
    )
    (line,) = [line for line in result.outlines if line.startswith("settings ")]
    found: dict[str, object] = json.loads(line.removeprefix("settings "))
    return found


@pytest.mark.full
@pytest.mark.parametrize(("name", "text"), FILES, ids=[f"{name} {text.split(chr(10))[0]}" for name, text in FILES])
def test_every_kind_of_ini_file_is_read_as_pytest_reads_it(
    pytester: pytest.Pytester, folders: Path, name: str, text: str
) -> None:
    (folders / name).write_text(f"{text}{FLAG} = true\n")
    ini = find_ini_file(folders / "below/deeper")
    assert (ini.root, ini.path) == (folders, folders / name)
    ours = read([from_ini(ini.values, ini.path, Path("/"))], runs_dir=Path("/nowhere"))
    assert (ours.seeds, ours.runs_dir) == (3, folders / "my runs")
    assert ours.agents_dirs == (folders / "a", folders / "b c")
    theirs = as_pytest_reads_it(pytester)
    assert ours.allow_unenforced_limits
    names = ("seeds", "runs_dir", "agents_dirs", "split", "allow_unenforced_limits")
    assert {name: json.loads(json.dumps(getattr(ours, name), default=str)) for name in names}.items() <= theirs.items()


@pytest.mark.parametrize(("text", "value"), [("True", True), ("on", True), ("1", True), ("no", False), ("F", False)])
def test_a_flag_in_an_ini_file_has_the_values_that_pytest_accepts(
    pytester: pytest.Pytester, text: str, value: bool
) -> None:
    pytester.makeini(f"[pytest]\n{FLAG} = {text}\n")
    ini = find_ini_file(pytester.path)
    assert read([from_ini(ini.values, ini.path, Path("/"))], runs_dir=Path("/")).allow_unenforced_limits is value
    assert read_settings(pytester.parseconfig()).allow_unenforced_limits is value


@pytest.mark.parametrize(
    ("name", "text"), [("pytest.ini", f"{FLAG} = maybe\n"), ("pytest.toml", f"{FLAG} = 'maybe'\n")]
)
def test_an_invalid_flag_in_an_ini_file_is_a_one_line_error(pytester: pytest.Pytester, name: str, text: str) -> None:
    (pytester.path / name).write_text(f"[pytest]\n{text}")
    ini = find_ini_file(pytester.path)
    with pytest.raises(UsageError, match=rf"^{FLAG} in .*/{name}: 'maybe' is neither true nor false$"):
        read([from_ini(ini.values, ini.path, Path("/"))], runs_dir=Path("/nowhere"))
    with pytest.raises(UsageError, match=rf"^{FLAG} in .*/{name}: 'maybe' is neither true nor false$"):
        read_settings(pytester.parseconfig())


SECTIONS = ("tool.pytest", "tool.pytest.ini_options")


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("mlebench_seeds = 3", "seeds", 3),
        ("mlebench_cpus = 1.5", "cpus", 1.5),
        ("mlebench_time_limit = 5400", "time_limit", 5400.0),
        ("mlebench_gpu_ids = [0, 1]", "gpu_ids", ("0", "1")),
        ("mlebench_gpu_ids = 2", "gpu_ids", ("2",)),
        ("mlebench_models = 'gpt-5* anthropic/*'", "models", ("gpt-5*", "anthropic/*")),
        ("mlebench_models = [4]", "models", ("4",)),
        ("mlebench_allow_unenforced_limits = true", "allow_unenforced_limits", True),
        ("mlebench_allow_unenforced_limits = 'off'", "allow_unenforced_limits", False),
        ("mlebench_seeds = []", "seeds", 1),
    ],
)
def test_values_in_a_toml_file_may_have_their_own_types(
    pytester: pytest.Pytester, section: str, line: str, field: str, value: object
) -> None:
    (pytester.path / "pyproject.toml").write_text(f"[{section}]\n{line}\n")
    ini = find_ini_file(pytester.path)
    ours = read([from_ini(ini.values, ini.path, Path("/"))], runs_dir=Path("/"))
    assert getattr(ours, field) == getattr(read_settings(pytester.parseconfig("-W", "error")), field) == value


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize(
    "line",
    [
        "mlebench_split = ['lite']",
        "mlebench_seeds = true",
        "mlebench_time_limit = 1979-05-27",
        "mlebench_time_limit = {a = 1}",
        "mlebench_allow_host = [['a']]",
        """mlebench_models = "a 'b" """,
        "mlebench_allow_unenforced_limits = [true]",
    ],
)
def test_a_value_of_a_wrong_type_in_a_toml_file_is_a_one_line_error(
    pytester: pytest.Pytester, section: str, line: str
) -> None:
    (pytester.path / "pyproject.toml").write_text(f"[{section}]\n{line}\n")
    ini = find_ini_file(pytester.path)
    with pytest.raises(UsageError, match=r"^mlebench_\w+ in .*/pyproject\.toml: [^\n]+$") as ours:
        read([from_ini(ini.values, ini.path, Path("/"))], runs_dir=Path("/"))
    with pytest.raises(UsageError) as theirs:
        read_settings(pytester.parseconfig("-W", "error"))
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (["pytest.ini", "pyproject.toml"], "pytest.ini"),
        (["pyproject.toml", "tox.ini", "setup.cfg"], "pyproject.toml"),
        (["tox.ini", "setup.cfg"], "tox.ini"),
        (["below/tox.ini", "pytest.ini"], "below/tox.ini"),
    ],
)
def test_the_nearest_ini_file_is_read_in_pytests_order(
    pytester: pytest.Pytester, folders: Path, monkeypatch: pytest.MonkeyPatch, files: list[str], found: str
) -> None:
    sections = {"pyproject.toml": "[tool.pytest.ini_options]\n", "setup.cfg": "[tool:pytest]\n"}
    for name in files:
        (folders / name).write_text(sections.get(name, "[pytest]\n") + "mlebench_seeds = 2\n")
    assert find_ini_file(folders / "below").path == folders / found
    monkeypatch.chdir(folders / "below")
    config = pytester.parseconfig()
    assert config.inipath == folders / found


@pytest.mark.parametrize("marker", ["pyproject.toml", "setup.py", None])
def test_without_an_ini_file_pytests_root_is_used(
    pytester: pytest.Pytester, folders: Path, monkeypatch: pytest.MonkeyPatch, marker: str | None
) -> None:
    if marker:
        (folders / marker).touch()
    monkeypatch.chdir(folders / "below/deeper")
    ini = find_ini_file(Path.cwd())
    assert ini.path is None and ini.root == pytester.parseconfig().rootpath


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pytest.ini", "mlebench_seeds = 1\n"),
        ("pyproject.toml", "[tool.pytest\n"),
        ("tox.ini", "[pytest]\nmlebench_agents_dir = 'a\n"),
        ("setup.cfg", "[tool:pytest]\nx = 1\nx = 2\n"),
        ("pytest.toml", "[pytest]\nx = '\xff'\n"),
    ],
)
def test_an_unreadable_ini_file_is_a_one_line_error(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=name):
        ini = find_ini_file(tmp_path)
        from_ini(ini.values, ini.path, tmp_path)


def test_run_groups_are_found_where_pytest_writes_them(
    pytester: pytest.Pytester, folders: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folders / "reports/mine").mkdir(parents=True)
    (folders / "reports/mine/manifest.json").touch()
    (folders / "pytest.ini").touch()
    monkeypatch.chdir(folders / "below")
    assert main(["report", "mien"]) == 2
    assert "did you mean mine?" in capsys.readouterr().err
    (folders / "pytest.ini").write_text("[pytest]\nmlebench_runs_dir = elsewhere\n")
    (folders / "elsewhere/other").mkdir(parents=True)
    (folders / "elsewhere/other/manifest.json").touch()
    assert main(["report", "ohter"]) == 2
    assert "did you mean other?" in capsys.readouterr().err


def test_an_invalid_ini_key_prints_one_line_and_has_status_2(
    folders: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folders / "tox.ini").write_text("[pytest]\nmlebench_cpus = abc\n")
    monkeypatch.chdir(folders)
    assert main(["list", "--split=smoke"]) == 2
    assert capsys.readouterr().err == f"mlebench: mlebench_cpus in {folders}/tox.ini: 'abc' is not a positive number\n"


def test_options_shared_with_pytest_have_the_same_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["grade", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for name in ("--data-dir", "--competitions-dir", "--max-submission-size", "--grading-memory", "--grading-time"):
        assert OPTIONS[name].help in text
