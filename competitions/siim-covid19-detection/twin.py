from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.worlds.images import WHOLE, ellipse, prediction, redrawn, smooth_noise
from pytest_mlebench.authoring.worlds.labels import by_size, random_names
from pytest_mlebench.authoring.worlds.scans import chest, deep, dicom, uid

from .prepare import LABELS

SIDE = 64  # about 3000 pixels in the real data
SHARES = [0.28, 0.4, 0.2, 0.12]
NAMES = list(LABELS.values())


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n = by_size(size, 520, 900, 2600)
    # the world: where typical, indeterminate and atypical opacities are, and how coarse each kind is
    left, right, low, high = 0.28, 0.72, rng.uniform(0.58, 0.68), rng.uniform(0.3, 0.4)
    places = {
        1: [(left, low), (right, low)],
        2: [(rng.choice([left, right]), (low + high) / 2)],
        3: [(left, high), (right, high)],
    }
    grains = dict(zip((1, 2, 3), rng.permutation([0.8, 1.6, 2.8]), strict=True))
    studies, images = [], []
    guesses: dict[str, list[tuple[str, str]]] = {"simple": [], "ceiling": []}
    names = iter(random_names(rng, 4 * n, 12))
    for _ in range(n):
        study, kind = next(names), int(rng.choice(4, p=SHARES))
        given = int(rng.choice(4, p=SHARES)) if rng.random() < 0.08 else kind
        studies.append((f"{study}_study", *np.eye(4, dtype=int)[given]))
        chances = 0.08 * np.array(SHARES) + 0.92 * np.eye(4)[kind]
        unsure = np.where(np.arange(4) > 0, SHARES, 0.02) if kind else np.array([0.9, 0.05, 0.03, 0.02])
        for name, p in (("ceiling", chances), ("simple", unsure)):
            guesses[name].append(
                (f"{study}_study", prediction((label, q, WHOLE) for label, q in zip(NAMES, p, strict=True)))
            )
        for _ in range(rng.choice([1, 2], p=[0.93, 0.07])):
            image = next(names)
            boxes = _write(
                raw / "train" / study / uid(rng) / f"{image}.dcm", places.get(kind, []), grains.get(kind, 1), rng
            )
            drawn = [redrawn(rng, box, 0.05).round(3) for box in boxes if rng.random() < 0.93]
            images.append((f"{image}_image", *_texts(drawn), study))
            nothing = ("none", 0.95 if not boxes else 0.03, WHOLE)
            guesses["ceiling"].append(
                (f"{image}_image", prediction([*(("opacity", 0.9, box) for box in boxes), nothing]))
            )
            rough = [("opacity", rng.uniform(0.3, 1), redrawn(rng, box, 0.13)) for box in boxes if rng.random() < 0.8]
            if rng.random() < 0.3:
                corner = rng.uniform(8, 40, 2)
                rough.append(("opacity", rng.uniform(0.3, 0.8), np.array([*corner, *(corner + 15)])))
            nothing = ("none", 0.2 + 0.6 * (not rough) * rng.uniform(0.3, 1), WHOLE)
            guesses["simple"].append((f"{image}_image", prediction([*rough, nothing])))
    pd.DataFrame(studies, columns=["id", *LABELS]).to_csv(raw / "train_study_level.csv", index=False)
    table = pd.DataFrame(images, columns=["id", "boxes", "label", "StudyInstanceUID"])
    table.iloc[rng.permutation(len(table))].to_csv(raw / "train_image_level.csv", index=False)
    study, image = next(names), next(names)
    _write(raw / "test" / study / uid(rng) / f"{image}.dcm", places[1], grains[1], rng)
    sample = f"id,PredictionString\n{study}_study,negative 1 0 0 1 1\n{image}_image,none 1 0 0 1 1\n"
    (raw / "sample_submission.csv").write_text(sample)
    columns = ["id", "PredictionString"]
    return {name: pd.DataFrame(rows, columns=columns).set_index("id") for name, rows in guesses.items()}


def deal(submission: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Shuffle studies and images separately, because they have different labels."""
    of_study = submission["id"].str.endswith("_study").to_numpy()
    order = np.arange(len(submission))
    for rows in (np.flatnonzero(of_study), np.flatnonzero(~of_study)):
        order[rows] = rng.permutation(rows)
    return submission.assign(PredictionString=submission["PredictionString"].to_numpy()[order])


def _write(path: Path, places: list[tuple[float, float]], grain: float, rng: np.random.Generator) -> list[np.ndarray]:
    """Write a radiograph; returns the boxes (x0, y0, x1, y1) of its opacities."""
    picture, boxes = chest(rng, SIDE), []
    for x, y in places:
        centre, radii = SIDE * np.array([y, x]) + rng.normal(0, 3, 2), rng.uniform([6, 4.5], [11, 8])
        inside = np.clip(ellipse(picture.shape, centre, radii) / 2, 0, 1)
        picture = picture + rng.uniform(0.6, 1.3) * inside * (1 + 0.8 * smooth_noise(rng, picture.shape, grain))
        low, high = np.clip(centre - radii, 0, SIDE - 2), np.clip(centre + radii, 2, SIDE)
        boxes.append(np.array([*low[::-1], *high[::-1]]))
    path.parent.mkdir(parents=True)
    path.write_bytes(
        dicom(deep(picture), "CR", uid(rng), BodyPartExamined="CHEST", PatientSex=str(rng.choice(["M", "F"])))
    )
    return boxes


def _texts(boxes: list[np.ndarray]) -> tuple[str | None, str]:
    """Return the boxes as x, y, width and height, and as a label."""
    if not boxes:
        return None, "none 1 0 0 1 1"
    sides = [(*(float(c) for c in box[:2]), *(float(c) for c in (box[2:] - box[:2]).round(3))) for box in boxes]
    return str([dict(zip(("x", "y", "width", "height"), box, strict=True)) for box in sides]), prediction(
        ("opacity", 1, box) for box in boxes
    )
