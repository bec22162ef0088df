from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit

from pytest_mlebench.authoring.worlds.images import ellipse, smooth_noise
from pytest_mlebench.authoring.worlds.labels import by_size, positive_probabilities
from pytest_mlebench.authoring.worlds.scans import deep, dicom, uid

from .synthetic import SERIES
from .v2.prepare import FAULTY

SIDE = 24  # up to 512 pixels in the real data, and hundreds of slices
PARTS = ["brain", "swelling", "rim", "core"]


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n, slices, others = by_size(size, (500, 1, 2), (760, 2, 4), (2000, 3, 10))
    # the world: how tissues look in each series, and which signs determine the label; only the core's size is obvious
    levels = {series: dict(zip(PARTS, rng.permutation([-0.5, 0.6, 1.4, 2.2]), strict=True)) for series in SERIES}
    signs = rng.normal(size=(n, 4))  # core's size, swelling, thickness of the rim, and how uneven it is
    weights = rng.choice([-1, 1], 4) * rng.uniform([0.9, 0.7, 0.9, 0.7], [1.2, 1, 1.3, 1])
    plain = weights[0] * signs[:, 0]
    p = positive_probabilities(plain + signs[:, 1:] @ weights[1:], accuracy=0.9, positive=0.52)

    numbers = rng.permutation([k for k in range(10 * n) if f"{k:05d}" not in FAULTY])[: n + others]
    ids = [f"{number:05d}" for number in numbers]
    ids[: len(FAULTY)] = FAULTY
    order = rng.permutation(n)
    labels = pd.DataFrame({"BraTS21ID": ids[:n], "MGMT_value": (rng.random(n) < p).astype(int)}).iloc[order]
    labels.to_csv(raw / "train_labels.csv", index=False)
    sample = pd.DataFrame({"BraTS21ID": ids[n:], "MGMT_value": 0.5})
    sample.to_csv(raw / "sample_submission.csv", index=False)
    signs = np.concatenate([signs, rng.normal(size=(others, 4))])
    for k, id in enumerate(ids):
        _write(raw / ("train" if k < n else "test") / id, signs[k], levels, slices, rng)
    guesses = {"simple": expit(plain), "ceiling": p}
    # the sample submission keeps the leading zeros of ids, which the grader reads as numbers
    index = pd.Index(ids[:n], name="BraTS21ID")
    return {name: pd.DataFrame({"MGMT_value": guess.round(6)}, index) for name, guess in guesses.items()}


def _write(
    folder: Path, signs: np.ndarray, levels: dict[str, dict[str, float]], slices: int, rng: np.random.Generator
) -> None:
    core, swelling, rim, uneven = expit(1.3 * signs)
    shape, middle = (SIDE, SIDE), SIDE / 2 + rng.uniform(-3, 3, 2)
    skull = ellipse(shape, (SIDE / 2, SIDE / 2), (SIDE * 0.46, SIDE * 0.4)) > 0
    turn, study = smooth_noise(rng, shape, 4), uid(rng)
    faulty, first = folder.name in FAULTY, int(rng.integers(1, 60))
    for series, look in levels.items():
        if faulty and series == "FLAIR":  # faulty: no slices
            continue
        (folder / series).mkdir(parents=True)
        gain, instance = rng.uniform(0.8, 1.25), uid(rng)
        for k in range(slices):
            radius = (1.5 + 3.5 * core) * (1 - 0.15 * k)
            heights = ellipse(shape, middle, (radius, radius)) + 0.5 * turn
            thick = 0.5 + 2 * rim * (1 + uneven * turn)
            picture = np.full(shape, look["brain"]) + 0.3 * smooth_noise(rng, shape, 2)
            for part, edge in (("swelling", -thick - 4 * swelling), ("rim", -thick), ("core", 0)):
                picture = np.where(heights > edge, look[part], picture)
            picture = np.where(skull, gain * picture + 0.25 * rng.normal(size=shape), -3)
            number = first + k
            about = {
                "StudyInstanceUID": study,
                "SeriesInstanceUID": instance,
                "SeriesDescription": series,
                "PatientID": folder.name,
                "InstanceNumber": f"{number:03d}",
                "ImagePositionPatient": f"-120\\-120\\{number:03d}",
            }
            (folder / series / f"Image-{number}.dcm").write_bytes(dicom(deep(picture), "MR", uid(rng), **about))
