"""Splits: the groups in the training data and in the test set."""

from __future__ import annotations

import re
import wave
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from pytest_mlebench.data.dataset import Dataset
from tests.v2.probes import Groups, answers, groups


@groups("kuzushiji-recognition/1")
def books(dataset: Dataset) -> Groups:
    train, test = pd.read_csv(dataset.public / "train.csv"), answers(dataset)
    found = [{re.split("[_-]", id)[0] for id in pages["image_id"]} for pages in (train, test)]
    return found[0], found[1]


@groups("movie-review-sentiment-analysis-kernels-only/1")
def sentences(dataset: Dataset) -> Groups:
    train = pd.read_csv(dataset.public / "train.tsv.zip", sep="\t")
    return set(train["SentenceId"]), set(answers(dataset)["SentenceId"])


@groups("google-quest-challenge/1")
def questions(dataset: Dataset) -> Groups:
    return _column(dataset, "question_body", "test.csv")


@groups("hms-harmful-brain-activity-classification/1")
def patients_of_recordings(dataset: Dataset) -> Groups:
    return _column(dataset, "patient_id", "test.csv")


@groups("ranzcr-clip-catheter-line-classification/2")
def patients_of_images(dataset: Dataset) -> Groups:
    train = pd.read_csv(dataset.public / "train.csv")
    return set(train["PatientID"]), set(answers(dataset)["PatientID"])


@groups("stanford-covid-vaccine/2")
def sequences_but_for_the_first_base(dataset: Dataset) -> Groups:
    train, test = (pd.read_json(dataset.public / f"{side}.json", lines=True) for side in ("train", "test"))
    return set(train["sequence"].str[1:]), set(test["sequence"].str[1:])


@groups("denoising-dirty-documents/1")
def clean_pages(dataset: Dataset) -> Groups:
    train = set()
    for path in (dataset.public / "train_cleaned").glob("*.png"):
        with Image.open(path) as image:
            train.add(np.asarray(image.convert("L")).tobytes())
    pixels = answers(dataset)
    gray = (pixels["value"] * 255).round().astype(np.uint8)
    return train, [page.to_numpy().tobytes() for _, page in gray.groupby(pixels["id"].str.split("_").str[0])]


@groups("facebook-recruiting-iii-keyword-extraction/4")
def questions_with_the_same_text(dataset: Dataset) -> Groups:
    train, test = (pd.read_csv(dataset.public / f"{side}.csv", keep_default_na=False) for side in ("train", "test"))
    return set(train["Title"] + train["Body"]), set(test["Title"] + test["Body"])


@groups("hotel-id-2021-fgvc8/1")
def hotels_and_days(dataset: Dataset) -> Groups:
    train, test = pd.read_csv(dataset.public / "train.csv"), answers(dataset)
    found = [set(zip(images["hotel_id"], images["timestamp"].str[:10], strict=True)) for images in (train, test)]
    return found[0], found[1]


@groups("jigsaw-toxic-comment-classification-challenge/2", "jigsaw-unintended-bias-in-toxicity-classification/5")
def texts_of_comments(dataset: Dataset) -> Groups:
    """Ignores case and whitespace."""
    train, test = (pd.read_csv(dataset.public / f"{side}.csv", keep_default_na=False) for side in ("train", "test"))
    found = [{" ".join(text.lower().split()) for text in rows["comment_text"]} for rows in (train, test)]
    return found[0], found[1]


def _column(dataset: Dataset, column: str, test: str) -> Groups:
    """The groups in a column of both public tables."""
    train, held_out = (pd.read_csv(dataset.public / name) for name in ("train.csv", test))
    return set(train[column]), set(held_out[column])


@groups("chaii-hindi-and-tamil-question-answering/2")
def articles(dataset: Dataset) -> Groups:
    return _column(dataset, "context", "test.csv")


@groups(
    "aptos2019-blindness-detection/1",
    "petfinder-pawpularity-score/1",
    "plant-pathology-2021-fgvc8/3",
    "whale-categorization-playground/1",
)
def patterns_of_images(dataset: Dataset) -> Groups:
    """The cells of an image that are brighter than its mean; they are equal in all near-duplicates."""
    found = []
    for side in ("train", "test"):
        images = [path for folder in dataset.public.glob(f"{side}*") if folder.is_dir() for path in folder.iterdir()]
        found.append({_fields(path) for path in images})
    return found[0], found[1]


def _fields(image: Path) -> bytes:
    with Image.open(image) as opened:
        shades = np.asarray(opened, dtype=float).reshape(8, 6, 8, 6).mean(axis=(1, 3))
    return bytes((shades > shades.mean()).ravel().tolist())


@groups("nfl-player-contact-detection/1")
def games_of_plays(dataset: Dataset) -> Groups:
    train, test = pd.read_csv(dataset.public / "train_labels.csv"), answers(dataset)
    return set(train["game_play"].str.split("_").str[0]), set(test["game_play"].str.split("_").str[0])


@groups("text-normalization-challenge-english-language/3", "text-normalization-challenge-russian-language/2")
def texts_of_sentences(dataset: Dataset) -> Groups:
    found = []
    for name in ("train", "test_2"):
        (path,) = dataset.public.glob(f"*_{name}.csv.zip")
        tokens = pd.read_csv(path, dtype=str, keep_default_na=False)
        found.append(set(tokens.groupby("sentence_id")["before"].agg(" ".join)))
    return found[0], found[1]


@groups("tensorflow-speech-recognition-challenge/1")
def speakers(dataset: Dataset) -> Groups:
    """The first frames of each clip, which identify the speaker in the synthetic data."""
    audio = (path for path in (dataset.public / "train" / "audio").rglob("*.wav") if path.parent.name[0] != "_")
    true = answers(dataset)
    spoken = true["fname"][~true["label"].isin(["silence", "_background_noise_"])]
    return {_voice(path) for path in audio}, {_voice(dataset.public / "test" / "audio" / name) for name in spoken}


def _voice(clip: Path) -> bytes:
    with wave.open(str(clip)) as sound:
        return bytes(sound.readframes(2))


@groups("siim-isic-melanoma-classification/2")
def patients_of_lesions(dataset: Dataset) -> Groups:
    return _column(dataset, "patient_id", "test.csv")
