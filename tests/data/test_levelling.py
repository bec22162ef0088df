"""An attacker who reads only the metadata of prepared files cannot guess labels."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_mlebench import LocalSandbox, default_agents, default_catalogue
from pytest_mlebench.authoring.archives import unpack_zip
from pytest_mlebench.authoring.files import link
from pytest_mlebench.catalog import Competition
from pytest_mlebench.data import dataset as data_dataset
from pytest_mlebench.data.dataset import Dataset, level
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.errors import DataError
from pytest_mlebench.extras.engines.scratch import copied
from pytest_mlebench.extras.remote_data.source import RemoteSource as Storage
from pytest_mlebench.runs.run import RunOptions, obfuscated_data, run_agent

CLASSES, EACH = 5, 60
LEVEL, DRAWS = 0.01, 4000
YAML = """\
id: toy-classes
title: Photos in the folders of their classes
split: own
category: Image Classification
metric: accuracy
direction: higher
leaderboard: {teams: 100, gold: 0.9, silver: 0.8, bronze: 0.7, median: 0.6}
"""
GRADE = """\
def grade(submission, answers):
    return float((submission["label"] == answers["label"]).mean())
"""
# As in the archive, some photos of each class are linked, and some are rewritten.
PREPARE = """\
import hashlib
import pandas as pd
from pytest_mlebench.authoring.files import link
def prepare(raw, public, private):
    rows = []
    for folder in sorted((raw / "photos").iterdir()):
        for path in sorted(folder.iterdir()):
            id = hashlib.sha256(path.read_bytes()).hexdigest()[:10]
            rows.append((id, folder.name))
            (public / "test").mkdir(exist_ok=True)
            link(path, public / "test" / f"{id}.jpg")
            (public / "small").mkdir(exist_ok=True)
            (public / "small" / f"{id}.bin").write_bytes(path.read_bytes()[:10])
    rows = pd.DataFrame(rows, columns=["id", "label"]).sort_values("id")
    rows.to_csv(private / "test.csv", index=False)
    rows.assign(label="a").to_csv(public / "sample_submission.csv", index=False)
"""
ONLY_LINKS = "".join(line for line in PREPARE.splitlines(keepends=True) if "small" not in line)
Prepare = Callable[[Path, Competition, Path], Dataset]


@pytest.fixture
def competition(tmp_path: Path) -> Competition:
    folder = tmp_path / "toy-classes"
    folder.mkdir()
    for name, text in {
        "competition.yaml": YAML,
        "grade.py": GRADE,
        "prepare.py": PREPARE,
        "description.md": "Which?\n",
        "description_obfuscated.md": "Which?\n",
    }.items():
        (folder / name).write_text(text)
    return Competition.load(folder)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive ordered by class, like the real ones."""
    rng = np.random.default_rng(0)
    path = tmp_path / "toy-classes.zip"
    with zipfile.ZipFile(path, "w") as packed:
        for label in "abcde"[:CLASSES]:
            for number in range(EACH):
                packed.writestr(f"photos/{label}/{number}.jpg", rng.bytes(5000))
    return path


def from_an_archive(archive: Path, competition: Competition, root: Path) -> Dataset:
    (root / competition.id).mkdir(parents=True)
    shutil.copy(archive, root / competition.id / f"{competition.id}.zip")
    return DataStore(root).prepare(competition, keep_raw=True)


def by_moving_what_only_this_call_unpacked(archive: Path, competition: Competition, root: Path) -> Dataset:
    (competition.folder / "prepare.py").write_text(ONLY_LINKS)
    (root / competition.id).mkdir(parents=True)
    shutil.copy(archive, root / competition.id / f"{competition.id}.zip")
    return DataStore(root).prepare(Competition.load(competition.folder), keep_raw=False)


def from_the_users_own_folder(archive: Path, competition: Competition, root: Path) -> Dataset:
    raw = root.parent / "raw"
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(raw)
    return DataStore(root).prepare(competition, raw_dir=raw)


def again_from_kept_raw_data_which_is_removed(archive: Path, competition: Competition, root: Path) -> Dataset:
    from_an_archive(archive, competition, root)
    return DataStore(root).prepare(competition, force=True, keep_raw=False)


def pulled_from_data_that_is_not_level(archive: Path, competition: Competition, root: Path) -> Dataset:
    there = root.parent / "there"
    as_an_earlier_version_did(archive, competition, there)
    DataStore(there).push(competition, Storage(f"file://{root.parent / 'remote'}"))
    return DataStore(root, source=f"file://{root.parent / 'remote'}").prepare(competition)


def as_an_earlier_version_did(archive: Path, competition: Competition, root: Path) -> Dataset:
    """Data whose files are links to files that were unpacked class by class."""
    dataset = from_an_archive(archive, competition, root)
    labels = dict(line.split(",") for line in dataset.answers.read_text().split())
    shutil.rmtree(dataset.raw)
    for folder in (dataset.public / "test", dataset.public / "small"):
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
        shutil.rmtree(folder)
        folder.mkdir()
        for place, name in enumerate(sorted(files, key=lambda name: (labels[name.partition(".")[0]], name))):
            (folder / name).write_bytes(files[name])
            os.utime(folder / name, ns=(place, place))
    os.utime(dataset.public)
    return dataset


def of_an_earlier_version(archive: Path, competition: Competition, root: Path) -> Dataset:
    before = as_an_earlier_version_did(archive, competition, root)
    assert not DataStore(root).is_ready(competition) and not DataStore(root).is_usable(competition)
    return DataStore(root).prepare(before.competition)


WAYS: list[Prepare] = [
    from_an_archive,
    by_moving_what_only_this_call_unpacked,
    from_the_users_own_folder,
    again_from_kept_raw_data_which_is_removed,
    pulled_from_data_that_is_not_level,
    of_an_earlier_version,
]


def channels(folder: Path) -> dict[str, dict[str, float]]:
    """The metadata of each file that a process can read through a read-only mount, as numbers by name."""
    found: dict[str, dict[str, float]] = {}
    for place, entry in enumerate(os.scandir(folder)):
        about = Path(entry.path).stat()
        found.setdefault("place in the folder", {})[entry.name] = place
        for name in ("st_ino", "st_mtime_ns", "st_ctime_ns", "st_nlink", "st_mode", "st_uid", "st_blocks", "st_dev"):
            found.setdefault(name, {})[entry.name] = getattr(about, name)
        found.setdefault("place on the disk", {})[entry.name] = place_on_disk(Path(entry.path))
    return found


FS_IOC_FIEMAP = 0xC020660B


def place_on_disk(path: Path) -> int:
    """Disk position of the first extent of a file, which FIEMAP shows to any user (0 if unknown)."""
    request = bytearray(struct.pack("=QQIIII", 0, 1 << 62, 1, 0, 1, 0) + bytes(56))  # FIEMAP_FLAG_SYNC
    with path.open("rb") as file:
        try:
            fcntl.ioctl(file, FS_IOC_FIEMAP, request)
        except OSError:
            return 0
    return int(struct.unpack_from("=QQ", request, 32)[1])


def p_value(values: dict[str, float], labels: dict[str, str]) -> float:
    """The share of shuffled labels for which neighbours agree as often. Ties in the values are broken at random."""
    rng = np.random.default_rng(1)
    own = np.unique([labels[name.partition(".")[0]] for name in values], return_inverse=True)[1].astype(np.int8)
    keys = np.array(list(values.values()))
    ordered = own[np.lexsort((rng.random(len(own)), keys))]
    drawn = rng.permuted(np.broadcast_to(own, (DRAWS, len(own))), axis=1)
    agreement = [(rows[:, 1:] == rows[:, :-1]).sum(axis=1) for rows in (ordered[np.newaxis], drawn)]
    return float((1 + (agreement[1] >= agreement[0]).sum()) / (1 + DRAWS))


def tells(public: Path, labels: dict[str, str]) -> set[str]:
    """Metadata that reveals labels, by a permutation test with Bonferroni correction.

    One test in a hundred finds something by chance. The same finding in two independent preparations is not chance.
    """
    told = {
        (path.name, name): values
        for path in public.iterdir()
        if path.is_dir()
        for name, values in channels(path).items()
    }
    return {" ".join(key) for key, values in told.items() if p_value(values, labels) < LEVEL / len(told)}


def labels_of(dataset: Dataset) -> dict[str, str]:
    return dict(line.split(",") for line in dataset.answers.read_text().split()[1:])


@pytest.mark.full
def test_the_attacker_succeeds_on_data_of_earlier_versions(
    archive: Path, competition: Competition, tmp_path: Path
) -> None:
    dataset = as_an_earlier_version_did(archive, competition, tmp_path / "data")
    told = tells(dataset.public, labels_of(dataset))
    assert {"test st_mtime_ns", "test st_ino", "small st_mtime_ns", "small st_ino"} <= set(told)


@pytest.mark.parametrize(
    "prepare",
    [pytest.param(way, marks=pytest.mark.full if way is not from_an_archive else ()) for way in WAYS],
    ids=lambda prepare: prepare.__name__,
)
def test_metadata_reveals_no_labels(prepare: Prepare, archive: Path, competition: Competition, tmp_path: Path) -> None:
    dataset, again = (prepare(archive, competition, tmp_path / name / "data") for name in ("one", "again"))
    assert not tells(dataset.public, labels_of(dataset)) & tells(again.public, labels_of(again))
    folders = [dataset.public, *(path for path in dataset.public.rglob("*") if path.is_dir())]
    files = [path for path in dataset.prepared.rglob("*") if path.is_file()]
    assert len({path.stat().st_mtime_ns for path in [*folders, *files]}) == 1
    assert {path.stat().st_nlink for path in files} == {1}
    assert not [path for path in files if os.listxattr(path)]


def in_the_archives_order(values: Iterable[Any]) -> list[Any]:
    return list(values)


def test_files_moved_in_the_order_of_their_archive_reveal_labels(
    archive: Path, competition: Competition, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_mlebench.authoring.archives.shuffled", in_the_archives_order)
    datasets = [
        by_moving_what_only_this_call_unpacked(archive, competition, tmp_path / name / "data")
        for name in ("one", "two")
    ]
    told = set.intersection(*(tells(dataset.public, labels_of(dataset)) for dataset in datasets))
    assert "test st_ino" in told


def test_files_are_moved_if_all_are_links_to_raw_data_in_random_order(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_mlebench.data.dataset.os.sendfile", None)  # copying would fail
    source, raw = tmp_path / "source", tmp_path / "raw"
    unpack_zip(archive, raw, mixed_in=made(tmp_path / "mixed"))
    made(source / "test")
    inodes = {}
    for place, path in enumerate(sorted(raw.rglob("*.jpg"))):
        link(path, source / "test" / f"{place}.jpg")
        inodes[f"{place}.jpg"] = path.stat().st_ino
    assert level(source, tmp_path / "level", raw)
    assert {path.name: path.stat().st_ino for path in (tmp_path / "level/test").iterdir()} == inodes


@pytest.mark.parametrize("spoil", ["written", "linked twice"])
def test_no_file_is_moved_if_one_is_not_a_link_or_is_linked_twice(spoil: str, archive: Path, tmp_path: Path) -> None:
    source, raw = made(tmp_path / "source"), tmp_path / "raw"
    unpack_zip(archive, raw, mixed_in=made(tmp_path / "mixed"))
    for path in raw.rglob("*.jpg"):
        link(path, source / path.relative_to(raw))
    one = next(source.rglob("*.jpg"))
    if spoil == "written":
        one.with_name("new.jpg").write_bytes(one.read_bytes())
    else:
        link(one, source / "elsewhere" / "again.jpg")
    assert not level(source, tmp_path / "level", raw)
    before = {path.stat().st_ino for path in source.rglob("*.jpg")}
    assert before.isdisjoint(path.stat().st_ino for path in (tmp_path / "level").rglob("*.jpg"))


def made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


class Killed(Exception):
    """Simulates a kill."""


@pytest.mark.parametrize("where", ["store._remove", "dataset._set_times_of_folders"])
def test_the_next_call_finishes_one_that_stopped_before_setting_times(
    where: str, archive: Path, competition: Competition, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        if (tmp_path / "one/data" / competition.id / "prepared").exists():
            raise Killed

    unpatched = data_dataset._set_times_of_folders

    def stop_or_set(top: Path, folders: list[str]) -> None:
        stop()
        unpatched(top, folders)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(f"pytest_mlebench.data.{where}", stop if where == "store._remove" else stop_or_set)
        by_moving_what_only_this_call_unpacked(archive, competition, tmp_path / "one/data")
    store, competition = DataStore(tmp_path / "one/data"), Competition.load(competition.folder)
    assert store.dataset(competition).is_prepared and not store.is_usable(competition)
    dataset = store.prepare(competition, keep_raw=False)
    assert dataset.is_level and not dataset.has_moved_files and not dataset.has_raw
    assert {path.stat().st_nlink for path in dataset.prepared.rglob("*") if path.is_file()} == {1}
    assert store.verify(competition) == []


@pytest.mark.full
def test_copies_on_a_nodes_disk_reveal_no_labels(archive: Path, competition: Competition, tmp_path: Path) -> None:
    dataset = as_an_earlier_version_did(archive, competition, tmp_path / "data")
    with copied(dataset, tmp_path / "scratch") as near:
        told = tells(near.public, labels_of(dataset))
        assert near.is_level
    with copied(dataset, tmp_path / "again") as near:
        assert not told & tells(near.public, labels_of(dataset))


@pytest.mark.full
def test_obfuscated_data_reveals_no_labels(archive: Path, competition: Competition, tmp_path: Path) -> None:
    dataset = from_an_archive(archive, competition, tmp_path / "data")
    with obfuscated_data(dataset, keep=False) as public:
        told = tells(public, labels_of(dataset))
    with obfuscated_data(dataset, keep=False) as public:
        assert not told & tells(public, labels_of(dataset))
        assert len({path.stat().st_mtime_ns for path in (public, *public.rglob("*"))}) == 1


@pytest.mark.full
def test_a_run_rejects_data_whose_metadata_may_reveal_labels(
    archive: Path, competition: Competition, tmp_path: Path
) -> None:
    dataset = as_an_earlier_version_did(archive, competition, tmp_path / "data")
    options = RunOptions(folder=tmp_path / "group")
    with pytest.raises(DataError, match="mlebench prepare -c toy-classes"):
        run_agent(default_agents()["dummy"], competition, dataset, LocalSandbox(), options)
    assert not options.folder.exists()


@pytest.mark.full
def test_data_stays_level_when_its_description_is_replaced(
    archive: Path, competition: Competition, tmp_path: Path
) -> None:
    dataset = from_an_archive(archive, competition, tmp_path / "data")
    dataset.note(description="kaggle")
    DataStore(tmp_path / "data").prepare(competition, description="bundled")
    assert dataset.is_level and dataset.description == "bundled"


@pytest.mark.full
def test_levelling_again_keeps_every_byte_and_the_state(
    archive: Path, competition: Competition, tmp_path: Path
) -> None:
    dataset = as_an_earlier_version_did(archive, competition, tmp_path / "data")
    before = {path: path.read_bytes() for path in dataset.prepared.rglob("*") if path.is_file()}
    state = dataset.state
    DataStore(tmp_path / "data").prepare(competition)
    assert {path: path.read_bytes() for path in dataset.prepared.rglob("*") if path.is_file()} == before
    assert dataset.state == state and DataStore(tmp_path / "data").verify(competition) == []
    assert sorted(path.name for path in dataset.folder.iterdir()) == [
        ".lock",
        "files.jsonl.gz",
        "prepared",
        "state.json",
    ]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_an_archive_of_test_photos_is_sorted_by_name(version: str, tmp_path: Path) -> None:
    competition = default_catalogue(version=version)["inaturalist-2019-fgvc6"]
    dataset = DataStore(tmp_path).prepare(competition, synthetic=1)
    (archive,) = dataset.public.glob("test2019.tar*")
    with tarfile.open(archive) as packed:
        members = packed.getmembers()
    assert [member.name for member in members] == sorted(member.name for member in members)
    assert len(members) > 5 and len({(m.mtime, m.mode, m.uid, m.gid, m.uname) for m in members}) == 1
