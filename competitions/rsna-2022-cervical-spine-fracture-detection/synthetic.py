from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import first_value, standard

VERTEBRAE = ["C1", "C2", "C3", "C4", "C5", "C6", "C7"]


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    # studies, and those with boxes, with segmentations and with both; their tenths test how halves are rounded
    n, boxed, segmented, both = [(35, 25, 14, 6), (46, 15, 16, 5)][(seed - 1) % 2]
    studies = [f"1.2.826.{number}" for number in rng.choice(99_999, n, replace=False)]
    fractured = (rng.random((n, 7)) < 0.15).astype(int)
    train = pd.DataFrame({"StudyInstanceUID": studies, "patient_overall": fractured.max(axis=1)})
    train[VERTEBRAE] = fractured
    train.to_csv(raw / "train.csv", index=False)

    shuffled = [studies[k] for k in rng.permutation(n)]
    boxes = [
        [study, *(rng.random(2) * 300), *(rng.random(2) * 80).round(5), slice_number]
        for study in shuffled[segmented - both :][:boxed]
        for slice_number in range(1, 1 + int(rng.integers(1, 4)))
    ]
    columns = ["StudyInstanceUID", "x", "y", "width", "height", "slice_number"]
    pd.DataFrame(boxes, columns=columns).to_csv(raw / "train_bounding_boxes.csv", index=False)
    (raw / "segmentations").mkdir()
    for study in shuffled[:segmented]:
        (raw / "segmentations" / f"{study}.nii").write_bytes(b"n+1\0" + study[-4:].encode())
    for study in studies:
        folder = raw / "train_images" / study
        folder.mkdir(parents=True)
        for slice_number in range(1, 1 + int(rng.integers(1, 4))):
            (folder / f"{slice_number}.dcm").write_bytes(b"DICM" + rng.bytes(4))

    test = pd.DataFrame({"row_id": ["1.2.826.100001_C1", "1.2.826.100001_patient_overall"]})
    test[["StudyInstanceUID", "prediction_type"]] = test["row_id"].str.split("_", n=1, expand=True)
    test.to_csv(raw / "test.csv", index=False)
    test[["row_id"]].assign(fractured=0.5).to_csv(raw / "sample_submission.csv", index=False)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "answers.csv")[["row_id", "fractured"]]
    p = np.clip(0.4 * answers["fractured"] + 0.6 * rng.random(len(answers)), 0, 1).round(4)
    noisy = answers.assign(fractured=p)

    return {
        "prior": noisy.assign(fractured=np.where(noisy["row_id"].str.endswith("overall"), 0.4, 0.1)),
        "all_zero": noisy.assign(fractured=0),
        "all_one": noisy.assign(fractured=1),
        "inverted": noisy.assign(fractured=1 - answers["fractured"]),
        "near_zero": noisy.assign(fractured=1e-16),
        "booleans": noisy.assign(fractured=p > 0.5),
        "column_order_and_extra": noisy.assign(x=1)[["fractured", "x", "row_id"]],
        "missing_id_column": noisy[["fractured"]],
        "one_row_only": noisy.head(1),
        **first_value(noisy, "fractured", below_zero=-0.01),
        **standard(
            noisy, "row_id", "1.2.826.100002_C1", "fractured", "missing_column nan_prediction text_prediction above_one"
        ),
    }
