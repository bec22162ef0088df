from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import malformed

from .grade import SCORED

LABELS = [*SCORED, "CVC - Normal", "Swan Ganz Catheter Present"]
ROOT = "1.2.826.0.1.3680043.8.498."


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 240 + 20 * seed
    ids = [ROOT + "".join(map(str, rng.integers(0, 10, 38))).lstrip("0") for _ in range(n)]
    train = pd.DataFrame({"StudyInstanceUID": ids, **{label: (rng.random(n) < 0.3).astype(int) for label in LABELS}})
    train["PatientID"] = rng.choice([rng.bytes(4).hex() + "z" for _ in range(n // 3)], n)
    train.to_csv(raw / "train.csv", index=False)
    lines = []
    for i in rng.choice(n, n // 4, replace=False):
        for _ in range(rng.integers(1, 4)):
            points = int(rng.integers(2, 4))
            lines.append((ids[i], str(rng.choice(LABELS)), str(rng.integers(0, 3000, (points, 2)).tolist())))
    annotations = pd.DataFrame(lines, columns=["StudyInstanceUID", "label", "data"])
    annotations.to_csv(raw / "train_annotations.csv", index=False)
    test_ids = [f"{ROOT}1", f"{ROOT}2"]
    for folder, names in (("train", ids), ("test", test_ids)):
        (raw / folder).mkdir()
        for name in names:
            (raw / folder / f"{name}.jpg").write_bytes(b"\xff\xd8" + rng.bytes(2))
    sample = pd.DataFrame({"StudyInstanceUID": test_ids, **dict.fromkeys(LABELS, 0)})
    sample.to_csv(raw / "sample_submission.csv", index=False)
    (raw / "train_tfrecords").mkdir()
    (raw / "train_tfrecords" / "00-1881.tfrec").write_bytes(rng.bytes(5))


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    truth = answers[LABELS].to_numpy()
    p = np.clip(0.3 + 0.3 * truth + rng.normal(0, 0.25, truth.shape), 0, 1).round(3)
    eleven = answers[["StudyInstanceUID"]].join(pd.DataFrame(p, columns=LABELS))
    nine = eleven[["StudyInstanceUID", *SCORED]]

    def cell(value: Any) -> pd.DataFrame:
        return nine.assign(**{"NGT - Normal": [value, *nine["NGT - Normal"].iloc[1:]]})

    return {
        **malformed(nine, "StudyInstanceUID", "1.2.3", also="missing_id"),
        "noisy_all_eleven": eleven,
        "noisy_nine": nine,
        "noisy_shuffled": nine.sample(frac=1, random_state=0),
        "column_order": nine[nine.columns[::-1]],
        "ties": nine.assign(**{label: nine[label].round(1) for label in SCORED}),
        "one_constant_column": nine.assign(**{"CVC - Abnormal": 0.5}),
        "inverted": nine.assign(**{label: (1 - nine[label]).round(3) for label in SCORED}),
        "hard_ints": nine.assign(**{label: (nine[label] > 0.5).astype(int) for label in SCORED}),
        "unscored_columns_wrong": eleven.assign(**dict.fromkeys(LABELS[9:], "x")),
        "negative_value": cell(-0.001),
        "above_one": cell(1.001),
        "nan_prediction": cell(None),
        "nan_column": nine.assign(**{"ETT - Normal": None}),
        "infinite": cell(np.inf),
        "text_prediction": cell("likely"),
        "missing_scored_column": nine.drop(columns="CVC - Borderline"),
        "numeric_ids": nine.assign(StudyInstanceUID=range(len(nine))),
    }
