"""In the data store, data is absent or complete."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_mlebench.authoring.archives import write_zip
from pytest_mlebench.catalog import Competition, default_catalogue
from pytest_mlebench.catalog.competition import golden_command
from pytest_mlebench.cli.main import parser_and_commands
from pytest_mlebench.data.dataset import default_data_dir, fingerprint, md5
from pytest_mlebench.data.preparing import Twins
from pytest_mlebench.data.store import DataStore, PrepareOptions
from pytest_mlebench.data.tables import count_sides
from pytest_mlebench.errors import DataError, UsageError
from pytest_mlebench.extras.remote_data.source import RemoteSource as Storage
from pytest_mlebench.grading.twins import TwinStore

TOY = Path(__file__).parents[1] / "toys/competitions/toy-parity"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the toy competition that tests can change."""
    return Path(shutil.copytree(TOY, tmp_path / "toy-parity"))


@pytest.fixture
def store(tmp_path: Path) -> DataStore:
    return DataStore(tmp_path / "data")


def from_kaggle(folder: Path, extra: str = "") -> Competition:
    """The toy as a competition whose data must be downloaded."""
    config = folder / "competition.yaml"
    config.write_text(config.read_text().replace("source: bundled", "source: kaggle\n" + extra))
    return Competition.load(folder)


def put_raw_data(store: DataStore, competition: Competition) -> None:
    store.dataset(competition).raw.mkdir(parents=True)
    (store.dataset(competition).raw / "train.csv").write_text("id\n")


def temporary_files(store: DataStore) -> list[str]:
    return [path.name for path in store.root.glob("*/.*") if path.name != ".lock"]


def test_prepared_data_is_in_mle_benchs_folders(folder: Path, store: DataStore) -> None:
    dataset = store.prepare(Competition.load(folder))
    assert dataset.public == store.root / "toy-parity/prepared/public"
    names = sorted(path.relative_to(dataset.prepared).as_posix() for path in dataset.prepared.rglob("*.*"))
    assert names == [
        "private/test.csv",
        "public/description.md",
        "public/sample_submission.csv",
        "public/test.csv",
        "public/train.csv",
    ]
    assert all(path.stat().st_mode & 0o222 == 0 for path in dataset.prepared.rglob("*.csv"))


def test_prepared_data_is_unchanged_unless_forced(folder: Path, store: DataStore) -> None:
    competition = Competition.load(folder)
    first = store.prepare(competition).answers.stat().st_ino
    assert store.prepare(competition).answers.stat().st_ino == first
    assert store.prepare(competition, force=True).answers.stat().st_ino != first
    assert temporary_files(store) == []


def test_data_prepared_by_other_programs_is_used_unchanged(folder: Path, store: DataStore) -> None:
    for side in ("public", "private"):
        (store.root / "toy-parity/prepared" / side).mkdir(parents=True)
    assert store.prepare(Competition.load(folder)).is_prepared


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        ("raise OSError(28, 'No space left on device', 'x.csv')", "the disk of .* is full.*call again to resume"),
        (
            "raise ValueError('broken table')",
            "prepare.py raised ValueError: broken table .prepare.py, line 2: raise .*complete, unpacked download",
        ),
        ("(public / 'train.csv').write_text('')", "did not write private/test.csv"),
    ],
)
def test_a_failed_preparation_leaves_nothing_and_can_be_repeated(
    folder: Path, store: DataStore, prepare: str, message: str
) -> None:
    good = (folder / "prepare.py").read_text()
    (folder / "prepare.py").write_text(f"def prepare(raw, public, private):\n    {prepare}\n")
    with pytest.raises(DataError, match=f"toy-parity: .*{message}"):
        store.prepare(Competition.load(folder))
    assert not store.dataset(Competition.load(folder)).prepared.exists() and temporary_files(store) == []
    (folder / "prepare.py").write_text(good)
    assert store.prepare(Competition.load(folder)).is_prepared


def test_missing_files_of_the_raw_data_are_named(folder: Path, store: DataStore, tmp_path: Path) -> None:
    (folder / "prepare.py").write_text(
        "from pytest_mlebench.authoring.files import link\n"
        "def prepare(raw, public, private):\n    link(raw / 'train.csv', public / 'train.csv')\n"
    )
    competition = from_kaggle(folder)
    with pytest.raises(DataError, match=r"no raw data at .*prepare -c toy-parity --data-dir .*--raw-dir FOLDER"):
        store.prepare(competition)
    with pytest.raises(DataError, match=r"file .*train.csv is missing in the raw data"):
        store.prepare(competition, raw_dir=tmp_path)
    (folder / "prepare.py").write_text("def prepare(raw, public, private):\n    (raw / 'train.csv').open()\n")
    with pytest.raises(DataError, match=r"No such file or directory \(.*train.csv\).*; the raw data has no files"):
        store.prepare(competition, raw_dir=tmp_path / "missing")


def test_matching_checksums_are_recorded(folder: Path, store: DataStore) -> None:
    competition = from_kaggle(folder, "checksums: {public: {train.csv: 863f1299b40112c5ede4c01ae95ffa05}}")
    put_raw_data(store, competition)
    assert store.prepare(competition).is_verified is True


def test_generated_raw_data_excludes_a_folder_with_raw_data(tmp_path: Path) -> None:
    competition, twins = default_catalogue()["smoke-digits"], Twins(Twins.key_of(1), "micro")
    with pytest.raises(UsageError, match="synthetic raw data is generated: leave out either raw_dir or synthetic"):
        DataStore(tmp_path / "data").prepare(competition, raw_dir=tmp_path, synthetic=1)
    for options in (PrepareOptions(raw_dir=tmp_path), PrepareOptions(synthetic=1)):
        with pytest.raises(UsageError, match="the raw data of a twin is generated: leave out raw_dir and synthetic"):
            TwinStore(tmp_path / "data", twins).prepare(competition, **options)


def test_checksums_of_archives_are_those_of_their_bytes(folder: Path, store: DataStore) -> None:
    with (folder / "prepare.py").open("a") as code:
        code.write("    (public / 'x.zip').write_bytes(b'one')\n")
    competition = from_kaggle(folder, "checksums: {public: {x.zip: f97c5d29941bfb1b2fdab0874906ab82}}")
    put_raw_data(store, competition)
    dataset = store.prepare(competition)
    assert dataset.is_verified is True
    (dataset.public / "x.zip").chmod(0o644)
    (dataset.public / "x.zip").write_bytes(b"two")
    assert store.verify(competition) == [f"public/x.zip: expected {md5(b'one')}, found {md5(b'two')}"]


def test_a_damaged_listing_is_reported(folder: Path, store: DataStore) -> None:
    competition = Competition.load(folder)
    listing = store.prepare(competition).listing
    good = listing.read_bytes()
    for damaged in (good[:20] + b"\xff" * 20 + good[40:], gzip.compress(b"5\n")):
        listing.write_bytes(damaged)
        (problem,) = store.verify(competition)
        assert problem.startswith("files.jsonl.gz is damaged")


def test_the_disk_check_can_be_skipped(folder: Path, store: DataStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_mlebench.io.files.free_bytes", lambda folder: 0)
    competition = from_kaggle(folder)
    archive = store.dataset(competition).archive
    write_zip(archive, {"train.csv": "id\n"})
    with pytest.raises(DataError, match="not enough disk space"):
        store.prepare(competition)
    dataset = store.prepare(competition, check_disk=False)
    os.utime(dataset.public)
    with pytest.raises(DataError, match="not enough disk space"):
        store.prepare(competition)
    assert store.prepare(competition, check_disk=False).is_level


def test_the_bundled_description_is_written_as_it_is(folder: Path, store: DataStore) -> None:
    (folder / "description.md").write_bytes(b"Guess.\r\nPlease.\r\n")
    competition = Competition.load(folder)
    dataset = store.prepare(competition)
    for _ in range(2):
        assert (dataset.public / "description.md").read_bytes() == b"Guess.\r\nPlease.\r\n"
        dataset.note(description="kaggle")
        store.prepare(competition, description="bundled")
    dataset.note(description="kaggle")
    competition.description.write_bytes(b"\xff")
    with pytest.raises(DataError, match=r"description.md: it is not UTF-8 text"):
        store.prepare(competition, description="bundled")


def test_leftovers_of_killed_processes_are_removed(folder: Path, store: DataStore) -> None:
    competition = Competition.load(folder)
    for name in (".removing-toy-parity.zip", ".unpacking-x/raw/train.csv"):
        path = store.dataset(competition).folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    store.prepare(competition)
    assert temporary_files(store) == []


@pytest.mark.full
def test_the_error_for_wrong_checksums_names_file_and_both_values(
    folder: Path, store: DataStore, tmp_path: Path
) -> None:
    competition = from_kaggle(folder, "checksums: {private: {test.csv: '00000000000000000000000000000000'}}")
    put_raw_data(store, competition)
    aside = store.dataset(competition).folder / "prepared.mismatch"
    wrong = r"private/test.csv: expected 0{32}, found 10f944638f2afbd9f096fde6ffc6d987\n.*kept in .*--skip-verification"
    for _ in range(2):
        with pytest.raises(DataError, match=wrong):
            store.prepare(competition, keep_raw=False)
        assert not store.dataset(competition).is_prepared and store.dataset(competition).has_raw
        assert md5(aside / "private/test.csv") == "10f944638f2afbd9f096fde6ffc6d987"
    assert store.prepare(competition, verify=False).is_verified is None
    assert not aside.exists()
    assert store.prepare(competition, raw_dir=tmp_path, force=True).is_verified is False


@pytest.mark.full
def test_raw_data_is_deleted_unless_it_is_to_be_kept(folder: Path, store: DataStore) -> None:
    competition = from_kaggle(folder)
    put_raw_data(store, competition)
    store.prepare(competition, keep_raw=None)
    assert store.dataset(competition).has_raw  # the raw data existed before
    store.prepare(competition, force=True, keep_raw=False)
    assert not store.dataset(competition).raw.exists()


def test_concurrent_processes_prepare_once(folder: Path, store: DataStore) -> None:
    program = (
        "import sys, pathlib\n"
        "from pytest_mlebench.catalog import Competition\n"
        "from pytest_mlebench.data.store import DataStore\n"
        f"dataset = DataStore(pathlib.Path({str(store.root)!r})).prepare("
        f"Competition.load(pathlib.Path({str(folder)!r})))\n"
        "print(dataset.answers.stat().st_ino)\n"
    )
    both = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    first, second = (process.communicate(timeout=60)[0] for process in both)
    assert first == second != ""
    assert temporary_files(store) == []


def test_a_folder_that_cannot_be_written_is_a_readable_error(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"data folder .* cannot be written"):
        DataStore(tmp_path / "file").prepare(Competition.load(folder))


def test_synthetic_data_needs_no_download_and_is_not_verified(folder: Path, store: DataStore) -> None:
    competition = from_kaggle(folder)
    dataset = store.prepare(competition, synthetic=1)
    assert dataset.is_prepared and dataset.is_synthetic and dataset.is_verified is False
    assert not dataset.raw.exists() and temporary_files(store) == [], "raw data in the store is real"
    digest = md5(dataset.answers)
    assert not store.verify(competition) and dataset.is_verified is False, "its files are complete, but not real"
    assert md5(store.prepare(competition, synthetic=1, force=True).answers) == digest, "the same seed"
    for seed in (2, 0):
        with pytest.raises(DataError, match=r"toy-parity: other data is prepared in .* \(--force\)"):
            store.prepare(competition, synthetic=seed)
    dataset.note(seed=None)
    assert store.prepare(competition, synthetic=2).is_synthetic, "earlier versions did not record the seed"
    with pytest.raises(DataError, match="only real data is pushed"):
        store.push(competition, Storage("file:///nowhere"))


@pytest.mark.full
def test_synthetic_and_real_data_replace_each_other_only_if_forced(folder: Path, store: DataStore) -> None:
    competition = Competition.load(folder)
    dataset = store.prepare(competition)
    for _ in range(2):
        with pytest.raises(DataError, match=r"toy-parity: other data is prepared in .* \(--force\)"):
            store.prepare(competition, synthetic=1)
        os.utime(dataset.public)  # it must then be copied, while the store is locked
    assert not dataset.is_synthetic and not dataset.is_level
    assert store.prepare(competition, synthetic=1, force=True).is_synthetic
    assert store.prepare(competition).is_synthetic, "runs use prepared data"
    assert not store.prepare(competition, force=True).is_synthetic and dataset.is_verified
    assert dataset.state["seed"] is None


def test_the_default_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MLEBENCH_DATA_DIR", str(tmp_path))
    assert default_data_dir() == tmp_path
    monkeypatch.delenv("MLEBENCH_DATA_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert default_data_dir() == tmp_path / "cache/mlebench"


def test_a_later_version_has_only_the_files_that_differ(folder: Path) -> None:
    (folder / "v2").mkdir()
    (folder / "v2/grade.py").write_text("def grade(submission, answers):\n    return 2.0\n")
    first, second = Competition.load(folder), Competition.load(folder, version="v2")
    assert first.file("grade.py") == folder / "grade.py" and second.file("grade.py") == folder / "v2/grade.py"
    assert second.file("prepare.py") == folder / "prepare.py"
    assert second.module("grade").grade(None, None) == 2.0


def test_the_state_is_readable_json(folder: Path, store: DataStore) -> None:
    dataset = store.prepare(Competition.load(folder))
    assert json.loads((store.root / "toy-parity/state.json").read_text()) == {
        "verified": True,
        "description": "bundled",
        "fingerprint": fingerprint(dataset),
        "bytes": 674,
        "sides": count_sides(dataset),
    }
    (store.root / "toy-parity/state.json").unlink()
    assert store.dataset(Competition.load(folder)).is_verified is None


def test_a_printed_command_includes_the_folder_of_a_custom_competition(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(TOY, tmp_path / "my races/toy-parity"))
    own = Competition.load(folder)
    command = DataStore(tmp_path / "data").command("prepare", own, "--force")
    words = shlex.split(command)
    parser_and_commands(words[1])[0].parse_args(words[1:])
    for option, value in (("--competitions-dir", folder.parent), ("--data-dir", tmp_path / "data")):
        assert words[words.index(option) + 1] == str(value), command
    assert shlex.split(golden_command(own))[-1] == str(folder)
