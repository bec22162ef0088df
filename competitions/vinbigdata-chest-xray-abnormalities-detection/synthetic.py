from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import first_value, standard

CLASSES = [
    "Aortic enlargement",
    "Atelectasis",
    "Calcification",
    "Cardiomegaly",
    "Consolidation",
    "ILD",
    "Infiltration",
    "Lung Opacity",
    "Nodule/Mass",
    "Other lesion",
    "Pleural effusion",
    "Pleural thickening",
    "Pneumothorax",
    "Pulmonary fibrosis",
]
WEIGHTS = np.array([3, 1, 1, 3, 1, 1, 1, 2, 2, 2, 1, 2, 1, 1]) / 22
NO_FINDING = ("No finding", 14)
COLUMNS = ["image_id", "class_name", "class_id", "rad_id", "x_min", "y_min", "x_max", "y_max"]
CORNERS = COLUMNS[4:]

Row = dict[Any, Any]
Box = tuple[Any, ...]  # class, confidence, and four corners


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, n_test = 230, 6
    ids = [rng.bytes(16).hex() for _ in range(n + n_test)]
    rows = [row for k, id in enumerate(ids[:n]) for row in _annotations(rng, id, k % 29 == 5)]
    table = pd.DataFrame(rows, columns=COLUMNS).sample(frac=1, random_state=seed)
    table.to_csv(raw / "train.csv", index=False)
    sample = pd.DataFrame({"image_id": ids[n:], "PredictionString": "14 1 0 0 1 1"})
    sample.to_csv(raw / "sample_submission.csv", index=False)
    for folder, part in (("train", ids[:n]), ("test", ids[n:])):
        (raw / folder).mkdir()
        for id in part:
            (raw / folder / f"{id}.dicom").write_bytes(b"DICM" + rng.bytes(4))


def _annotations(rng: np.random.Generator, id: str, disputed: bool) -> list[tuple]:
    readers = [f"R{reader}" for reader in rng.choice(np.arange(1, 18), 3, replace=False)]
    if rng.random() < 0.45:
        return [(id, *NO_FINDING, reader, None, None, None, None) for reader in readers]
    rows = []
    for label in rng.choice(14, int(rng.integers(1, 4)), replace=False, p=WEIGHTS):
        x, y = rng.integers(50, 1500, 2)
        width, height = rng.integers(30, 800, 2)

        def row(reader: str, *corners: int, label: int = label) -> tuple:
            return (id, CLASSES[label], label, reader, *map(float, corners))

        for reader in readers[: int(rng.integers(1, 4))]:
            dx, dy = rng.integers(0, 25, 2)
            rows.append(row(reader, x + dx, y + dy, x + dx + width, y + dy + height))
        if rng.random() < 0.3:  # a second finding of the same class in the image
            rows.append(row(readers[0], x + 900, y, x + 900 + width // 2, y + height))
    if disputed:  # one radiologist finds nothing, others do
        rows.append((id, *NO_FINDING, readers[2], None, None, None, None))
    return rows


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "answers.csv")
    gold = pd.read_csv(private / "gold_submission.csv")
    findings = [answers[answers["image_id"] == id].to_dict("records") for id in gold["image_id"]]

    def build(predict: Callable[[Row], Iterable[Box]]) -> pd.DataFrame:
        """``predict`` returns the boxes to predict for a true box."""
        texts = [
            " ".join(" ".join(map(str, box)) for row in rows for box in predict(row)) or "14 1 0 0 1 1"
            for rows in findings
        ]
        return gold.assign(PredictionString=texts)

    def jitter(row: Row, by: float, confidence: float | None = None) -> Box:
        corners = _corners(row) + (0 if row["class_id"] == 14 else rng.normal(0, by, 4))
        score = round(float(rng.random()), 4) if confidence is None else confidence
        return (row["class_id"], score, *np.round(corners, 2))

    def noise() -> Box:
        label, score = int(rng.integers(0, 15)), round(float(rng.random()), 4)
        return (label, score, *np.sort(rng.integers(0, 2000, (2, 2)), axis=0).ravel())

    def mixed(row: Row) -> list[Box]:
        found = [jitter(row, 40)] if rng.random() < 0.8 else []
        return found + [noise() for _ in range(rng.integers(0, 3))]

    def scaled(factor: float) -> pd.DataFrame:
        """Predict true boxes with a scaled x_max, which shows how the overlap is computed."""
        return build(lambda row: [(row["class_id"], 1.0, *(_corners(row) * [1, 1, factor, 1]).tolist())])

    def ending_right(row: Row) -> list[Box]:
        x, y = row["x_max"], row["y_max"]
        return [(row["class_id"], 1.0, max(x - 5, 0), max(y - 5, 0), x, y)]

    noisy = build(mixed)

    many = build(lambda row: [jitter(row, 300) for _ in range(14)])
    same = build(lambda row: [jitter(row, 150, 0.5), jitter(row, 150, 0.5)])
    backwards = gold.iloc[::-1].reset_index(drop=True)

    def doubled(k: int) -> pd.DataFrame:
        texts = backwards["PredictionString"].tolist()
        texts[k] = " ".join(texts[k].split()[:6] * 2)
        return backwards.assign(PredictionString=texts)

    # more than 100 boxes of one class in an image; the correct one has the lowest confidence
    label, true_box = answers["class_id"][0], " ".join(map(str, answers.loc[0, CORNERS]))
    crowd = " ".join([f"{label} 0.9 5000 5000 5010 5010"] * 100 + [f"{label} 0.1 {true_box}"])
    is_crowded = noisy["image_id"] == answers["image_id"][0]
    return {
        "jittered": build(lambda row: [jitter(row, 60)]),
        "same_confidence": same,
        "same_confidence_reversed": same.iloc[::-1],
        "gold_reversed": gold.iloc[::-1],
        "first_row_doubled": doubled(0),
        "second_row_doubled": doubled(1),
        "many_boxes": many,
        "over_100": noisy.assign(PredictionString=noisy["PredictionString"].mask(is_crowded, crowd)),
        "width_half": scaled(0.5),
        "width_042": scaled(0.42),
        "width_038": scaled(0.38),
        "width_double": scaled(2),
        "corners_far_but_ends_equal": build(ending_right),
        "inverted_boxes_as_well": build(lambda row: [jitter(row, 20), (row["class_id"], 0.99, 300, 200, 100, 400)]),
        "negative_confidence": build(lambda row: [jitter(row, 60, -float(rng.random()))]),
        "confidence_above_one": build(lambda row: [jitter(row, 60, float(rng.random() * 10))]),
        "class_fraction": build(lambda row: [(row["class_id"] + 0.9, 1.0, *_corners(row).tolist())]),
        "unknown_class": build(lambda row: [(77, 1.0, *_corners(row).tolist())]),
        "extra_unknown_class": build(lambda row: [jitter(row, 10), (77, 1.0, 0, 0, 1, 1)]),
        "two_rows_for_an_image": pd.concat([noisy, gold.head(3)]),
        "column_order": noisy[["PredictionString", "image_id"]],
        "extra_column": noisy.assign(note="x"),
        **first_value(noisy, "PredictionString", nan=None, blank=" ", text="14 1 0 0 1 one", five_numbers="14 1 0 0 1"),
        **first_value(noisy, "PredictionString", seven_numbers="14 1 0 0 1 1 1", single_number="14"),
        **first_value(noisy, "PredictionString", double_space="14 1 0  0 1 1", trailing_space="14 1 0 0 1 1 "),
        **first_value(noisy, "PredictionString", commas="14,1,0,0,1,1", nan_class="nan 1 0 0 1 1"),
        **first_value(noisy, "PredictionString", nan_box="3 1 nan 0 1 1"),
        "renamed_column": noisy.rename(columns={"image_id": "ID", "PredictionString": "TARGET"}),
        **standard(noisy, "image_id", "0" * 32, "PredictionString", "missing_column", without="duplicate_id"),
    }


def _corners(row: Row) -> np.ndarray:
    return np.array([row[corner] for corner in CORNERS])
