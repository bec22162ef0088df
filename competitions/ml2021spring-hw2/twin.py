from pathlib import Path

import numpy as np
import pandas as pd
from scipy.ndimage import gaussian_filter1d

from pytest_mlebench.authoring.tables import split
from pytest_mlebench.authoring.worlds.labels import by_size

from .prepare import FOLDER, frames

PHONES, LENGTH, AROUND = 39, 39, 5  # values of a frame; frames on each side of the labelled one


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    heard = write_frames(raw, rng, size)
    rows, test_size = frames(raw)
    return guesses(heard, split(rows, test_size=test_size)[1])


def guesses(heard: pd.DataFrame, test: np.ndarray) -> dict[str, pd.DataFrame]:
    ids = pd.RangeIndex(len(test), name="Id")
    return {name: pd.DataFrame({"ClassId": heard[name].to_numpy()[test]}, ids) for name in heard}


def write_frames(raw: Path, rng: np.random.Generator, size: str) -> pd.DataFrame:
    """Write the arrays; returns each labelled frame's true phone, and the phone as heard from the frame alone."""
    recordings, extra = by_size(size, 20, 50, 150), by_size(size, 100, 600, 1800)
    length = by_size(size, 9, 24, 24)  # phones after the first of a recording
    # the world: how each phone sounds, and which phones follow which
    means = rng.normal(size=(PHONES, LENGTH)) * np.linspace(1.2, 0.3, LENGTH)
    follows = rng.dirichlet(np.full(PHONES, 0.15), PHONES)
    (raw / FOLDER).mkdir(parents=True)
    windows, truth, alone = [], [], []
    for _ in range(recordings):
        phones = [int(rng.integers(PHONES))]
        for _ in range(length):
            phones.append(int(rng.choice(PHONES, p=follows[phones[-1]])))
        phone = np.repeat(phones, rng.integers(3, 9, len(phones)))
        speaker = rng.normal(0, 0.25, LENGTH)
        clean = gaussian_filter1d(means[phone], 0.7, axis=0)
        sound = clean + speaker + rng.normal(0, 2.2, clean.shape)
        near = ((sound[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
        span = range(AROUND, len(phone) - AROUND)
        windows += [sound[k - AROUND : k + AROUND + 1].ravel() for k in span]
        truth += phone[AROUND:-AROUND].tolist()
        alone += near[AROUND:-AROUND].tolist()
    labels = np.array(truth)
    wrong = rng.random(len(labels)) < 0.06
    labels[wrong] = rng.integers(0, PHONES, wrong.sum())
    array = np.array(windows).round(4).astype(np.float32)
    np.save(raw / FOLDER / "train_11.npy", array)
    np.save(raw / FOLDER / "train_label_11.npy", labels.astype("<U2"))
    np.save(raw / FOLDER / "test_11.npy", array[rng.integers(0, len(array), extra)])
    pd.DataFrame({"Id": range(extra), "ClassId": 0}).to_csv(raw / "sampleSubmission.csv", index=False)
    return pd.DataFrame({"simple": alone, "ceiling": truth})
