import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.ndimage import gaussian_filter

from pytest_mlebench.authoring.worlds.labels import by_size, standard

from .synthetic import SMOKING

SIDE, SLICES = 56, 2  # a real slice has 512 by 512 pixels, and a patient has tens or hundreds of slices
WEEKS = np.arange(-5, 70)


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n = by_size(size, 100, 750, 1000)
    patients = [f"ID{number:05d}63720217{rng.integers(10**14, 10**15)}" for number in rng.permutation(n) * 3 + 7]
    age, male = rng.normal(67, 7, n).round().clip(49, 88), rng.random(n) < 0.75
    smoking = rng.choice(3, n, p=[0.67, 0.28, 0.05])
    # the world: how fast lungs scar, by the scarred share of the picture, by age and by smoking
    scarred = rng.beta(1.5, 3, n)
    slope = -4 - 8 * standard(scarred) - rng.normal(0, 1.5, 3)[smoking] - rng.normal(0, 1) * standard(age)
    slope = slope * np.exp(rng.normal(0, 0.15, n))
    typical = np.where(male, 3800, 2900) - 15 * (age - 67) + rng.normal(0, 200, n)
    start = typical * rng.uniform(0.5, 1.05, n)
    slowing = rng.uniform(0.002, 0.01)

    rows, values = [], {"simple": [], "ceiling": []}
    for k, patient in enumerate(patients):
        later = rng.choice(WEEKS[12:], rng.integers(6, 9), replace=False)
        visits = np.sort([rng.choice(WEEKS[:12]), *later])
        noise = rng.normal(0, 90, len(visits))
        noise[0] *= 0.3
        course = slope[k] * (WEEKS - visits[0]) * np.exp(-slowing * (WEEKS - visits[0]))
        fvc = (start[k] + course[visits - WEEKS[0]] + noise).round().clip(700)
        person = int(age[k]), "Male" if male[k] else "Female", SMOKING[smoking[k]]
        percent = (100 * fvc / typical[k]).round(6)
        rows += [(patient, *visit, *person) for visit in zip(visits, fvc.astype(int), percent, strict=True)]
        values["ceiling"].append(start[k] + course)
        values["simple"].append(fvc[0] + (0.6 * slope[k] + 0.4 * slope.mean()) * (WEEKS - visits[0]))
        for number in range(SLICES):
            path = raw / "train" / patient / f"{number + 1}.dcm"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(dicom(_slice(rng, scarred[k]), patient, number + 1))
    columns = ["Patient", "Weeks", "FVC", "Percent", "Age", "Sex", "SmokingStatus"]
    table = pd.DataFrame(rows, columns=columns)
    table.to_csv(raw / "train.csv", index=False)
    table.drop_duplicates("Patient").head(2).to_csv(raw / "test.csv", index=False)
    sample = pd.DataFrame({"Patient_Week": table["Patient"].head(2) + "_0", "FVC": 2000, "Confidence": 100})
    sample.to_csv(raw / "sample_submission.csv", index=False)
    ids = pd.Index([f"{patient}_{week}" for patient in patients for week in WEEKS], name="Patient_Week")
    return {
        name: pd.DataFrame({"FVC": np.concatenate(fvc).round(1), "Confidence": 160 if name == "ceiling" else 220}, ids)
        for name, fvc in values.items()
    }


def units(submission: pd.DataFrame) -> Sequence[object]:
    """Return the patient of each row: all weeks of a patient are one unit."""
    return submission["Patient_Week"].str.rpartition("_")[0].tolist()


def _slice(rng: np.random.Generator, scarred: float) -> np.ndarray:
    """Return two lungs in Hounsfield units: air, with a net of scars that covers a share of them from below."""
    y, x = np.mgrid[:SIDE, :SIDE] / (SIDE - 1) * 2 - 1
    body = (x / 0.95) ** 2 + (y / 0.75) ** 2 < 1
    lungs = ((np.abs(x) - 0.42) / 0.32) ** 2 + (y / 0.55) ** 2 < 1
    net = np.abs(gaussian_filter(rng.normal(size=(SIDE, SIDE)), 1)) * 4 < 0.6
    edge = y + 0.1 * gaussian_filter(rng.normal(size=(SIDE, SIDE)), 5) * 10 > 0.55 - 1.1 * scarred
    values = np.where(lungs, np.where(net & edge, -350, -850), np.where(body, 40, -1000))
    return np.rint(values + rng.normal(0, 35, (SIDE, SIDE))).astype(np.int16)


def dicom(pixels: np.ndarray, patient: str, number: int) -> bytes:
    """Return a CT slice as a DICOM file (explicit VR, little endian)."""
    uid = f"1.2.826.0.1.3680043.8.498.{int(patient[2:7]) + 1}.{number}"
    height, width = pixels.shape
    meta = _elements([
        (2, 2, "UI", "1.2.840.10008.5.1.4.1.1.2"), (2, 3, "UI", uid), (2, 16, "UI", "1.2.840.10008.1.2.1"),
        (2, 18, "UI", "1.2.826.0.1.3680043.8.498.1"),
    ])  # fmt: skip
    body = _elements([
        (0x8, 0x16, "UI", "1.2.840.10008.5.1.4.1.1.2"), (0x8, 0x18, "UI", uid), (0x8, 0x60, "CS", "CT"),
        (0x10, 0x10, "PN", patient), (0x10, 0x20, "LO", patient), (0x18, 0x50, "DS", "1.25"),
        (0x20, 0x13, "IS", str(number)), (0x20, 0x32, "DS", f"-170\\-170\\{-100 - 10 * number}"),
        (0x28, 0x2, "US", 1), (0x28, 0x4, "CS", "MONOCHROME2"), (0x28, 0x10, "US", height), (0x28, 0x11, "US", width),
        (0x28, 0x30, "DS", "5.3\\5.3"), (0x28, 0x100, "US", 16), (0x28, 0x101, "US", 16), (0x28, 0x102, "US", 15),
        (0x28, 0x103, "US", 1), (0x28, 0x1050, "DS", "-500"), (0x28, 0x1051, "DS", "1500"),
        (0x28, 0x1052, "DS", "0"), (0x28, 0x1053, "DS", "1"), (0x7FE0, 0x10, "OW", pixels.astype("<i2").tobytes()),
    ])  # fmt: skip
    length = struct.pack("<HH2sHI", 2, 0, b"UL", 4, len(meta))
    return b"\0" * 128 + b"DICM" + length + meta + body


def _elements(values: list[tuple[int, int, str, str | int | bytes]]) -> bytes:
    parts = []
    for group, element, kind, value in values:
        data = (
            struct.pack("<H", value)
            if isinstance(value, int)
            else value
            if isinstance(value, bytes)
            else value.encode()
        )
        data += (b"\0" if kind in ("UI", "OW") else b" ") * (len(data) % 2)
        size = struct.pack("<HI", 0, len(data)) if kind == "OW" else struct.pack("<H", len(data))
        parts.append(struct.pack("<HH2s", group, element, kind.encode()) + size + data)
    return b"".join(parts)
