from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.worlds.images import smooth_noise
from pytest_mlebench.authoring.worlds.labels import by_size, positive_probabilities
from pytest_mlebench.authoring.worlds.scans import deep, dicom, nifti, uid

from .synthetic import VERTEBRAE

SIDE, SLICES = 18, 14  # real scans have about 300 slices of 512 by 512 pixels
PER = SLICES // len(VERTEBRAE)


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n, boxed, segmented, both = by_size(size, (100, 20, 20, 10), (630, 100, 120, 30), (1400, 200, 200, 60))
    # the world: which vertebrae break, and how strongly a crack and a shift of the bone indicate it
    crack, shift = rng.gamma(1, 1, (n, 7)), rng.normal(size=(n, 7))
    plain = rng.normal(0, 0.5, 7) + crack
    score = rng.uniform(1.3, 1.8) * plain + rng.uniform(1, 1.3) * np.abs(shift) * (crack > 0.7)
    p, rough = (positive_probabilities(x.ravel(), accuracy=a, positive=0.15) for x, a in ((score, 0.95), (plain, 0.9)))
    p, rough = p.reshape(n, 7), rough.reshape(n, 7)
    broken = (rng.random((n, 7)) < p).astype(int)
    studies = [uid(rng) for _ in range(n)]
    train = pd.DataFrame({"StudyInstanceUID": studies, "patient_overall": broken.max(axis=1)})
    train[VERTEBRAE] = broken
    train.to_csv(raw / "train.csv", index=False)

    chosen = rng.permutation(n)
    with_segmentation = set(chosen[:segmented])
    with_boxes = [k for k in chosen[segmented - both :] if broken[k].any()][:boxed]
    (raw / "segmentations").mkdir()
    places = {}
    for k, study in enumerate(studies):
        volume, places[k] = _spine(crack[k], shift[k], rng)
        _write(raw / "train_images" / study, study, volume, rng)
        if k in with_segmentation:
            bone = np.repeat(np.arange(1, 8), PER)[:, None, None] * (volume > 1)
            path = raw / "segmentations" / f"{study}.nii"
            path.write_bytes(nifti(bone.transpose(2, 1, 0), spacing=(0.5, 0.5, 1)))
    boxes = [
        (studies[k], *(float(c) for c in places[k][vertebra]), 6.0, 6.0, PER * vertebra + j + 1)
        for k in with_boxes
        for vertebra in np.flatnonzero(broken[k])
        for j in range(PER)
    ]
    columns = ["StudyInstanceUID", "x", "y", "width", "height", "slice_number"]
    pd.DataFrame(boxes, columns=columns).to_csv(raw / "train_bounding_boxes.csv", index=False)
    test = pd.DataFrame({"StudyInstanceUID": uid(rng), "prediction_type": ["C1", "patient_overall"]})
    test = test.assign(row_id=test["StudyInstanceUID"] + "_" + test["prediction_type"])
    test.to_csv(raw / "test.csv", index=False)
    test[["row_id"]].assign(fractured=0.5).to_csv(raw / "sample_submission.csv", index=False)
    return {"simple": _predicted(studies, rough), "ceiling": _predicted(studies, p)}


def _predicted(studies: list[str], p: np.ndarray) -> pd.DataFrame:
    """Return the best predictions, as fractures weigh twice as much as intact bones."""
    p = np.column_stack([1 - np.prod(1 - p, axis=1), p])
    rows = pd.DataFrame(2 * p / (1 + p), studies, ["patient_overall", *VERTEBRAE]).stack()
    ids = pd.Index([f"{study}_{kind}" for study, kind in rows.index], name="row_id")
    return pd.DataFrame({"fractured": rows.to_numpy().round(6)}, ids)


def _spine(crack: np.ndarray, shift: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return a volume of shape (SLICES, SIDE, SIDE), and the corner (x, y) of a box around each vertebra's crack."""
    y, x = np.mgrid[:SIDE, :SIDE]
    centre, places = SIDE / 2 + rng.normal(0, 1, 2), np.empty((7, 2))
    volume = 0.3 * smooth_noise(rng, (SLICES, SIDE, SIDE), (0.7, 1, 1)) + 0.2 * rng.normal(size=(SLICES, SIDE, SIDE))
    for vertebra in range(7):
        turn, width = rng.uniform(0, 2 * np.pi), 0.25 * min(crack[vertebra], 4)
        for j in range(PER):  # the second slice of a vertebra shows how far the bone has moved
            down, across = y - centre[0] - 1.2 * j * shift[vertebra] * (crack[vertebra] > 0.7), x - centre[1]
            ring = np.exp(-(((np.hypot(down, across) - 4.5) / 1.3) ** 2))
            along = down * np.sin(turn) + across * np.cos(turn)
            off = np.abs(down * np.cos(turn) - across * np.sin(turn))
            gap = np.exp(-((off / 0.9) ** 2)) * (along > 0) * np.minimum(width, 1)
            volume[PER * vertebra + j] += 3 * ring * (1 - gap)
        places[vertebra] = centre[::-1] + 4.5 * np.array([np.cos(turn), np.sin(turn)]) - 3
    return rng.uniform(0.9, 1.1) * volume, places.round(2)


def _write(folder: Path, study: str, volume: np.ndarray, rng: np.random.Generator) -> None:
    folder.mkdir(parents=True)
    series, top = uid(rng), int(rng.integers(100, 900))
    for k, values in enumerate(volume):
        about = {
            "StudyInstanceUID": study,
            "SeriesInstanceUID": series,
            "PatientID": study,
            "InstanceNumber": f"{k + 1:02d}",
            "ImagePositionPatient": f"-50\\-50\\{top - k:03d}",
            "SliceThickness": 1,
            "RescaleIntercept": -1024,
            "RescaleSlope": 1,
        }
        (folder / f"{k + 1}.dcm").write_bytes(dicom(deep(values - 1), "CT", uid(rng), **about))
