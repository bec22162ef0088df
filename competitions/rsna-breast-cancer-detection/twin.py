from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit

from pytest_mlebench.authoring.worlds.images import smooth_noise
from pytest_mlebench.authoring.worlds.labels import by_size, positive_probabilities, with_missing
from pytest_mlebench.authoring.worlds.scans import deep, dicom, uid

HEIGHT, WIDTH = 40, 32  # real mammograms are up to 5900 pixels high
TEST_COLUMNS = ["site_id", "patient_id", "image_id", "laterality", "view", "age", "implant", "machine_id"]


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n = by_size(size, 260, 1150, 3000)
    # the world: a mass may be harmless; cancer depends on how ragged it is, and on grains of chalk
    patient, side = np.repeat(rng.permutation(65_000)[:n] + 5, 2), np.tile(["L", "R"], n)
    age = np.repeat(np.clip(rng.normal(58, 10, n).round(), 26, 89), 2)
    mass, ragged, chalk = rng.gamma(1.5, 0.6, 2 * n), rng.normal(size=2 * n), rng.gamma(0.6, 1, 2 * n)
    plain = 0.05 * (age - 58) + 0.8 * mass
    score = plain + rng.uniform(1.5, 2) * mass * ragged + rng.uniform(0.8, 1.2) * chalk
    p = positive_probabilities(score, accuracy=0.96, positive=0.12)
    breasts = pd.DataFrame({"patient_id": patient, "laterality": side, "age": age, "cancer": rng.random(2 * n) < p})
    breasts = breasts.astype({"cancer": int}).assign(mass=mass, ragged=ragged, chalk=chalk)
    breasts["site_id"] = np.repeat(rng.integers(1, 3, n), 2)
    breasts["machine_id"] = np.where(breasts["site_id"] == 1, np.repeat(rng.choice([49, 48], n), 2), 29)
    breasts["implant"] = np.repeat((rng.random(n) < 0.03).astype(int), 2)
    thick = np.repeat(rng.choice(4, n, p=[0.1, 0.45, 0.35, 0.1]), 2)
    breasts["thick"], breasts["density"] = thick, np.array(list("ABCD"))[thick]

    views = [("CC", "MLO")[k] for k in range(2)]
    images = breasts.loc[breasts.index.repeat(2)].assign(view=views * len(breasts))
    images = images[(images["view"] == "CC") | (rng.random(len(images)) < 0.6)]
    images["image_id"] = rng.choice(2**31, len(images), replace=False)
    sick = images["cancer"] == 1
    images["biopsy"] = (sick | (rng.random(len(images)) < 0.04)).astype(int)
    images["invasive"] = (sick & (rng.random(len(images)) < 0.7)).astype(int)
    images["BIRADS"] = np.where(sick, 0.0, rng.choice([0.0, 1.0, 2.0], len(images), p=[0.1, 0.7, 0.2]))
    images["BIRADS"] = images["BIRADS"].where(rng.random(len(images)) < 0.5)
    images["difficult_negative_case"] = ~sick & (rng.random(len(images)) < 0.14)
    columns = [*TEST_COLUMNS[:6], "cancer", "biopsy", "invasive", "BIRADS", "implant", "density", "machine_id"]
    shown = with_missing(images, ["density"], 0.45, rng)[[*columns, "difficult_negative_case"]]
    shown.to_csv(raw / "train.csv", index=False)
    _write_images(raw / "train_images", images, rng)
    test = images.head(4).assign(patient_id=70_001)
    _write_images(raw / "test_images", test, rng)
    test = test[TEST_COLUMNS].assign(prediction_id="70001_" + test["laterality"])
    test.to_csv(raw / "test.csv", index=False)
    test[["prediction_id"]].drop_duplicates().assign(cancer=0.02).to_csv(raw / "sample_submission.csv", index=False)
    ids = pd.Index(breasts["patient_id"].astype(str) + "_" + breasts["laterality"], name="prediction_id")
    rough = positive_probabilities(plain + 0.8 * chalk, accuracy=0.9, positive=0.12)
    return {name: pd.DataFrame({"cancer": _decided(q)}, ids) for name, q in (("simple", rough), ("ceiling", p))}


def _decided(p: np.ndarray) -> np.ndarray:
    """Return the predictions with the highest expected F1: 1 for the most probable ones, and 0 for the others."""
    ranked = np.sort(p)[::-1]
    count = 1 + int(np.argmax(np.cumsum(ranked) / (np.arange(1, len(p) + 1) + p.sum())))
    return (p >= ranked[count - 1]).astype(float)


def _write_images(folder: Path, images: pd.DataFrame, rng: np.random.Generator) -> None:
    for row in images.itertuples():
        path = folder / str(row.patient_id) / f"{row.image_id}.dcm"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = deep(_breast(row, rng))
        pixels = pixels[:, ::-1] if row.laterality == "R" else pixels
        about = {"PatientID": str(row.patient_id), "ImageLaterality": row.laterality, "BodyPartExamined": "BREAST"}
        path.write_bytes(dicom(pixels, "MG", uid(rng), **about))


def _breast(row, rng: np.random.Generator) -> np.ndarray:
    """Return a left breast, shape (HEIGHT, WIDTH), with a mass in the tissue, grains of chalk, or both."""
    y, x = np.mgrid[:HEIGHT, :WIDTH].astype(float)
    y = y - HEIGHT / 2 + (3 if row.view == "MLO" else 0)
    inside = expit((rng.uniform(22, 28) - np.hypot(x, 1.4 * y)) / 1.5)
    tissue = (0.3 + 0.15 * row.thick) * (1 + 0.5 * smooth_noise(rng, (HEIGHT, WIDTH), 3))
    down, across = rng.uniform(-8, 8), rng.uniform(5, 14)
    angle, far = np.arctan2(y - down, x - across), np.hypot(y - down, x - across)
    spikes = 0.55 * expit(1.5 * row.ragged) * np.cos(7 * angle + rng.uniform(0, 6))
    mass = 1.2 * expit(2 * ((1 + 2.2 * np.sqrt(row.mass)) * (1 + spikes) - far)) * min(row.mass, 1)
    grains = np.zeros((HEIGHT, WIDTH))
    spread = rng.normal(0, 2.5, (rng.poisson(3 * row.chalk), 2))
    places = np.rint(np.array([HEIGHT / 2, rng.uniform(6, 13)]) + spread).astype(int)
    grains[tuple(np.clip(places, 0, [HEIGHT - 1, WIDTH - 1]).T)] = 2.5
    if row.implant:
        tissue = tissue + 2.5 * expit(10 - np.hypot(x, y))
    seen = -2 + inside * (1.2 + tissue + mass + grains) + 0.15 * rng.normal(size=(HEIGHT, WIDTH))
    return seen * (1.15 if row.machine_id == 29 else 1) + rng.normal(0, 0.1)
