"""Files in the archives of runs are audited, packed and exported like the folders of earlier versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.errors import UsageError
from pytest_mlebench.extras.audit.programs import code_of
from pytest_mlebench.extras.bundles.bundle import OTHER_FILES, Bundle, is_known, read_bundle, write_bundle
from pytest_mlebench.extras.interop import mle_bench
from pytest_mlebench.extras.interop.contract import Request
from pytest_mlebench.results import read_group
from pytest_mlebench.runs.guard import protect
from tests.groups import record_with, save_group
from tests.left import leave, left


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    (record,) = save_group(tmp_path / "g", [record_with(default_catalogue()["spaceship-titanic"], "gold")])
    leave(tmp_path / "g" / record.run_id, {"code/a.py": "print(1)", "logs/a.log": "one", "submission/b.csv": "id"})
    protect(tmp_path / "g")
    return tmp_path / "g" / record.run_id


@pytest.mark.parametrize(
    ("leave_out", "kept"),
    [
        ([], {"code/a.py", "logs/a.log", "submission/b.csv"}),
        (["code"], {"logs/a.log", "submission/b.csv"}),
        (["logs", "submissions"], {"code/a.py"}),
        (["code", "logs", "submissions"], set()),
    ],
)
def test_a_bundle_omits_files_excluded_from_archives(
    leave_out: list[str], kept: set[str], run_dir: Path, tmp_path: Path
) -> None:
    write_bundle(run_dir.parent, tmp_path / "b.tar.zst", leave_out=leave_out)
    (tmp_path / "there").mkdir()
    found = read_bundle(tmp_path / "b.tar.zst", tmp_path / "there")
    assert left(found.folder / run_dir.name).keys() == kept
    assert {own.what for own in found.index.left_out} == set(leave_out)
    assert not [entry.path for entry in found.index.files if entry.path.endswith(".py")]


def test_a_bundle_contains_only_files_that_sessions_and_commands_write(run_dir: Path, tmp_path: Path) -> None:
    ours = {"reproduced.json": "logs", "reproduced.log": "logs", "snapshots/0001.csv": "snapshots"}
    for name in ("notes.env", ".files.zip.part", "snapshots/.partial", *ours):
        (run_dir / name).parent.mkdir(exist_ok=True)
        (run_dir / name).write_text("x")
    (run_dir.parent / ".jobs/j").mkdir(parents=True)
    (run_dir.parent / ".jobs/j/plan.json").write_text("{}")
    made = write_bundle(run_dir.parent, tmp_path / "b.tar.zst")
    paths = {entry.path for entry in made.index.files}
    assert {f"{run_dir.name}/{name}" for name in ours} <= paths and all(map(is_known, paths))
    assert [(own.what, own.files) for own in made.index.left_out] == [(OTHER_FILES, 3)], "the maker's jobs are nothing"
    less = write_bundle(run_dir.parent, tmp_path / "less.tar.zst", leave_out=set(ours.values()))
    assert not {entry.path for entry in less.index.files} & {f"{run_dir.name}/{name}" for name in ours}


@pytest.mark.parametrize(
    ("content", "why"), [("another", "changed while"), ("x", "shorter while"), (None, "run.log cannot be read")]
)
def test_a_file_that_changes_while_it_is_packed_is_an_error(
    content: str | None, why: str, run_dir: Path, tmp_path: Path
) -> None:
    (run_dir / "run.log").write_text("growing")

    def change(_: Bundle) -> tuple[str, ...]:
        (run_dir / "run.log").unlink()
        if content is not None:
            (run_dir / "run.log").write_text(content)
        return ()

    with pytest.raises(UsageError, match=why):
        write_bundle(run_dir.parent, tmp_path / "b.tar.zst", check=change)
    assert not list(tmp_path.glob("*b.tar.zst*"))


@pytest.mark.parametrize("content", [b"not an archive", b""])
def test_an_agents_file_named_like_an_archive_is_an_ordinary_file(content: bytes, tmp_path: Path) -> None:
    (record,) = save_group(tmp_path / "g", [record_with(default_catalogue()["spaceship-titanic"], "gold")])
    for folder in ("code", "logs"):  # the format of earlier versions
        (tmp_path / "g" / record.run_id / folder).mkdir(exist_ok=True)
        (tmp_path / "g" / record.run_id / folder / "files.zip").write_bytes(content)
    write_bundle(tmp_path / "g", tmp_path / "b.tar.zst", leave_out=["logs"])
    (tmp_path / "there").mkdir()
    found = read_bundle(tmp_path / "b.tar.zst", tmp_path / "there")
    assert left(found.folder / record.run_id).keys() == {"code/files.zip"}
    assert [(own.what, own.why) for own in found.index.left_out] == [("logs", "by --leave-out")]


def test_an_export_has_unpacked_folders_and_a_guard(run_dir: Path, tmp_path: Path) -> None:
    request = Request(to="mle-bench", output=tmp_path / "out")
    (folder,) = map(Path, mle_bench.export(read_group(run_dir.parent), request))
    assert (folder / run_dir.name / "code/a.py").read_text() == "print(1)"
    assert (folder / run_dir.name / "logs/a.log").read_text() == "one"
    assert (folder / "conftest.py").read_bytes() == (run_dir.parent / "conftest.py").read_bytes()


def test_code_in_an_archive_is_read_and_a_damaged_archive_is_named(run_dir: Path) -> None:
    programs, not_read = code_of(run_dir)
    assert [(program.file, program.text) for program in programs] == [("code/a.py", "print(1)")] and not_read == []
    (run_dir / "files.zip").write_bytes(b"x")
    assert code_of(run_dir) == ([], ["files.zip"])
