from __future__ import annotations

import io
import json
import os
import subprocess
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
import soundfile
from PIL import Image

from pytest_mlebench.authoring.rle import encode_rle, mask_from_rle
from pytest_mlebench.authoring.worlds.scans import dicom
from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.grading import Report, grade
from pytest_mlebench.grading.twins import make_twin

pytestmark = pytest.mark.full

if TYPE_CHECKING:
    from tests.agents.conftest import Ran, Start

Synthetic = Callable[[str], Dataset]


@pytest.fixture
def rows() -> pd.DataFrame:
    """Sixty rows in which ``x`` predicts nearly everything; ids keep their leading zeros only as strings."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"key": [f"{k:04}" for k in range(60)], "x": rng.normal(size=60)})
    table["colour"] = rng.choice(["red", "green"], 60)
    table["amount"] = 100 + 10 * table.x + rng.normal(size=60) / 10
    table["grade"] = np.select([table.x < -0.5, table.x < 0.5], ["bad", "fair"], "good")
    table["sold"] = (table.x > 0).astype(int)
    return table


def lay_out(data: Path, rows: pd.DataFrame, target: str, sample: pd.DataFrame, description: str = "") -> None:
    """Forty training and twenty test rows, and a sample submission in another order."""
    data.mkdir(exist_ok=True)
    columns = ["key", "x", "colour"]
    rows.loc[:39, [*columns, target]].to_csv(data / "train.csv", index=False)
    rows.loc[40:, columns].to_csv(data / "test.csv", index=False)
    sample.to_csv(data / "sample_submission.csv", index=False)
    (data / "description.md").write_text(description)


def sample_of(rows: pd.DataFrame, **columns: Any) -> pd.DataFrame:
    return rows.loc[:40:-1, ["key"]].assign(**columns)


def submission_of(ran: Ran, sample: pd.DataFrame) -> pd.DataFrame:
    """The submission, which must have the sample's columns and ids in the sample's order."""
    table = pd.read_csv(ran.submission, dtype={"key": str})
    assert list(table.columns) == list(sample.columns)
    assert list(table["key"]) == list(sample["key"])
    return table


def report(dataset: Dataset, ran: Ran) -> Report:
    return grade(ran.submission, dataset.competition, dataset)


def test_the_baseline_earns_a_medal_on_the_smoke_split(synthetic: Synthetic, start: Start) -> None:
    dataset = synthetic("smoke-diabetes")
    ran = start("baseline", dataset.public)
    assert report(dataset, ran).any_medal, ran.output
    assert "metric: rmse" in ran.output and "progression: regression" in ran.output


def test_the_code_it_leaves_reproduces_its_submission(synthetic: Synthetic, start: Start, tmp_path: Path) -> None:
    dataset = synthetic("smoke-diabetes")
    first = start("baseline", dataset.public)
    folders = {f"{name.upper()}_DIR": str(tmp_path / name) for name in ("submission", "logs")}
    environment = {**os.environ, **folders, "DATA_DIR": str(dataset.public), "CODE_DIR": str(first.home / "code")}
    subprocess.run(["bash", "reproduce.sh"], cwd=first.home / "code", env=environment, check=True, timeout=300)
    again = grade(tmp_path / "submission/submission.csv", dataset.competition, dataset)
    assert again.score == pytest.approx(report(dataset, first).score), "sums of floats can differ in the last digits"


@pytest.mark.full  # it depends on the clock
@pytest.mark.serial
def test_it_recognises_digits_even_if_its_time_ends_early(synthetic: Synthetic, start: Start) -> None:
    dataset = synthetic("smoke-digits")
    ran = start("baseline", dataset.public, TIME_LIMIT_SECS="10")
    result = report(dataset, ran)
    assert result.score is not None and result.score > 0.9, ran.output


def test_it_fills_a_column_of_probabilities_for_each_author_of_a_text(synthetic: Synthetic, start: Start) -> None:
    dataset = synthetic("spooky-author-identification")
    ran = start("baseline", dataset.public)
    assert report(dataset, ran).valid_submission, ran.output
    sample = pd.read_csv(dataset.sample_submission)
    shares = pd.read_csv(ran.submission)[sample.columns[1:]]
    assert np.allclose(shares.sum(axis=1), 1, atol=1e-6)
    assert shares.nunique().min() > 1, "the sample submission's values are the same in all rows"
    assert "text (text)" in ran.output


def test_predicted_labels_come_from_the_training_table(synthetic: Synthetic, start: Start) -> None:
    dataset = synthetic("spaceship-titanic")
    ran = start("baseline", dataset.public)
    assert report(dataset, ran).valid_submission, ran.output
    assert "Transported: labels of 2 classes" in ran.output
    assert set(pd.read_csv(ran.submission, dtype=str)["Transported"]) <= {"True", "False"}


def test_it_learns_from_images_named_by_ids(tmp_path: Path, start: Start) -> None:
    rng = np.random.default_rng(0)
    (data := tmp_path / "data").mkdir()
    names, reds = [f"{k:03}" for k in rng.permutation(120)], rng.random(120) < 0.5
    with zipfile.ZipFile(data / "pictures.zip", "w") as archive:
        for name, red in zip(names, reds, strict=True):
            pixels = rng.integers(0, 150, (16, 16, 3), dtype=np.uint8)
            pixels[..., 0 if red else 2] += 60
            Image.fromarray(pixels).save(file := io.BytesIO(), "PNG")
            archive.writestr(f"pictures/{name}.png", file.getvalue())
    table = pd.DataFrame({"key": names, "red": reds.astype(int)})
    table[:80].to_csv(data / "train.csv", index=False)
    sample = table[80:].assign(red=0.5)
    sample.to_csv(data / "sample_submission.csv", index=False)
    (data / "description.md").write_text("# Evaluation\nArea under the ROC curve (AUC).\n")
    found = submission_of(start("baseline", data), sample)
    assert ((found["red"] > 0.5).to_numpy() == reds[80:]).mean() > 0.9


def test_run_length_masks_use_the_pixel_order_in_the_description(tmp_path: Path, start: Start) -> None:
    rng, rows = np.random.default_rng(0), []
    for k in range(16):
        part = "train" if k < 12 else "test"
        (data := tmp_path / "data" / part).mkdir(parents=True, exist_ok=True)
        mask = np.zeros((24, 36), dtype=bool)
        y, x = rng.integers(2, 14), rng.integers(2, 24)
        mask[y : y + 8, x : x + 10] = True
        pixels = rng.integers(0, 120, mask.shape) + 80 * mask
        Image.fromarray(pixels.astype(np.uint8)).save(data / f"p{k:02}.png")
        rows.append({"id": f"p{k:02}", "runs": encode_rle(mask, "C")})
    table = pd.DataFrame(rows)
    table[:12].to_csv(tmp_path / "data" / "train.csv", index=False)
    table[12:].assign(runs="1 1").to_csv(tmp_path / "data" / "sample_submission.csv", index=False)
    (tmp_path / "data" / "description.md").write_text("Pixels count from left to right, then from top to bottom.\n")
    ran = start("baseline", tmp_path / "data")
    found = pd.read_csv(ran.submission)
    for true, marked in zip(table["runs"][12:], found["runs"], strict=True):
        masks = [mask_from_rle(text, (24, 36), "C") for text in (true, marked)]
        assert (masks[0] & masks[1]).sum() / (masks[0] | masks[1]).sum() > 0.7, ran.output


def test_it_finds_salt_in_a_twin(tmp_path: Path, start: Start) -> None:
    competition = default_catalogue()["tgs-salt-identification-challenge"]
    dataset = make_twin(competition, tmp_path / "twin", 0, "micro", medals=False).dataset
    ran = start("baseline", dataset.public)
    score = report(dataset, ran).score
    assert score is not None and score > 0.4, ran.output


@pytest.mark.parametrize(
    ("id", "bound"),
    [
        ("siim-covid19-detection", 0.7),  # boxes, and study labels
        ("cdiscount-image-classification-challenge", 0.3),  # images in BSON documents
        ("alaska2-image-steganalysis", 0.7),  # several versions of the same images
        ("3d-object-detection-for-autonomous-vehicles", 0.3),  # point clouds
        ("herbarium-2022-fgvc9", 0.15),  # labels in COCO files, and ids that are not file names
        ("inaturalist-2019-fgvc6", 0.7),  # images in tar archives; the metric is an error rate
        ("iwildcam-2019-fgvc6", 0.15),  # a submission with row numbers
        ("hotel-id-2021-fgvc8", 0.3),  # several labels per row
        ("dog-breed-identification", 3.5),  # probabilities of many classes; rare ones are missing from some folds
        ("statoil-iceberg-classifier-challenge", 0.65),  # images as lists in table cells
        ("bms-molecular-translation", 25),  # texts, copied from the most similar image
    ],
)
def test_it_learns_from_the_data_of_a_twin(tmp_path: Path, start: Start, id: str, bound: float) -> None:
    competition = default_catalogue()[id]
    dataset = make_twin(competition, tmp_path / "twin", 0, "micro", medals=False).dataset
    ran = start("baseline", dataset.public)
    score = report(dataset, ran).score
    assert score is not None, ran.output
    assert (score < bound) if competition.leaderboard.lower_is_better else (score > bound), ran.output


def test_it_submits_the_sample_if_answers_have_an_unsupported_form(tmp_path: Path, start: Start) -> None:
    competition = default_catalogue()["kuzushiji-recognition"]
    dataset = make_twin(competition, tmp_path / "twin", 0, "micro", medals=False).dataset
    ran = start("baseline", dataset.public)
    assert report(dataset, ran).valid_submission, ran.output
    assert ran.submission.read_bytes() == dataset.sample_submission.read_bytes()


def test_it_transcribes_recordings_in_archives(tmp_path: Path, start: Start) -> None:
    competition = default_catalogue()["multi-modal-gesture-recognition"]
    dataset = make_twin(competition, tmp_path / "twin", 0, "micro", medals=False).dataset
    ran = start("baseline", dataset.public)
    score = report(dataset, ran).score
    assert score is not None and score < 0.3, ran.output  # an error rate


def test_it_predicts_the_broken_parts_of_a_scan_with_several_slices(tmp_path: Path, start: Start) -> None:
    rng, parts, rows = np.random.default_rng(0), ["L1", "L2", "L3"], []
    data = tmp_path / "data"
    for k in range(50):
        broken = rng.random(3) < 0.4
        (folder := data / ("train_scans" if k < 40 else "test_scans") / f"1.2.{k}").mkdir(parents=True)
        for j in range(6):
            pixels = rng.integers(0, 100, (16, 16)) + 200 * broken[j // 2] * np.eye(16, dtype=int)
            (folder / f"{j + 1}.dcm").write_bytes(dicom(pixels.astype(np.int16), "CT", f"1.2.{k}.{j}"))
        rows.append({"scan": f"1.2.{k}", "any": int(broken.any()), **dict(zip(parts, broken.astype(int), strict=True))})
    table = pd.DataFrame(rows)
    table[:40].to_csv(data / "train.csv", index=False)
    asked = table[40:].melt("scan", ["any", *parts], "part", "broken")
    asked["key"] = asked["scan"] + "_" + asked["part"]
    asked[["key", "scan", "part"]].to_csv(data / "test.csv", index=False)
    sample = asked[["key"]].assign(broken=0.5)
    sample.to_csv(data / "sample_submission.csv", index=False)
    ran = start("baseline", data)
    found = submission_of(ran, sample)["broken"].to_numpy() > 0.5
    assert (found == asked["broken"].to_numpy()).mean() > 0.85, ran.output


def test_it_extracts_answers_from_texts_as_in_the_training_data(tmp_path: Path, start: Start) -> None:
    rng, rows = np.random.default_rng(0), []
    words = [f"w{k}" for k in range(40)]
    for k in range(240):
        parts = list(rng.choice(words, 6))
        place = int(rng.integers(0, 5))
        parts[place : place + 2] = ["very", rng.choice(["good", "bad"])]
        rows.append({"key": f"t{k}", "text": " ".join(parts), "answer": " ".join(parts[place : place + 2])})
    table, data = pd.DataFrame(rows), tmp_path / "data"
    data.mkdir()
    table[:200].to_csv(data / "train.csv", index=False)
    table[200:].drop(columns="answer").to_csv(data / "test.csv", index=False)
    sample = table[200:][["key"]].assign(answer="")
    sample.to_csv(data / "sample_submission.csv", index=False)
    ran = start("baseline", data)
    assert (submission_of(ran, sample)["answer"].to_numpy() == table["answer"][200:]).mean() > 0.8, ran.output


def test_it_learns_from_sounds_scans_and_series_named_by_ids(tmp_path: Path, start: Start) -> None:
    rng, loud = np.random.default_rng(0), np.arange(90) % 2
    names = [f"{k:03}" for k in rng.permutation(90)]
    for suffix in ("flac", "npy", "parquet", "dcm"):
        data = tmp_path / suffix
        for k, name in enumerate(names):
            folder = data / ("train" if k < 60 else "test")
            folder.mkdir(parents=True, exist_ok=True)
            wave = np.sin(np.arange(2048) * (0.1 if loud[k] else 0.5)) + rng.normal(0, 0.3, 2048)
            write(folder / f"{name}.{suffix}", wave / 4, rng)
        table = pd.DataFrame({"key": names, "low": loud})
        table[:60].to_csv(data / "train.csv", index=False)
        sample = table[60:].assign(low=0.5)
        sample.to_csv(data / "sample_submission.csv", index=False)
        (data / "description.md").write_text("# Evaluation\nArea under the ROC curve (AUC).\n")
        ran = start("baseline", data)
        found = submission_of(ran, sample)
        assert ((found["low"] > 0.5).to_numpy() == loud[60:]).mean() > 0.9, (suffix, ran.output)


def write(path: Path, wave: np.ndarray, rng: np.random.Generator) -> None:
    """Write a file in the format of its suffix that contains the wave."""
    if path.suffix == ".flac":
        soundfile.write(path, wave, 8000)
    elif path.suffix == ".npy":
        np.save(path, wave)
    elif path.suffix == ".parquet":
        pd.DataFrame({"left": wave, "right": rng.normal(size=len(wave))}).to_parquet(path)
    else:
        path.write_bytes(dicom(np.rint(1000 + 900 * wave.reshape(32, 64)).astype(np.uint16), "CT", "1.2.3"))


def test_predictions_for_several_rows_of_an_id_are_averaged(tmp_path: Path, start: Start) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"key": np.repeat(np.arange(90), 2), "x": rng.normal(size=180)})
    table["sold"] = (table.groupby("key")["x"].transform("mean") > 0).astype(int)
    (data := tmp_path / "data").mkdir()
    table[:120].to_csv(data / "train.csv", index=False)
    table[120:].drop(columns="sold").to_csv(data / "test.csv", index=False)
    truth = table[120:].drop_duplicates("key").set_index("key")["sold"]
    pd.DataFrame({"key": truth.index, "sold": 0.5}).to_csv(data / "sample_submission.csv", index=False)
    (data / "description.md").write_text("# Evaluation\nArea under the ROC curve (AUC).\n")
    found = pd.read_csv(start("baseline", data).submission).set_index("key")["sold"]
    assert len(found) == 30
    assert ((found > 0.5) == (truth == 1)).mean() > 0.7


def test_tables_can_be_zipped_and_classes_can_be_columns(tmp_path: Path, rows: pd.DataFrame, start: Start) -> None:
    sample = sample_of(rows, good=0.3, fair=0.3, bad=0.4)
    data = tmp_path / "data"
    lay_out(data, rows, "grade", sample)
    for name in ("train.csv", "test.csv", "sample_submission.csv"):
        with zipfile.ZipFile(data / f"{name}.zip", "w") as archive:
            archive.write(data / name, name)
        (data / name).unlink()
    ran = start("baseline", data)
    predicted = submission_of(ran, sample)
    assert np.allclose(predicted[["good", "fair", "bad"]].sum(axis=1), 1, atol=1e-6)
    best = predicted[["good", "fair", "bad"]].idxmax(axis=1).to_numpy()
    # In the order of the sample, which differs from the test table's.
    assert (best == rows.set_index("key").loc[sample["key"], "grade"]).mean() > 0.7, ran.output


def test_zeros_in_the_sample_mean_probabilities_if_the_metric_ranks(
    tmp_path: Path, rows: pd.DataFrame, start: Start
) -> None:
    sample = sample_of(rows, sold=0)
    data = tmp_path / "data"
    lay_out(data, rows, "sold", sample, "# Shop\n## Evaluation\nArea under the ROC curve (AUC).\n## Data\n- rows")
    for name in ("train", "test"):  # as records, with true and false
        table = pd.read_csv(data / f"{name}.csv", dtype={"key": str})
        table = table.assign(sold=table.sold == 1) if "sold" in table else table
        (data / f"{name}.json").write_text(json.dumps(table.to_dict("records")))
        (data / f"{name}.csv").unlink()
    ran = start("baseline", data)
    predicted = submission_of(ran, sample)["sold"]
    sold = rows.set_index("key").loc[sample["key"], "sold"].to_numpy() == 1
    assert predicted.between(0, 1).all() and predicted.nunique() > 2
    assert predicted[sold].mean() > predicted[~sold].mean() + 0.3, ran.output


def test_with_invalid_data_it_submits_the_sample(tmp_path: Path, start: Start) -> None:
    data = tmp_path / "data"
    (data / "folder.csv").mkdir(parents=True)
    (data / "train.csv").write_bytes(bytes(range(256)) * 40)
    (data / "test.csv").write_text("")
    (data / "test.json").write_text("{not json")
    (data / "train.zip").write_text("no archive")
    (data / "description.md").write_bytes(b"## Evaluation \xff\xfe")
    (data / "sampleSubmission.csv").write_text('id,answer\n1,"a, b"\n1,\n')
    ran = start("baseline", data)
    assert ran.submission.read_text() == 'id,answer\n1,"a, b"\n1,\n'
    assert "Traceback" not in ran.output


def test_with_unmatched_rows_it_submits_the_sample(tmp_path: Path, rows: pd.DataFrame, start: Start) -> None:
    sample = sample_of(rows, amount=1)
    sample.iloc[3, 0] = "unknown"
    lay_out(tmp_path / "data", rows, "amount", sample)
    ran = start("baseline", tmp_path / "data")
    assert "lacks rows that the sample submission asks for" in ran.output
    assert submission_of(ran, sample)["amount"].eq(1).all()


def test_a_missing_sample_submission_is_logged(tmp_path: Path, start: Start) -> None:
    (tmp_path / "data").mkdir()
    ran = start("baseline", tmp_path / "data")
    assert "there is no sample submission" in ran.output
    assert not ran.submission.exists()


def test_it_finishes_in_time_and_leaves_its_code_and_log(tmp_path: Path, start: Start) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(30_000, 40))).add_prefix("x").assign(key=range(30_000))
    table["y"] = (table.x0 + table.x1 * table.x2 + rng.normal(size=30_000)).round(3)
    data = tmp_path / "data"
    data.mkdir()
    table[:25_000].to_csv(data / "train.csv", index=False)
    table[25_000:].drop(columns="y").to_csv(data / "test.csv", index=False)
    table[25_000:][["key"]].assign(y=0.0).to_csv(data / "sample_submission.csv", index=False)
    started = time.monotonic()
    ran = start("baseline", data, TIME_LIMIT_SECS="5")
    assert time.monotonic() - started < 30
    assert "the time is over; the submission is the best so far" in ran.output
    assert len(pd.read_csv(ran.submission)) == 5_000
    assert (ran.home / "code" / "baseline.py").is_file()
    assert (ran.home / "logs" / "baseline.log").read_text() in ran.output
