"""The gate's searches: each finds a planted defect, and nothing if there is none."""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
import tarfile
import time
import wave
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image, PngImagePlugin

from pytest_mlebench.authoring.tfrecord import tfrecord
from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.errors import CompetitionError
from pytest_mlebench.gate.groups import grader_problems, shared_groups
from pytest_mlebench.gate.leaks import find_leaks, neighbours_agree

YAML = """\
id: toy-animals
title: Animals
split: own
category: Image Classification
metric: accuracy
direction: higher
leaderboard: {teams: 100, gold: 0.9, silver: 0.8, bronze: 0.7, median: 0.6}
"""
GRADE = """\
from functools import partial
from sklearn.metrics import accuracy_score
from pytest_mlebench.authoring import align
def grade(submission, answers):
    return accuracy_score(answers["label"], align(submission, answers, on="id")["label"])
"""
ROWS = 60
Plant = Callable[[Path, pd.DataFrame], None]


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    """60 images with random names and labels, and 60 training images of other patients."""
    folder = tmp_path / "toy-animals"
    folder.mkdir()
    (folder / "competition.yaml").write_text(YAML)
    (folder / "description.md").write_text("Cats and dogs.")
    (folder / "grade.py").write_text(GRADE)
    found = Dataset(Competition.load(folder), tmp_path / "data")
    rng = np.random.default_rng(3)
    ids = [f"{number:08x}" for number in rng.choice(1 << 31, 2 * ROWS, replace=False)]
    rows = pd.DataFrame({"id": ids, "patient_id": np.arange(2 * ROWS) // 3, "age": rng.integers(20, 90, 2 * ROWS)})
    rows["label"] = rng.choice(["cat", "dog"], 2 * ROWS)
    rows["text"] = [f"a report of {rng.integers(1 << 40)}" for _ in ids]
    images = found.public / "images"
    images.mkdir(parents=True)
    found.private.mkdir()
    for id in ids:
        Image.fromarray(rng.integers(0, 255, (4, 4), dtype=np.uint8)).save(images / f"{id}.png")
        os.utime(images / f"{id}.png", ns=(0, 0))
    train, test = rows[:ROWS], rows[ROWS:]
    train.to_csv(found.public / "train.csv", index=False)
    test.drop(columns=["label", "text"]).to_csv(found.public / "test.csv", index=False)
    test[["id"]].assign(label="cat", text="").to_csv(found.public / "sample_submission.csv", index=False)
    test[["id", "label", "text"]].to_csv(found.private / "test.csv", index=False)
    return found


@pytest.fixture
def without_classifier(monkeypatch: pytest.MonkeyPatch) -> None:
    """The classifier also finds most planted defects, but takes ten times as long and has separate tests."""
    monkeypatch.setattr("pytest_mlebench.gate.leaks.attacks", lambda *_: iter(()))


def _zip_of(files: dict[str, bytes], comment: dict[str, bytes] | None = None) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            info.comment = (comment or {}).get(name, b"")
            archive.writestr(info, content)
    return buffer.getvalue()


def a_table_in_an_archive_in_an_archive(public: Path, truth: pd.DataFrame) -> None:
    inner = _zip_of({"deep/labels.csv": truth[["id", "label"]].to_csv(index=False).encode()})
    with tarfile.open(public / "more.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("inner.zip")
        member.size = len(inner)
        archive.addfile(member, io.BytesIO(inner))


def a_table_with_other_words_for_the_labels(public: Path, truth: pd.DataFrame) -> None:
    coded = truth["label"].map({"cat": "0", "dog": "1"})
    pd.DataFrame({"file": truth["id"] + ".png", "k": coded}).to_csv(public / "meta.csv", index=False)


def records_of_json(public: Path, truth: pd.DataFrame) -> None:
    records = [{"image": id, "kind": label} for id, label in zip(truth["id"], truth["label"], strict=True)]
    (public / "meta.json").write_text(json.dumps(records))


def a_parquet_file(public: Path, truth: pd.DataFrame) -> None:
    pytest.importorskip("pyarrow.parquet")
    truth[["id", "label"]].to_parquet(public / "meta.parquet")


def records_of_tensorflow(public: Path, truth: pd.DataFrame) -> None:
    examples = [
        {"name": id, "target": int(label == "dog")} for id, label in zip(truth["id"], truth["label"], strict=True)
    ]
    (public / "test.tfrec").write_bytes(tfrecord(examples))


def texts_in_a_binary_file(public: Path, truth: pd.DataFrame) -> None:
    (public / "model.bin").write_bytes(b"\0".join([b"\x07", *(text.encode() for text in truth["text"]), b"\x07"]))


def sizes_of_files(public: Path, truth: pd.DataFrame) -> None:
    for row in truth.itertuples():
        (public / f"{row.id}.raw").write_bytes(os.urandom(16 if row.label == "dog" else 17))


def times_of_files(public: Path, truth: pd.DataFrame) -> None:
    for id, label in zip(truth["id"], truth["label"], strict=True):
        time = 10**18 + 10**9 * (label == "dog")
        os.utime(public / "images" / f"{id}.png", ns=(time, time))


def the_order_of_times(public: Path, truth: pd.DataFrame) -> None:
    for place, row in enumerate(truth.sort_values("label").itertuples()):
        os.utime(public / "images" / f"{row.id}.png", ns=(place, place))


def _in_turns(truth: pd.DataFrame) -> list[str]:
    """The ids class by class, with the first class split: not sorted by label, but with equal neighbours."""
    cats, dogs = (truth["id"][truth["label"] == label].tolist() for label in ("cat", "dog"))
    return [*cats[::2], *dogs, *cats[1::2]]


def neighbours_in_times_with_ties(public: Path, truth: pd.DataFrame) -> None:
    for place, id in enumerate(_in_turns(truth)):
        os.utime(public / "images" / f"{id}.png", ns=(place // 5, place // 5))


def neighbours_in_inodes(public: Path, truth: pd.DataFrame) -> None:
    for id in truth["id"]:
        (public / f"{id}.new").write_bytes(b"same")
        os.utime(public / f"{id}.new", ns=(0, 0))
    # Other processes may use inodes in between.
    files = sorted(public.glob("*.new"), key=lambda path: path.stat().st_ino)
    for id, path in zip(_in_turns(truth), files, strict=True):
        path.rename(public / f"{id}.dat")


def neighbours_in_the_times_of_inodes(public: Path, truth: pd.DataFrame) -> None:
    for id in truth["id"]:
        (public / f"{id}.dat").write_bytes(b"same")
    for id in _in_turns(truth):
        time.sleep(0.005)  # more than a tick of the kernel's clock
        os.utime(public / f"{id}.dat", ns=(0, 0))


def neighbours_in_an_archive(public: Path, truth: pd.DataFrame) -> None:
    (public / "test.zip").write_bytes(_zip_of({f"{id}.dat": b"same" for id in _in_turns(truth)}))


def headers_of_images(public: Path, truth: pd.DataFrame) -> None:
    for row in truth.itertuples():
        header = PngImagePlugin.PngInfo()
        header.add_text("Comment", "camera A" if row.label == "dog" else "camera B")
        Image.new("L", (4, 4)).save(public / "images" / f"{row.id}.png", pnginfo=header)
        os.utime(public / "images" / f"{row.id}.png", ns=(0, 0))


def exif_of_photos(public: Path, truth: pd.DataFrame) -> None:
    for row in truth.itertuples():
        exif = Image.Exif()
        exif[0x010E] = row.label
        Image.new("L", (4, 4)).save(public / "images" / f"{row.id}.jpg", exif=exif)
        os.utime(public / "images" / f"{row.id}.jpg", ns=(0, 0))


def _dicom(label: str, *, implicit: bool = False, nested: bool = False) -> bytes:
    """The header of a DICOM file with a comment on the patient, in a sequence if ``nested``."""

    def element(group: int, number: int, kind: bytes, value: bytes) -> bytes:
        if implicit and group != 2:
            return struct.pack("<HHI", group, number, len(value)) + value
        length = struct.pack("<HI", 0, len(value)) if kind == b"SQ" else struct.pack("<H", len(value))
        return struct.pack("<HH", group, number) + kind + length + value

    syntax = b"1.2.840.10008.1.2\0" if implicit else b"1.2.840.10008.1.2.1\0"
    told = element(0x10, 0x4000, b"LT", f"{label} ".encode())
    if nested:
        told = element(0x8, 0x1140, b"SQ", struct.pack("<HHI", 0xFFFE, 0xE000, len(told)) + told)
    pixels = struct.pack("<HH", 0x7FE0, 0x10) + (b"" if implicit else b"OW\0\0") + struct.pack("<I", 8) + bytes(8)
    return bytes(128) + b"DICM" + element(2, 0x10, b"UI", syntax) + told + pixels


def tags_of_dicom_files(public: Path, truth: pd.DataFrame) -> None:
    _files(public, truth, "dcm", _dicom)


def tags_of_implicit_dicom_files(public: Path, truth: pd.DataFrame) -> None:
    _files(public, truth, "dcm", partial(_dicom, implicit=True))


def tags_in_sequences_of_dicom_files(public: Path, truth: pd.DataFrame) -> None:
    _files(public, truth, "dcm", partial(_dicom, nested=True))


def comments_of_wav_files(public: Path, truth: pd.DataFrame) -> None:
    def sound(label: str) -> bytes:
        buffer = io.BytesIO()
        with wave.open(buffer, "wb") as file:
            file.setparams((1, 2, 8000, 4, "NONE", ""))
            file.writeframes(bytes(8))
        comment = b"INFOICMT" + struct.pack("<I", 4) + f"{label}\0".encode()
        content = buffer.getvalue()[8:] + b"LIST" + struct.pack("<I", len(comment)) + comment + b"PAD " + bytes(8)
        return b"RIFF" + struct.pack("<I", len(content)) + content

    _files(public, truth, "wav", sound)


def headers_of_arrays(public: Path, truth: pd.DataFrame) -> None:
    def array(label: str) -> bytes:
        content = _array(np.zeros(4))
        return content.replace(b"}  ", b"} \t" if label == "dog" else b"}  ", 1)

    _files(public, truth, "npy", array)


def values_of_arrays(public: Path, truth: pd.DataFrame) -> None:
    _files(public, truth, "npy", lambda label: _array(np.array([label == "dog", 1, 2])))


def an_array_in_the_order_of_the_ids(public: Path, truth: pd.DataFrame) -> None:
    (public / "y.npy").write_bytes(_array((truth["label"] == "dog").to_numpy(dtype=np.int8)))


def an_array_with_ids(public: Path, truth: pd.DataFrame) -> None:
    named = truth.sort_values("id")[["id", "label"]].to_records(index=False)
    (public / "y.npy").write_bytes(_array(named.astype([("id", "U8"), ("label", "U3")])))


def lines_in_the_order_of_the_ids(public: Path, truth: pd.DataFrame) -> None:
    (public / "notes.txt").write_text("\n".join(truth["label"].map({"cat": "a", "dog": "b"})))


def descriptions_in_nifti_files(public: Path, truth: pd.DataFrame) -> None:
    def volume(label: str) -> bytes:
        head = bytearray(352)
        head[:4], head[344:348] = struct.pack("<i", 348), b"n+1\0"
        head[148:151] = label.encode()
        return gzip.compress(bytes(head) + bytes(8), mtime=0)

    _files(public, truth, "nii.gz", volume)


def metadata_of_parquet_files(public: Path, truth: pd.DataFrame) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

    def rows(label: str) -> bytes:
        buffer = io.BytesIO()
        pq.write_table(pa.table({"x": [1]}).replace_schema_metadata({"device": label}), buffer)
        return buffer.getvalue()

    _files(public, truth, "parquet", rows)


def _files(public: Path, truth: pd.DataFrame, suffix: str, content: Callable[[str], bytes]) -> None:
    """One file per id, generated from its label."""
    (public / "files").mkdir()
    for row in truth.itertuples():
        path = public / "files" / f"{row.id}.{suffix}"
        path.write_bytes(content(str(row.label)))
        os.utime(path, ns=(0, 0))


def _array(values: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()


def comments_in_an_archive(public: Path, truth: pd.DataFrame) -> None:
    files = {f"{row.id}.dat": b"same" for row in truth.itertuples()}
    (public / "test.zip").write_bytes(
        _zip_of(files, {f"{row.id}.dat": b"x" if row.label == "dog" else b"" for row in truth.itertuples()})
    )


def the_order_of_an_archive(public: Path, truth: pd.DataFrame) -> None:
    files = {f"{row.id}.dat": b"same" for row in truth.sort_values("label").itertuples()}
    (public / "test.zip").write_bytes(_zip_of(files))


def the_order_of_rows(public: Path, truth: pd.DataFrame) -> None:
    truth.sort_values("label")[["id"]].assign(label="cat", text="").to_csv(
        public / "sample_submission.csv", index=False
    )


PLANTED: dict[Plant, str] = {
    a_table_in_an_archive_in_an_archive: "public/more.tar.gz/inner.zip/deep/labels.csv contains the true values",
    a_table_with_other_words_for_the_labels: "public/meta.csv: column 'k' encodes the true values of 'label'",
    records_of_json: "public/meta.json contains the true values of 'label'",
    a_parquet_file: "public/meta.parquet contains the true values of 'label'",
    records_of_tensorflow: "public/test.tfrec: column 'target' encodes the true values of 'label'",
    texts_in_a_binary_file: "public/model.bin contains the true values of 'text'",
    sizes_of_files: "the public files *.raw: the size in bytes reveals",
    times_of_files: "the public files *.png: the time of change reveals",
    the_order_of_times: "the public files *.png: the order by time of change reveals",
    neighbours_in_times_with_ties: "the public files *.png: the order by time of change reveals",
    neighbours_in_inodes: "the public files *.dat: the order by inode reveals",
    neighbours_in_the_times_of_inodes: "the public files *.dat: the order by time of the inode's change reveals",
    neighbours_in_an_archive: "public/test.zip: neighbours in the order of the files reveal",
    headers_of_images: "the public files *.png: the image header's Comment reveals",
    exif_of_photos: "the public files *.jpg: the image header's EXIF tag 270 reveals",
    tags_of_dicom_files: "the public files *.dcm: the DICOM tag (0010,4000) reveals",
    tags_of_implicit_dicom_files: "the public files *.dcm: the DICOM tag (0010,4000) reveals",
    tags_in_sequences_of_dicom_files: "the public files *.dcm: the DICOM tag (0010,4000) reveals",
    comments_of_wav_files: "the public files *.wav: the chunk INFO ICMT reveals",
    headers_of_arrays: "the public files *.npy: the NumPy header reveals",
    values_of_arrays: "the public files *.npy: the first value reveals",
    an_array_in_the_order_of_the_ids: "public/y.npy: column 'column 0' encodes the true values of 'label'",
    an_array_with_ids: "public/y.npy contains the true values of 'label'",
    lines_in_the_order_of_the_ids: "public/notes.txt: column",
    descriptions_in_nifti_files: "the NIfTI field descrip reveals",
    metadata_of_parquet_files: "the public files *.parquet: the metadata device reveals",
    comments_in_an_archive: "public/test.zip: the archive's comment reveals",
    the_order_of_an_archive: "public/test.zip: the order of the files reveals",
    the_order_of_rows: "the order of the rows of sample_submission.csv reveals",
}


@pytest.mark.full
def test_nothing_is_found_in_sound_data(dataset: Dataset, tmp_path: Path) -> None:
    assert not find_leaks(dataset) and not shared_groups(dataset.competition, dataset)
    assert grader_problems(dataset.competition, dataset, tmp_path) == ([], [])


@pytest.mark.usefixtures("without_classifier")
@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_answers_that_public_files_reveal_are_found(dataset: Dataset, plant: Plant) -> None:
    plant(dataset.public, pd.read_csv(dataset.answers))
    found = find_leaks(dataset)
    assert any(PLANTED[plant] in line for line in found), found


@pytest.mark.parametrize("seed", range(40))
def test_random_orders_raise_no_alarm(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for values in (2, 3, 50, 10**9):
        truth = [str(value) for value in rng.integers(values, size=200)]
        assert not neighbours_agree(rng.integers(70, size=200).tolist(), truth)


@pytest.mark.usefixtures("without_classifier")
def test_ids_that_reveal_the_answers_are_found(dataset: Dataset) -> None:
    for path in (dataset.answers, dataset.sample_submission):
        rows = pd.read_csv(path)
        truth = pd.read_csv(dataset.answers)["label"] if path != dataset.answers else rows["label"]
        rows["id"] = rows["id"].str[:7] + truth.map({"cat": "0", "dog": "1"})
        rows.to_csv(path, index=False)
    # The ids of the sample submission follow the labels of the answers, row by row.
    assert any("character of the ids reveals" in line for line in find_leaks(dataset))


def test_a_group_on_both_sides_is_found_by_column_name_or_declaration(dataset: Dataset) -> None:
    test = pd.read_csv(dataset.public / "test.csv")
    test.assign(patient_id=[7, *test["patient_id"][1:]]).to_csv(dataset.public / "test.csv", index=False)
    (found,) = shared_groups(dataset.competition, dataset)
    assert found.startswith("1 of 21 groups (patient_id) of the test set are also in the training data")
    yaml = dataset.competition.folder / "competition.yaml"
    declared = "groups: {decade: {column: age, train: public/train.csv, test: public/test.csv, pattern: '^(.)'}}\n"
    yaml.write_text(YAML + declared)
    found = shared_groups(Competition.load(yaml), dataset)[0]
    assert "groups (decade) of the test" in found
    yaml.write_text(YAML + declared.replace("'^(.)'", "'^.'"))
    with pytest.raises(CompetitionError, match="a regular expression with a group in parentheses"):
        Competition.load(yaml)


@pytest.mark.full
@pytest.mark.parametrize(
    ("grade", "problem"),
    [
        ("submission['label']", "the order of rows matters"),
        ("submission.set_index('id')['label'].reindex(answers['id']).fillna('')", "without its last row scores"),
        ("submission.drop_duplicates('id').set_index('id')['label'].loc[answers['id']]", "with its last row twice"),
    ],
)
def test_a_grader_that_does_not_match_rows_is_found(dataset: Dataset, tmp_path: Path, grade: str, problem: str) -> None:
    file = dataset.competition.folder / "grade.py"
    file.write_text(GRADE.replace('align(submission, answers, on="id")["label"]', grade))
    assert any(problem in line for line in grader_problems(dataset.competition, dataset, tmp_path)[0])


def test_medals_for_a_constant_prediction_are_found(dataset: Dataset, tmp_path: Path) -> None:
    yaml = dataset.competition.folder / "competition.yaml"
    yaml.write_text(YAML.replace("bronze: 0.7, median: 0.6", "bronze: 0.4, median: 0.3"))
    _, found = grader_problems(Competition.load(yaml), dataset, tmp_path)
    assert any("in all rows earns bronze" in line for line in found)
