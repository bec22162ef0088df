"""Prepared files tell nothing but their names and contents: an attacker reads metadata alone, and guesses labels."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pytest_mlebench import LocalSandbox, default_agents, default_catalogue
from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.errors import DataError
from pytest_mlebench.extras.engines.scratch import copied
from pytest_mlebench.extras.remote_data.source import RemoteSource as Storage
from pytest_mlebench.runs.obfuscation import obfuscated_data
from pytest_mlebench.runs.run import RunOptions, run_agent

CLASSES, EACH = 5, 60
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
# Of each class, as in the archive, some photos are linked, and some are written anew.
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
    """An archive in the order of its classes, as the real ones are."""
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
    """Data whose files are links to what was unpacked class by class."""
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
    from_the_users_own_folder,
    again_from_kept_raw_data_which_is_removed,
    pulled_from_data_that_is_not_level,
    of_an_earlier_version,
]


def channels(folder: Path) -> dict[str, dict[str, float]]:
    """What a process below a read-only mount reads of each file's metadata, by name: numbers."""
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
    """Where the first extent of a file lies, as FIEMAP tells any user (0: unknown)."""
    request = bytearray(struct.pack("=QQIIII", 0, 1 << 62, 1, 0, 1, 0) + bytes(56))  # FIEMAP_FLAG_SYNC
    with path.open("rb") as file:
        try:
            fcntl.ioctl(file, FS_IOC_FIEMAP, request)
        except OSError:
            return 0
    return int(struct.unpack_from("=QQ", request, 32)[1])


def p_value(values: dict[str, float], labels: dict[str, str]) -> float:
    """How often neighbours agree as well where labels are shuffled. Ties in the values are broken at random."""
    rng = np.random.default_rng(1)
    own = np.array([labels[name.partition(".")[0]] for name in values])
    keys = np.array(list(values.values()))

    def agreement(of: np.ndarray) -> float:
        ordered = of[np.lexsort((rng.random(len(of)), keys))]
        return float((ordered[1:] == ordered[:-1]).mean())

    seen = agreement(own)
    return (1 + sum(agreement(rng.permutation(own)) >= seen for _ in range(2000))) / 2001


def tells(public: Path, labels: dict[str, str]) -> list[str]:
    """The channels that tell labels, by a permutation test with Bonferroni's correction over all of them."""
    told = {
        (folder, name): values for folder in ("test", "small") for name, values in channels(public / folder).items()
    }
    return [" ".join(key) for key, values in told.items() if p_value(values, labels) < 0.05 / len(told)]


def labels_of(dataset: Dataset) -> dict[str, str]:
    return dict(line.split(",") for line in dataset.answers.read_text().split()[1:])


@pytest.mark.full
def test_the_attacker_reads_labels_of_data_as_earlier_versions_prepared_it(
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
def test_metadata_tells_no_labels(prepare: Prepare, archive: Path, competition: Competition, tmp_path: Path) -> None:
    dataset = prepare(archive, competition, tmp_path / "data")
    assert tells(dataset.public, labels_of(dataset)) == []
    folders = [dataset.public, *(path for path in dataset.public.rglob("*") if path.is_dir())]
    files = [path for path in dataset.prepared.rglob("*") if path.is_file()]
    assert len({path.stat().st_mtime_ns for path in [*folders, *files]}) == 1
    assert {path.stat().st_nlink for path in files} == {1}
    assert not [path for path in files if os.listxattr(path)]


@pytest.mark.full
def test_copies_on_a_nodes_disk_tell_no_labels(archive: Path, competition: Competition, tmp_path: Path) -> None:
    dataset = as_an_earlier_version_did(archive, competition, tmp_path / "data")
    with copied(dataset, tmp_path / "scratch") as near:
        assert near.is_level and tells(near.public, labels_of(dataset)) == []


@pytest.mark.full
def test_obfuscated_data_tells_no_labels(archive: Path, competition: Competition, tmp_path: Path) -> None:
    dataset = from_an_archive(archive, competition, tmp_path / "data")
    with obfuscated_data(dataset, keep=False) as public:
        assert tells(public, labels_of(dataset)) == []
        assert len({path.stat().st_mtime_ns for path in (public, *public.rglob("*"))}) == 1


@pytest.mark.full
def test_a_run_refuses_data_whose_metadata_may_tell(archive: Path, competition: Competition, tmp_path: Path) -> None:
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
def test_members_of_an_archive_of_test_photos_are_in_the_order_of_their_names(version: str, tmp_path: Path) -> None:
    competition = default_catalogue(version=version)["inaturalist-2019-fgvc6"]
    dataset = DataStore(tmp_path).prepare(competition, synthetic=1)
    (archive,) = dataset.public.glob("test2019.tar*")
    with tarfile.open(archive) as packed:
        members = packed.getmembers()
    assert [member.name for member in members] == sorted(member.name for member in members)
    assert len(members) > 5 and len({(m.mtime, m.mode, m.uid, m.gid, m.uname) for m in members}) == 1
