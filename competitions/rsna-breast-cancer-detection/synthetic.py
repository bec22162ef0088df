from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import first_value, standard


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 128 + seed
    patients = rng.choice(65_000, n, replace=False) + 5  # not in ascending order
    rows = []
    for k, patient in enumerate(patients):
        sides = [["L", "R"], ["R", "L"], ["L"], ["R"]][int(rng.choice(4, p=[0.6, 0.2, 0.1, 0.1]))]
        age = np.nan if rng.random() < 0.05 else float(rng.integers(35, 89)) + (0.5 if rng.random() < 0.1 else 0)
        for side in sides:
            cancer = int(rng.random() < 0.3)
            rows += [
                {
                    "site_id": 2 if k < n // 2 else 1,
                    "patient_id": patient,
                    "image_id": int(rng.integers(10**6, 2 * 10**9)),
                    "laterality": side,
                    "view": view,
                    "age": age,
                    "cancer": cancer,
                    "biopsy": int(cancer or rng.random() < 0.05),
                    "invasive": int(cancer and rng.random() < 0.7),
                    "BIRADS": rng.choice([0.0, 1.0, 2.0, np.nan]),
                    "implant": int(rng.random() < 0.05),
                    "density": rng.choice(["A", "B", "C", "D", None]),
                    "machine_id": int(rng.choice([21, 29, 48, 49, 210])),
                    "difficult_negative_case": bool(not cancer and rng.random() < 0.1),
                }
                for view in ["CC", "MLO", "AT"][: int(rng.choice([1, 1, 2, 3]))]
            ]
    images = pd.DataFrame(rows)
    # some images of one breast have different labels: the first in the file counts
    flipped = images.index[images.duplicated(["patient_id", "laterality"])][::7]
    images.loc[flipped, "cancer"] = 1 - images.loc[flipped, "cancer"]
    # some rows of a patient are separate from the others
    moved = images.index[5::11]
    images = pd.concat([images.drop(index=moved), images.loc[moved]])
    images.to_csv(raw / "train.csv", index=False)
    for patient, image in zip(images["patient_id"], images["image_id"], strict=True):
        folder = raw / "train_images" / str(patient)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{image}.dcm").write_bytes(b"DICM" + rng.bytes(4))

    columns = ["site_id", "patient_id", "image_id", "laterality", "view", "age", "implant", "machine_id"]
    test = images.head(4)[columns].assign(patient_id=70_001)
    test["prediction_id"] = test["patient_id"].astype(str) + "_" + test["laterality"]
    test.to_csv(raw / "test.csv", index=False)
    sample = test[["prediction_id"]].drop_duplicates().assign(cancer=0.02)
    sample.to_csv(raw / "sample_submission.csv", index=False)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "answers.csv")
    n = len(answers)
    p = np.clip(0.3 * answers["cancer"] + 0.7 * rng.random(n), 0, 1)
    noisy = answers.assign(cancer=p)
    ids = noisy["prediction_id"]
    return {
        "constant": noisy.assign(cancer=0.1),
        "all_ones": noisy.assign(cancer=1),
        "all_zeros": noisy.assign(cancer=0),
        "all_zeros_float": noisy.assign(cancer=0.0),
        "all_negative": noisy.assign(cancer=-1),
        **first_value(noisy, "cancer", infinite=np.inf, nan_prediction=None),
        "negative_and_zero": noisy.assign(cancer=[0, *[-1] * (n - 1)]),
        "only_false_positives": noisy.assign(cancer=1 - answers["cancer"]),
        "outside_0_1": noisy.assign(cancer=p * 3 - 1),
        "hard": noisy.assign(cancer=(p > 0.5).astype(int)),
        "booleans": noisy.assign(cancer=p > 0.5),
        "column_order_and_extra": noisy.assign(age=60)[["cancer", "age", "prediction_id"]],
        "all_nan": noisy.assign(cancer=None),
        "missing_id_column": noisy[["cancer"]],
        "dash_ids": noisy.assign(prediction_id=ids.str.replace("_", "-")),
        **standard(noisy, "prediction_id", "0_L", "cancer", "missing_column text_prediction"),
    }
