"""Commands accept bundles instead of run groups; groups are renamed, deleted and annotated consistently."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pytest_mlebench import Bench
from pytest_mlebench.cli.common import log
from pytest_mlebench.cli.main import main
from pytest_mlebench.errors import UsageError
from pytest_mlebench.extras.audit.programs import MAX_PARSED, code_of
from pytest_mlebench.extras.bundles.bundle import TABLES, write_bundle
from pytest_mlebench.records.record import MANIFEST
from pytest_mlebench.results import read_group
from pytest_mlebench.runs.files import open_files
from pytest_mlebench.runs.guard import has_guard
from tests.audit.test_deceiving_bundles import READS_ANSWERS, card_of
from tests.audit.test_verify import HOSTILE, World, copy, members, pack, run_json, tables, with_files, world
from tests.plugin.conftest import TOYS

__all__ = ["copy", "world"]
pytestmark = pytest.mark.full


@pytest.fixture
def bundle(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bundle of the group, in an empty working directory with a separate temporary folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    write_bundle(world.group, tmp_path / "toys.tar.zst", extra={TABLES: tables(world.group)})
    return tmp_path / "toys.tar.zst"


COMMANDS = {
    "report": (["report", "BUNDLE", "--runs"], "toy/gold"),
    "report as HTML": (["report", "BUNDLE", "--format=html"], "<title>"),
    "report of two": (["report", "BUNDLE", "GROUP"], "toy/gold"),
    "audit": (["audit", "BUNDLE", "DATA"], "4 runs: 2 clean, 2 look, 0 violation"),
    "regrade": (["regrade", "BUNDLE", "DATA"], "0 with a different grade"),
    "trajectory": (["trajectory", "BUNDLE/RUN"], "Well."),
    "export": (["export", "BUNDLE", "--to=inspect", "-o", "out"], "out/"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_accepts_a_group_accepts_a_bundle(
    name: str, world: World, bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, expected = COMMANDS[name]
    run = next(record.run_id for record in read_group(world.group).records if record.llm)
    group = Path(shutil.copytree(world.group, bundle.parent / "other"))
    places = {"BUNDLE": str(bundle), "GROUP": str(group), "BUNDLE/RUN": f"{bundle}/{run}"}
    data = [f"--data-dir={world.data}", f"--competitions-dir={TOYS / 'competitions'}"]
    command = [one for word in words for one in (data if word == "DATA" else [places.get(word, word)])]
    before = bundle.read_bytes()
    assert main(command) == 0
    assert expected in capsys.readouterr().out
    assert bundle.read_bytes() == before
    assert not list((bundle.parent / "tmp").iterdir()), "unpacked files are deleted"


def test_unpacked_files_that_cannot_be_deleted_are_reported(
    bundle: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Bench(reporter=log) as bench:
        folder = bench.group_folder(bundle).parent
        folder.rename(tmp_path / "elsewhere")
        folder.symlink_to(tmp_path / "elsewhere")
    assert f"{folder} was not deleted completely" in caplog.text
    assert (tmp_path / "elsewhere").is_dir()


def test_watch_explains_why_it_does_not_accept_a_bundle(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(bundle)]) == 2
    assert "is a bundle, which does not change" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["report", "audit", "unbundle"])
@pytest.mark.parametrize(
    "name", ["a path to the parent", "a size that is too large", "a file of the index twice", "content"]
)
def test_a_hostile_archive_leaves_nothing_behind(
    name: str, command: str, bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = pack(HOSTILE[name][0](members(bundle)), bundle.parent / "hostile.tar.zst")
    known = {path.name for path in bundle.parent.iterdir()}
    words = [command, str(hostile), *(["--to=into"] if command == "unbundle" else [])]
    assert main(words) == 1
    assert "Traceback" not in capsys.readouterr().err
    assert {path.name for path in bundle.parent.iterdir()} - known <= {"into"}
    assert not list((bundle.parent / "tmp").iterdir())
    assert not (bundle.parent / "into").exists() or not list((bundle.parent / "into").iterdir())


PLANTED = (
    *("conftest.py", "test_evil.py", "pytest.ini", "sub/conftest.py", "judge/conftest.py", "familiarity-x.svg"),
    *(
        "audit.json",
        "judge/votes.jsonl",
        ".git/run.json",
        "x/.git/config",
        "x/snapshots/conftest.py",
        "x/submission",
        "x/llm/x.py",
        "x/run.json/x.py",
    ),
)


def test_unbundle_writes_only_a_run_group(
    world: World, copy: Path, bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_json(copy).parent
    left_by_agent = {"code/conftest.py": b"raise SystemExit", "code/.git/config": b"x", "logs/test_a.py": b"assert 0"}
    own = {f"{run.name}/reproduced.json": b"{}", f"{run.name}/snapshots/0001.csv": b"id"}
    planted = {f"{run.name}/{path}": content for path, content in left_by_agent.items()} | dict.fromkeys(PLANTED, b"x")
    with_files(bundle, "evil.tar.zst", planted | own)
    assert main(["unbundle", "evil.tar.zst", "--to=into"]) == 0
    group = bundle.parent / "into/toys"
    assert capsys.readouterr().out.strip() == str(Path("into/toys"))
    assert [record.key for record in read_group(group).records] == [r.key for r in read_group(world.group).records]
    found = {path.relative_to(group).as_posix() for path in group.rglob("*") if path.is_file()}
    assert own.keys() <= found and not found & planted.keys() - {"conftest.py"} and not (group / "x").exists()
    assert has_guard(group)
    with open_files(group / run.name) as files:
        assert left_by_agent.items() <= {file.path: files.read(file.path, file.size) for file in files.below()}.items()
    assert main(["unbundle", "evil.tar.zst", "--to=into"]) == 2
    assert "exists" in capsys.readouterr().err
    assert [path.name for path in group.parent.iterdir()] == ["toys"]


def test_a_pipe_is_not_a_bundle(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    command = [sys.executable, "-m", "pytest_mlebench.cli", "unbundle", "pipe", "--to=into"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "pipe is not a bundle" in done.stderr


def test_unbundle_refuses_a_bundle_without_a_run_group(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with_files(bundle, "evil.tar.zst", {"x/code/conftest.py": b"x", ".x/run.json": b"{}"}, only=True)
    assert main(["unbundle", "evil.tar.zst", "--to=into"]) == 1
    assert "has no run group" in capsys.readouterr().err and not list((bundle.parent / "into").iterdir())


def test_a_folder_that_cannot_be_read_is_not_left_out_of_a_bundle(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, scandir = str(run_json(copy).parent), os.scandir

    def denied(path: str) -> object:
        if path == folder:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", denied)
    with pytest.raises(UsageError, match=f"{folder} cannot be packed: Permission denied"):
        write_bundle(copy, tmp_path / "toys.tar.zst")
    assert not (tmp_path / "toys.tar.zst").exists()


def test_a_group_is_renamed_with_all_its_files(copy: Path, world: World, capsys: pytest.CaptureFixture[str]) -> None:
    options = [f"--runs-dir={copy.parent}"]
    assert main(["regrade", str(copy), f"--data-dir={world.data}", f"--competitions-dir={TOYS / 'competitions'}"]) == 0
    assert main(["groups", *options, "--note", "toys", "The first try."]) == 0
    assert main(["groups", *options, "--rename", "toys", "best"]) == 0
    group = copy.with_name("best")
    assert not copy.exists() and {record.run_group for record in read_group(group).records} == {"best"}
    for name in (MANIFEST, "metadata.json", *(path.name for path in group.glob("regraded-*.json"))):
        assert json.loads((group / name).read_text())["run_group"] == "best"
    capsys.readouterr()
    assert main(["report", str(group)]) == 0
    assert "The first try." in capsys.readouterr().out
    for wrong in ("../up", "", "a/b", ".."):
        assert main(["groups", *options, "--rename", "best", wrong]) == 2
    (copy.parent / "taken").mkdir()
    assert main(["groups", *options, "--rename", "best", "taken"]) == 2
    assert main(["groups", *options, "--delete", "bes"]) == 2, "a part of a name is not enough"
    assert group.is_dir()
    assert main(["groups", *options, "--delete", "best"]) == 0
    assert not group.exists() and (copy.parent / "taken").is_dir()


def test_the_verdict_of_an_audit_is_shown_above_all_results(
    world: World, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run_json(copy).parent / "code").mkdir(exist_ok=True)
    (run_json(copy).parent / "code/solution.py").write_text(READS_ANSWERS)
    data = [f"--data-dir={world.data}", f"--competitions-dir={TOYS / 'competitions'}"]
    assert main(["audit", str(copy), *data]) == 1
    capsys.readouterr()
    for how in ("table", "md", "html"):
        assert main(["report", str(copy), f"--format={how}"]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert "Audit: 1 of 4 runs has violations, 1 needs a look" in shown
        assert "Local sandbox: nothing was isolated" in shown


def test_a_partly_searched_large_program_is_a_finding(world: World, copy: Path, tmp_path: Path) -> None:
    code = run_json(copy).parent / "code"
    code.mkdir(exist_ok=True)
    (code / "large.py").write_text("x = [" + "1," * MAX_PARSED + "]\nopen('/private/test.csv')\n")
    (code / "deep.py").write_text("\n".join("x = " + "+".join(['"a"'] * 900) for _ in range(90)))
    (code / "long.py").write_text("a = '" + "b" * 390_000 + "'\n")
    (large,) = [own for own in code_of(code.parent)[0] if own.file.endswith("large.py")]
    assert not list(large.nodes()) and not large.facts.is_python
    card = card_of(world, copy, tmp_path)
    assert card.findings is not None and card.violations == 1, "its lines were searched"
    texts = {(own.file, own.text) for own in card.findings.findings}
    assert ("code/large.py", "this code is too large to be parsed: only its lines were searched") in texts
    assert ("code/deep.py", "this code is too deep or too large to be read completely") in texts
    assert ("code/long.py", "this code has a line that is too long to be searched completely") in texts
