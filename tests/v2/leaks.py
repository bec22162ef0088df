"""Leaks: programs that derive the answers from the public files."""

from __future__ import annotations

import io
import json
import random
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image
from scipy.io import loadmat

from pytest_mlebench.authoring.archives import read_7z
from pytest_mlebench.authoring.rle import encode_rle
from pytest_mlebench.authoring.tfrecord import Feature, read_examples
from pytest_mlebench.data.dataset import Dataset
from tests.v2.probes import answers, attack, flaw


@attack("random-acts-of-pizza/1")
def whoever_has_a_giver_got_a_pizza(public: Path) -> pd.DataFrame:
    requests = pd.read_json(public / "test.json")
    given = (requests["giver_username_if_known"] != "N/A").astype(int)
    return pd.DataFrame({"request_id": requests["request_id"], "requester_received_pizza": given})


@attack("smartphone-decimeter-2022/1")
def positions_of_the_reference_receiver(public: Path) -> pd.DataFrame:
    trips = []
    for trip, rows in pd.read_csv(public / "sample_submission.csv").groupby("tripId", sort=False):
        log = next(path for path in (public / "test").rglob("span_log.nmea") if _trip(path) == trip)
        fields = [line.split(",") for line in log.read_text().splitlines()]
        latitude, longitude = [float(line[2]) for line in fields], [-float(line[4]) for line in fields]
        trips.append(rows.assign(LatitudeDegrees=latitude, LongitudeDegrees=longitude))
    return pd.concat(trips)


def _trip(log: Path) -> str:
    return f"{log.parents[2].name}-{log.parents[1].name}"


@attack("hubmap-kidney-segmentation/1")
def outlines_of_the_glomeruli(public: Path) -> pd.DataFrame:
    sample = pd.read_csv(public / "sample_submission.csv")
    images = pd.read_csv(public / "HuBMAP-20-dataset_information.csv").set_index("image_file")
    predicted = []
    for id in sample["id"]:
        (feature,) = json.loads((public / "test" / f"{id}.json").read_text())
        height, width = (int(images[f"{side}_pixels"][f"{id}.tiff"]) for side in ("height", "width"))
        mask = np.zeros((height, width), dtype=bool)
        x, y = np.array(feature["geometry"]["coordinates"]).T
        mask[y, x] = True
        predicted.append(encode_rle(mask))
    return sample.assign(predicted=predicted)


@attack("multi-modal-gesture-recognition/1")
def labels_in_the_matlab_files(public: Path) -> pd.DataFrame:
    sequences = {}
    with tarfile.open(public / "test.tar.gz") as archive:
        for member in archive:
            if member.name.endswith(".zip") and (file := archive.extractfile(member)):
                with zipfile.ZipFile(io.BytesIO(file.read())) as sample:
                    (name,) = [name for name in sample.namelist() if name.endswith(".mat")]
                    labels = loadmat(io.BytesIO(sample.read(name)))["Video"][0, 0]["Labels"]
                gestures = [str(label["Name"][0]) for label in labels.flat]
                sequences[member.name[-8:-4]] = " ".join(name.removeprefix("gesture") for name in gestures)
    return pd.DataFrame({"Id": list(sequences), "Sequence": list(sequences.values())})


@attack("siim-isic-melanoma-classification/1")
def targets_of_isic_records(public: Path) -> pd.DataFrame:
    return _targets(public.glob("tfrecords/test*.tfrec"), pd.read_csv(public / "sample_submission.csv"))


@attack("cassava-leaf-disease-classification/1")
def targets_of_cassava_records(public: Path) -> pd.DataFrame:
    return _targets(public.glob("test_tfrecords/*.tfrec"), pd.read_csv(public / "sample_submission.csv"))


def _targets(files: Iterable[Path], sample: pd.DataFrame) -> pd.DataFrame:
    """The sample submission, whose columns are name and target, with the targets of the records."""
    examples = [example for path in files for example in read_examples(path)]
    known = {_text(example["image_name"]): example["target"][0] for example in examples}
    return sample.assign(**{sample.columns[1]: sample.iloc[:, 0].map(known)})


def _text(feature: Feature) -> str:
    (value,) = feature
    assert isinstance(value, bytes)
    return value.decode()


@attack("seti-breakthrough-listen/1")
def the_same_recordings_in_the_old_data(public: Path) -> pd.DataFrame:
    old = public / "old_leaky_data"
    labels = pd.read_csv(old / "train_labels_old.csv").set_index("id")["target"]
    known = {path.read_bytes(): labels[path.stem] for path in (old / "train_old").rglob("*.npy") if path.stem in labels}
    sample = pd.read_csv(public / "sample_submission.csv")
    recordings = [(public / "test" / id[0] / f"{id}.npy").read_bytes() for id in sample["id"]]
    return sample.assign(target=[known[recording] for recording in recordings])


@attack("alaska2-image-steganalysis/1")
def methods_drawn_with_the_known_seed(public: Path) -> pd.DataFrame:
    sample = pd.read_csv(public / "sample_submission.csv")
    generator = random.Random(0)
    generator.shuffle(list(range(len(sample))))
    labels = []
    for _ in sample["Id"]:
        is_cover = generator.choice([True, False])
        if not is_cover:
            generator.choice(range(3))
        labels.append(int(not is_cover))
    return sample.assign(Label=labels)


@attack("ml2021spring-hw2/1")
def labels_of_windows_that_overlap(public: Path) -> pd.DataFrame:
    folder = public / "timit_11" / "timit_11"
    train, test = np.load(folder / "train_11.npy"), np.load(folder / "test_11.npy")
    labels, width = np.load(folder / "train_label_11.npy"), train.shape[1] // 11
    known: dict[tuple[int, bytes], Any] = {}
    for shift in range(10, 0, -1):  # nearest last
        for window, label in zip(train, labels, strict=True):
            known |= {
                (shift, window[shift * width :].tobytes()): label,
                (-shift, window[: -shift * width].tobytes()): label,
            }
    found = []
    for window in test:
        keys = [
            key
            for s in range(1, 11)
            for key in ((s, window[: -s * width].tobytes()), (-s, window[s * width :].tobytes()))
        ]
        found.append(next((known[key] for key in keys if key in known), "0"))
    return pd.DataFrame({"Id": range(len(test)), "ClassId": [int(label) for label in found]})


@attack("statoil-iceberg-classifier-challenge/1")
def labels_of_images_with_the_same_angle(public: Path) -> pd.DataFrame:
    train, test = (
        pd.DataFrame(json.loads(read_7z(public / f"{side}.json.7z", f"{side}.json").read()))
        for side in ("train", "test")
    )
    share = train.groupby("inc_angle")["is_iceberg"].mean()
    return pd.DataFrame({"id": test["id"], "is_iceberg": test["inc_angle"].map(share).fillna(0.5)})


@attack("dog-breed-identification/1")
def breeds_of_the_photos_that_look_alike(public: Path) -> pd.DataFrame:
    breeds = pd.read_csv(public / "labels.csv").set_index("id")["breed"]
    known = np.array([_pixels(public / "train" / f"{id}.jpg") for id in breeds.index])
    sample = pd.read_csv(public / "sample_submission.csv")
    images = (_pixels(public / "test" / f"{id}.jpg") for id in sample["id"])
    found = [breeds.iloc[np.abs(known - image).sum(axis=1).argmin()] for image in images]
    return sample.assign(**{name: [float(breed == name) for breed in found] for name in sample.columns[1:]})


@attack("hotel-id-2021-fgvc8/1")
def hotels_of_the_photos_that_look_alike(public: Path) -> pd.DataFrame:
    train = pd.read_csv(public / "train.csv", dtype=str)
    paths = public.joinpath("train_images").as_posix() + "/" + train["chain"] + "/" + train["image"]
    known = np.array([_pixels(Path(path)) for path in paths])
    sample = pd.read_csv(public / "sample_submission.csv")
    images = (_pixels(public / "test_images" / name) for name in sample["image"])
    return sample.assign(hotel_id=[train["hotel_id"][np.abs(known - image).sum(axis=1).argmin()] for image in images])


def _pixels(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image.convert("L"), dtype=float).ravel()


@attack("denoising-dirty-documents/1")
def clean_pages_under_other_numbers(public: Path) -> pd.DataFrame:
    known = [_pixels(path) for path in sorted((public / "train_cleaned").glob("*.png"))]
    sample = pd.read_csv(public / "sampleSubmission.csv")
    value = sample["value"].astype(float)
    for number, rows in sample.groupby(sample["id"].str.split("_").str[0]):
        noisy = _pixels(public / "test" / f"{number}.png")
        value[rows.index] = min(known, key=lambda page: np.abs(page - noisy).sum()) / 255
    return sample.assign(value=value)


@attack("facebook-recruiting-iii-keyword-extraction/4")
def tags_of_the_same_question(public: Path) -> pd.DataFrame:
    train, test = (pd.read_csv(public / f"{side}.csv", keep_default_na=False) for side in ("train", "test"))
    known = dict(zip(train["Title"] + train["Body"], train["Tags"], strict=True))
    return test[["Id"]].assign(Tags=(test["Title"] + test["Body"]).map(known).fillna("java"))


@flaw("billion-word-imputation/3")
def gaps_that_a_known_seed_tells(dataset: Dataset) -> str:
    """The share of gaps whose positions follow from seed 0, the order of the training sentences, and lengths."""
    with zipfile.ZipFile(dataset.public / "train_v2.txt.zip") as archive:
        train = archive.read("train_v2.txt").decode().split("\n")
    with zipfile.ZipFile(dataset.public / "test_v2.txt.zip") as archive:
        test = pd.read_csv(io.BytesIO(archive.read("test_v2.txt")), dtype=str, keep_default_na=False)["sentence"]
    generator, place = np.random.RandomState(0), 0
    guessed: list[int] = []
    while len(guessed) < len(test):
        if generator.uniform() > 0.01 or (place < len(train) and len(train[place].split()) <= 2):
            place += 1
        else:
            guessed.append(generator.randint(1, len(test[len(guessed)].split())))
        if place > len(train) + 1:
            break
    right = sum(
        whole.split()[:gap] == shown.split()[:gap] and whole.split()[gap + 1 :] == shown.split()[gap:]
        for gap, whole, shown in zip(guessed, answers(dataset)["sentence"], test, strict=False)
    )
    return f"{right} of {len(test)}" if right > len(test) / 2 else ""
