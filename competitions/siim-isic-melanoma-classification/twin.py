from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit

from pytest_mlebench.authoring.tfrecord import tfrecord
from pytest_mlebench.authoring.worlds.images import jpeg, smooth_noise
from pytest_mlebench.authoring.worlds.labels import by_size, positive_probabilities, random_names, with_missing
from pytest_mlebench.authoring.worlds.scans import dicom, uid

from .prepare import TEST_RECORDS

SIDE, LENGTH = 40, 2000  # pixels, and bytes of a JPEG file; real pictures are up to 6000 pixels wide
SITES = ["torso", "lower extremity", "upper extremity", "head/neck", "palms/soles", "oral/genital"]


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    train, test, others = by_size(size, (140, 60, 4), (1100, 520, 10), (2600, 1300, 20))
    n = train + test
    # the world: what makes a mole malignant. Age, site and size are obvious; border and colours interact
    looks = rng.normal(size=(n, 4))  # asymmetry, border, colours, diameter
    patient = rng.integers(0, n // 8, n)
    age, risk = rng.choice(np.arange(15, 91, 5), n // 8)[patient], rng.normal(0, 0.3, n // 8)[patient]
    site = rng.choice(len(SITES), n, p=[0.5, 0.25, 0.15, 0.06, 0.03, 0.01])
    plain = 0.04 * (age - 50) + rng.normal(0, 0.5, len(SITES))[site] + rng.uniform(0.7, 1) * looks[:, 3]
    weights = rng.uniform(0.8, 1.6, 3)
    p = positive_probabilities(
        plain + looks[:, :3] @ weights + looks[:, 1] * looks[:, 2] + risk, accuracy=0.95, positive=0.14
    )
    target = (rng.random(n) < p).astype(int)

    names = [f"ISIC_{name}" for name in random_names(rng, n + others, 7, "0123456789")]
    spots = np.where(target == 1, "melanoma", rng.choice(["unknown", "nevus", "lentigo NOS"], n, p=[0.83, 0.16, 0.01]))
    people = rng.permutation(9_999_999)[: n // 8]
    table = pd.DataFrame(
        {
            "image_name": names[:n],
            "patient_id": [f"IP_{number:07d}" for number in people[patient]],
            "sex": rng.choice(["male", "female"], n // 8)[patient],
            "age_approx": age.astype(float),
            "anatom_site_general_challenge": np.array(SITES)[site],
            "diagnosis": spots,
            "benign_malignant": np.where(target == 1, "malignant", "benign"),
            "target": target,
        }
    )
    table = with_missing(table, ["sex", "anatom_site_general_challenge"], 0.02, rng)
    table["age_approx"] = table["age_approx"].where(rng.random(n) > 0.01)
    table.to_csv(raw / "train.csv", index=False)
    unlabelled = table.iloc[:others, :5].assign(image_name=names[n:])
    unlabelled.to_csv(raw / "test.csv", index=False)
    unlabelled[["image_name"]].assign(target=0).to_csv(raw / "sample_submission.csv", index=False)

    tones = rng.normal(0, 12, (n // 8, 3))
    pictures = [
        _write(raw, "train", name, *person, rng) for name, *person in zip(names, tones[patient], looks, strict=False)
    ]
    _write_records(raw / "tfrecords", rng, names[:n], pictures, target, test)
    pictures = [_write(raw, "test", name, tones[0], rng.normal(size=4), rng) for name in names[n:]]
    records = [{"image": picture, "image_name": name} for picture, name in zip(pictures, names[n:], strict=True)]
    (raw / "tfrecords" / "test00-687.tfrec").write_bytes(tfrecord(records))
    guesses = {"simple": expit(plain - plain.mean() - 2), "ceiling": p}
    return {name: pd.DataFrame({"target": guess.round(6)}, table["image_name"]) for name, guess in guesses.items()}


def _write(raw: Path, side: str, name: str, tone: np.ndarray, looks: np.ndarray, rng: np.random.Generator) -> bytes:
    """Write a picture as JPEG and as DICOM; returns the JPEG file."""
    pixels = _mole(tone, looks, rng)
    picture = jpeg(pixels, block=LENGTH)
    for path, content in (
        (raw / side / f"{name}.dcm", dicom(pixels, "XC", uid(rng), encoded=picture)),
        (raw / "jpeg" / side / f"{name}.jpg", picture),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return picture


def _mole(tone: np.ndarray, looks: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a mole: uint8 of shape (SIDE, SIDE, 3)."""
    asymmetry, border, colours, diameter = expit(1.2 * looks)
    y, x = np.mgrid[:SIDE, :SIDE] - SIDE / 2 - rng.normal(0, 1.5, (2, 1, 1))
    turn = rng.uniform(0, 2 * np.pi)
    across, along = np.cos(turn) * x - np.sin(turn) * y, np.sin(turn) * x + np.cos(turn) * y
    angle = np.arctan2(across, along)
    edge = 1 + 0.3 * border * np.cos(rng.integers(5, 9) * angle + rng.uniform(0, 6)) + 0.45 * asymmetry * np.cos(angle)
    radius = (4 + 10 * diameter) * edge
    body = expit((radius - np.hypot(across, along * rng.uniform(1, 1.2))) / rng.uniform(0.5, 1))
    patches = smooth_noise(rng, (SIDE, SIDE), 2.5)[..., None] * [10, 25, 30] * 2 * colours
    skin = np.array([205, 160, 140]) + tone + 4 * smooth_noise(rng, (SIDE, SIDE), 3)[..., None]
    pigment = np.array([-80, -90, -80]) * rng.uniform(0.7, 1.2) + patches
    picture = (skin + body[..., None] * pigment) * rng.uniform(0.85, 1.1) + rng.normal(0, 5, (SIDE, SIDE, 3))
    return np.clip(np.rint(picture), 0, 255).astype(np.uint8)


def _write_records(
    folder: Path, rng: np.random.Generator, names: list[str], pictures: list[bytes], target: np.ndarray, test: int
) -> None:
    folder.mkdir()
    order = rng.permutation(len(names))
    held_out, rest = np.array_split(order[:test], 2), np.array_split(order[test:], 4)
    stems = [*TEST_RECORDS, *(f"train{k:02d}-2071.tfrec" for k in (1, 2, 3)), "train15-2061.tfrec"]
    for stem, rows in zip(stems, [*held_out, *rest], strict=True):
        records = [{"image": pictures[k], "image_name": names[k], "target": int(target[k])} for k in rows]
        (folder / stem).write_bytes(tfrecord(records))
