"""Files: missing, superfluous or malformed parts of the prepared data."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import PurePosixPath

import pandas as pd

from pytest_mlebench.authoring.archives import read_7z
from pytest_mlebench.data.dataset import Dataset
from tests.v2.probes import answers, flaw

COMMANDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
"""The words of the speech recognition challenge."""


@flaw("movie-review-sentiment-analysis-kernels-only/2")
def phrases_that_became_empty(dataset: Dataset) -> str:
    phrases = pd.concat(
        pd.read_csv(dataset.public / f"{side}.tsv.zip", sep="\t", keep_default_na=False) for side in ("train", "test")
    )
    return f"{sum(phrases['Phrase'] == '')} phrases are empty" if (phrases["Phrase"] == "").any() else ""


@flaw("champs-scalar-coupling/1")
def test_molecules_without_a_structure(dataset: Dataset) -> str:
    molecules = set(pd.read_csv(dataset.public / "test.csv")["molecule_name"])
    tables = set(pd.read_csv(dataset.public / "structures.csv")["molecule_name"])
    files = {path.stem for path in (dataset.public / "structures").glob("*.xyz")}
    return ", ".join(sorted(molecules - (tables & files)))


@flaw("tgs-salt-identification-challenge/3")
def test_images_without_a_depth(dataset: Dataset) -> str:
    depths = set(pd.read_csv(dataset.public / "depths.csv")["id"])
    return ", ".join(sorted(set(pd.read_csv(dataset.public / "sample_submission.csv")["id"]) - depths))


@flaw("new-york-city-taxi-fare-prediction/2")
def a_leaflet_and_no_train_csv(dataset: Dataset) -> str:
    names = {path.name for path in dataset.public.iterdir()}
    return ", ".join(sorted(name for name in names if name.endswith(".rtf") or name == "labels.csv"))


@flaw("iwildcam-2019-fgvc6/1")
def a_column_without_a_name(dataset: Dataset) -> str:
    columns = pd.read_csv(dataset.sample_submission).columns
    return ", ".join(name for name in columns if name.startswith("Unnamed"))


@flaw("invasive-species-monitoring/1")
def images_that_are_not_there(dataset: Dataset) -> str:
    names = pd.read_csv(dataset.sample_submission)["name"]
    return ", ".join(f"{name}.jpg" for name in names if not (dataset.public / "test" / f"{name}.jpg").exists())


@flaw("rsna-2022-cervical-spine-fracture-detection/1")
def more_scans_to_predict_than_to_learn_from(dataset: Dataset) -> str:
    counts = [len(list((dataset.public / f"{side}_images").iterdir())) for side in ("train", "test")]
    return f"{counts[0]} training scans, {counts[1]} test scans" if counts[0] < counts[1] else ""


@flaw("rsna-2022-cervical-spine-fracture-detection/2")
def training_scans_whose_boxes_are_kept_back(dataset: Dataset) -> str:
    """A tenth of the scans with boxes is in the test set, and the boxes of the others are public."""
    boxes = pd.read_csv(dataset.public / "train_bounding_boxes.csv")["StudyInstanceUID"].nunique()
    segmented = len(list((dataset.public / "segmentations").iterdir()))
    return f"{boxes} scans with boxes, {segmented} segmented" if min(boxes, segmented) < 10 else ""


@flaw("rsna-miccai-brain-tumor-radiogenomic-classification/1")
def faulty_subjects_in_the_test(dataset: Dataset) -> str:
    return ", ".join(id for id in ("00109", "00123", "00709") if (dataset.public / "test" / id).exists())


@flaw("smartphone-decimeter-2022/4")
def drives_with_several_phones(dataset: Dataset) -> str:
    return ", ".join(
        drive.name
        for drive in sorted((dataset.public / "test").iterdir())
        if sum(folder.is_dir() for folder in drive.iterdir()) > 1
    )


@flaw("3d-object-detection-for-autonomous-vehicles/1")
def maps_of_other_logs(dataset: Dataset) -> str:
    wrong = []
    for side in ("train", "test"):
        logs, maps = (
            json.loads((dataset.public / f"{side}_data" / f"{name}.json").read_text()) for name in ("log", "map")
        )
        if {log["token"] for log in logs} != {token for entry in maps for token in entry["log_tokens"]}:
            wrong.append(side)
    return ", ".join(wrong)


@flaw("facebook-recruiting-iii-keyword-extraction/3")
def questions_without_tags(dataset: Dataset) -> str:
    rows = pd.read_csv(dataset.answers, dtype=str, keep_default_na=False)
    return ", ".join(rows["Id"][rows["Tags"] == ""])


@flaw("facebook-recruiting-iii-keyword-extraction/5")
def columns_that_are_not_asked_for(dataset: Dataset) -> str:
    return ", ".join(set(pd.read_csv(dataset.sample_submission).columns) - {"Id", "Tags"})


@flaw("h-and-m-personalized-fashion-recommendations/2")
def customers_of_the_eighth_day(dataset: Dataset) -> str:
    early = "f" * 20  # customers who buy only on that day
    return ", ".join(id for id in pd.read_csv(dataset.answers)["customer_id"] if id == early)


@flaw("hotel-id-2021-fgvc8/2")
def hotels_in_the_test_alone(dataset: Dataset) -> str:
    train, test = (pd.read_csv(path)["hotel_id"] for path in (dataset.public / "train.csv", dataset.answers))
    return ", ".join(map(str, sorted(set(test) - set(train))))


@flaw("icecube-neutrinos-in-deep-ice/1")
def more_batches_than_the_original_held_out(dataset: Dataset) -> str:
    batches = pd.read_parquet(dataset.public / "test_meta.parquet")["batch_id"].nunique()
    return f"{batches} batches" if batches > 5 else ""


@flaw("inaturalist-2019-fgvc6/1")
def photos_with_another_path_in_their_archive(dataset: Dataset) -> str:
    stored = _stored(dataset)
    names = {PurePosixPath(path).name for path in stored}
    return ", ".join(path for path in _listed(dataset) if path not in stored and PurePosixPath(path).name in names)


@flaw("inaturalist-2019-fgvc6/2")
def photos_that_no_archive_has(dataset: Dataset) -> str:
    names = {PurePosixPath(path).name for path in _stored(dataset)}
    return ", ".join(path for path in _listed(dataset) if PurePosixPath(path).name not in names)


def _stored(dataset: Dataset) -> set[str]:
    found = set()
    for path in dataset.public.glob("*.tar*"):
        with tarfile.open(path) as archive:
            found |= set(archive.getnames())
    return found


def _listed(dataset: Dataset) -> list[str]:
    tables = (json.loads(path.read_text())["images"] for path in dataset.public.glob("*2019.json"))
    return sorted({image["file_name"] for images in tables for image in images})


@flaw("inaturalist-2019-fgvc6/1")
def archives_that_are_not_what_their_names_say(dataset: Dataset) -> str:
    names = [path.name for path in dataset.public.glob("*.gz") if path.read_bytes()[:2] != b"\x1f\x8b"]
    return ", ".join(names)


@flaw("iwildcam-2020-fgvc7/2")
def images_with_several_rows(dataset: Dataset) -> str:
    rows = pd.read_csv(dataset.sample_submission)["Id"]
    return ", ".join(sorted(set(rows[rows.duplicated()])))


@flaw("iwildcam-2020-fgvc7/3")
def images_without_a_row(dataset: Dataset) -> str:
    return ", ".join(sorted({*_test_images(dataset)} - {*pd.read_csv(dataset.sample_submission)["Id"]}))


@flaw("iwildcam-2020-fgvc7/1")
def more_images_held_out_than_meant(dataset: Dataset) -> str:
    train = json.loads((dataset.public / "iwildcam2020_train_annotations.json").read_text())["images"]
    test = _test_images(dataset)
    share = len(test) / (len(train) + len(test))
    return f"{share:.1%}" if share > 0.22 else ""


def _test_images(dataset: Dataset) -> list[str]:
    content = json.loads((dataset.public / "iwildcam2020_test_information.json").read_text())
    return [image["id"] for image in content["images"]]


@flaw("mlsp-2013-birds/1")
def marks_in_test_recordings(dataset: Dataset) -> str:
    folder = dataset.public / "essential_data"
    files = pd.read_csv(folder / "rec_id2filename.txt").merge(pd.read_csv(folder / "CVfolds_2.txt"), on="rec_id")
    marked = {path.stem for path in (dataset.public / "supplemental_data" / "segmentation_examples").iterdir()}
    return ", ".join(sorted(marked & set(files["filename"][files["fold"] == 1])))


@flaw("mlsp-2013-birds/2")
def tables_with_the_heading_of_another(dataset: Dataset) -> str:
    names = ("histogram_of_segments", "segment_features", "segment_rectangles")
    tables = [(dataset.public / "supplemental_data" / f"{name}.txt").read_text() for name in names]
    headings = [table.splitlines()[0] for table in tables]
    return headings[0] if len(set(headings)) < len(headings) else ""


@flaw("vinbigdata-chest-xray-abnormalities-detection/4")
def findings_in_images_without_a_finding(dataset: Dataset) -> str:
    true = pd.read_csv(dataset.answers)
    healthy = set(true["image_id"][true["class_id"] == 14])
    return ", ".join(sorted(healthy & set(true["image_id"][true["class_id"] != 14])))


@flaw("text-normalization-challenge-english-language/1", "text-normalization-challenge-russian-language/1")
def tokens_that_became_empty(dataset: Dataset) -> str:
    (path,) = dataset.public.glob("*_train.csv.zip")
    tokens = pd.read_csv(path, dtype=str, keep_default_na=False)
    return f"{sum(tokens['before'] == '')} tokens are empty" if (tokens["before"] == "").any() else ""


@flaw("tensorflow-speech-recognition-challenge/2")
def labels_that_are_not_the_task_s(dataset: Dataset) -> str:
    return ", ".join(sorted({*answers(dataset)["label"]} - {*COMMANDS, "unknown", "silence"}))


@flaw("tensorflow-speech-recognition-challenge/3")
def noise_that_its_length_gives_away(dataset: Dataset) -> str:
    true = pd.read_csv(dataset.answers)
    sizes = true["fname"].map(lambda name: (dataset.public / "test" / "audio" / name).stat().st_size)
    is_noise = true["label"].isin(["silence", "_background_noise_"])
    return ", ".join(true["fname"][is_noise & (sizes > sizes[~is_noise].max())])


@flaw("statoil-iceberg-classifier-challenge/2")
def held_out_images_whose_angle_is_not_known(dataset: Dataset) -> str:
    images = json.loads(read_7z(dataset.public / "test.json.7z", "test.json").read())
    return ", ".join(image["id"] for image in images if image["inc_angle"] == "na")


@flaw("tensorflow-speech-recognition-challenge/4")
def more_clips_of_other_words_or_less_of_noise(dataset: Dataset) -> str:
    """Compared with the mean number of clips of the ten words."""
    true = answers(dataset)["label"]
    is_noise, is_other = true.isin(["silence", "_background_noise_"]), ~true.isin(COMMANDS)
    wanted = (~is_other).sum() / len(COMMANDS)
    counts = {"other words": sum(is_other & ~is_noise), "noise": is_noise.sum()}
    return ", ".join(f"{count} of {what}" for what, count in counts.items() if abs(count - wanted) > 1)


@flaw("tensorflow-speech-recognition-challenge/5")
def clips_in_another_order_than_that_of_their_digests(dataset: Dataset) -> str:
    clips = sorted((dataset.public / "test" / "audio").iterdir())
    digests = [hashlib.sha256(clip.read_bytes()).hexdigest() for clip in clips]
    return "" if digests == sorted(digests) else f"{clips[0].name} and others"


@flaw("detecting-insults-in-social-commentary/1")
def equal_comments_that_nothing_tells_apart(dataset: Dataset) -> str:
    rows = pd.read_csv(dataset.sample_submission)
    named = rows.drop(columns=["Insult", "Date"], errors="ignore")
    return ", ".join(map(str, named[named.duplicated()].to_numpy().ravel()))


@flaw(
    "detecting-insults-in-social-commentary/2",
    "jigsaw-toxic-comment-classification-challenge/4",
    "tweet-sentiment-extraction/2",
)
def a_text_that_became_empty(dataset: Dataset) -> str:
    """The text is NA or null in the raw data."""
    texts: set[str] = set()
    for name in ("train.csv", "test.csv"):
        rows = pd.read_csv(dataset.public / name, dtype=str, keep_default_na=False)
        texts |= {text for column in rows for text in rows[column]}
    return "" if texts & {"NA", "null"} else "NA and null are not read as text"


@flaw("jigsaw-toxic-comment-classification-challenge/1")
def comments_whose_labels_were_published(dataset: Dataset) -> str:
    """Synthetic comments of train.csv have ids that begin with the number of their copy."""
    ids = pd.read_csv(dataset.public / "test.csv")["id"]
    return ", ".join(ids[~ids.str[0].isin(list("01234"))])


@flaw("jigsaw-unintended-bias-in-toxicity-classification/4")
def comments_of_the_test_set_whose_labels_were_published(dataset: Dataset) -> str:
    """Synthetic comments of train.csv have low numbers."""
    ids = pd.read_csv(dataset.public / "test.csv")["id"]
    return ", ".join(map(str, ids[ids >= 7_000_000]))


@flaw("hms-harmful-brain-activity-classification/4")
def segments_that_nothing_tells_apart(dataset: Dataset) -> str:
    wanted = {"eeg_label_offset_seconds", "spectrogram_label_offset_seconds"}
    return ", ".join(sorted(wanted - {*pd.read_csv(dataset.public / "test.csv").columns}))


@flaw("hms-harmful-brain-activity-classification/2")
def recordings_with_several_rows(dataset: Dataset) -> str:
    recordings = pd.read_csv(dataset.sample_submission)["eeg_id"]
    return ", ".join(map(str, recordings[recordings.duplicated()]))


@flaw("google-quest-challenge/1")
def test_questions_with_several_answers(dataset: Dataset) -> str:
    questions = pd.read_csv(dataset.public / "test.csv")["question_body"]
    return ", ".join(questions[questions.duplicated()])


@flaw(
    "billion-word-imputation/2",
    "invasive-species-monitoring/2",
    "statoil-iceberg-classifier-challenge/3",
    "text-normalization-challenge-english-language/2",
    "text-normalization-challenge-russian-language/4",
)
def tables_that_are_only_in_an_archive(dataset: Dataset) -> str:
    """The sample submission, and the labels of the training data if their archive contains CSV."""
    packed = {path.stem for path in dataset.public.glob("*.csv.zip")}
    wanted = {dataset.sample_submission.name} | {"train_labels.csv"} & packed
    return ", ".join(sorted(name for name in wanted if not (dataset.public / name).exists()))


@flaw("rsna-miccai-brain-tumor-radiogenomic-classification/2")
def another_share_of_methylated_cases_in_the_test(dataset: Dataset) -> str:
    train, test = pd.read_csv(dataset.public / "train_labels.csv")["MGMT_value"], answers(dataset)["MGMT_value"]
    return f"{test.mean():.2f} and {train.mean():.2f}" if abs(test.sum() - len(test) * train.mean()) > 1 else ""


@flaw("vinbigdata-chest-xray-abnormalities-detection/3")
def one_box_alone_of_each_class(dataset: Dataset) -> str:
    true = answers(dataset)
    several = true.duplicated(["image_id", "class_id"])
    return "" if several.any() else f"{len(true)} boxes, no two of a class in an image"
