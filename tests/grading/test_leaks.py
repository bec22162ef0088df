"""The general searches of a gate: each finds a defect that is planted, and nothing where there is none."""

from __future__ import annotations

import io
import json
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image, PngImagePlugin

from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.authoring.tfrecord import tfrecord
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.errors import CompetitionError
from pytest_mlebench.grading.groups import shared_groups
from pytest_mlebench.grading.leaks import find_leaks
from pytest_mlebench.grading.strictness import medals_for_guesses, row_problems

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
from pytest_mlebench.grading import align
def grade(submission, answers):
    return accuracy_score(answers["label"], align(submission, answers, on="id")["label"])
"""
ROWS = 60
Plant = Callable[[Path, pd.DataFrame], None]


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    """60 images with random names and labels, 60 more to train on, of patients of their own."""
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
    a_table_in_an_archive_in_an_archive: "public/more.tar.gz/inner.zip/deep/labels.csv holds the true values",
    a_table_with_other_words_for_the_labels: "public/meta.csv: column 'k' stands for the true values of 'label'",
    records_of_json: "public/meta.json holds the true values of 'label'",
    a_parquet_file: "public/meta.parquet holds the true values of 'label'",
    records_of_tensorflow: "public/test.tfrec: column 'target' stands for the true values of 'label'",
    texts_in_a_binary_file: "public/model.bin hold the true values of 'text'",
    sizes_of_files: "the public files *.raw: the size in bytes tells",
    times_of_files: "the public files *.png: the time of change tells",
    the_order_of_times: "the public files *.png: the order of the times of change tells",
    headers_of_images: "the public files *.png: the image header's Comment tells",
    exif_of_photos: "the public files *.jpg: the image header's EXIF tag 270 tells",
    comments_in_an_archive: "public/test.zip: the archive's comment tells",
    the_order_of_an_archive: "public/test.zip: the order of the files tells",
    the_order_of_rows: "the order of the rows of sample_submission.csv tells",
}


def test_nothing_is_found_where_nothing_is_wrong(dataset: Dataset, tmp_path: Path) -> None:
    assert not find_leaks(dataset) and not shared_groups(dataset.competition, dataset)
    assert not row_problems(dataset.competition, dataset, tmp_path)
    assert not medals_for_guesses(dataset.competition, dataset, tmp_path)


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_answers_that_public_files_tell_are_found(dataset: Dataset, plant: Plant) -> None:
    plant(dataset.public, pd.read_csv(dataset.answers))
    found = find_leaks(dataset)
    assert any(PLANTED[plant] in line for line in found), found


def test_ids_that_tell_the_answers_are_found(dataset: Dataset) -> None:
    for path in (dataset.answers, dataset.sample_submission):
        rows = pd.read_csv(path)
        truth = pd.read_csv(dataset.answers)["label"] if path != dataset.answers else rows["label"]
        rows["id"] = rows["id"].str[:7] + truth.map({"cat": "0", "dog": "1"})
        rows.to_csv(path, index=False)
    # The sample submission comes second: its labels are those of the answers, row by row.
    assert any("character of the ids tells" in line for line in find_leaks(dataset))


def test_a_group_on_both_sides_is_found_by_its_name_or_as_it_is_declared(dataset: Dataset) -> None:
    test = pd.read_csv(dataset.public / "test.csv")
    test.assign(patient_id=[7, *test["patient_id"][1:]]).to_csv(dataset.public / "test.csv", index=False)
    (found,) = shared_groups(dataset.competition, dataset)
    assert found.startswith("1 of 21 groups (patient_id) of the test are in the training data")
    yaml = dataset.competition.folder / "competition.yaml"
    declared = "groups: {decade: {column: age, train: public/train.csv, test: public/test.csv, pattern: '^(.)'}}\n"
    yaml.write_text(YAML + declared)
    found = shared_groups(Competition.load(yaml), dataset)[0]
    assert "groups (decade) of the test" in found
    yaml.write_text(YAML + declared.replace("'^(.)'", "'^.'"))
    with pytest.raises(CompetitionError, match="a regular expression with a group in parentheses"):
        Competition.load(yaml)


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
    assert any(problem in line for line in row_problems(dataset.competition, dataset, tmp_path))


def test_medals_for_one_value_in_all_rows_are_found(dataset: Dataset, tmp_path: Path) -> None:
    yaml = dataset.competition.folder / "competition.yaml"
    yaml.write_text(YAML.replace("bronze: 0.7, median: 0.6", "bronze: 0.4, median: 0.3"))
    found = medals_for_guesses(Competition.load(yaml), dataset, tmp_path)
    assert any("in all rows earns bronze" in line for line in found)
