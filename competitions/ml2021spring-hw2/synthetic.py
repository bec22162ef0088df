from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import first_value, standard


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    folder = raw / "timit_11" / "timit_11"
    folder.mkdir(parents=True)
    n, n_test, width = 150, 55, 22
    labels = rng.integers(0, 39, n)
    labels[:39] = rng.permutation(39)
    np.save(folder / "train_11.npy", rng.normal(size=(n, width)).astype(np.float32))
    np.save(folder / "train_label_11.npy", labels.astype("<U2"))
    np.save(folder / "test_11.npy", rng.normal(size=(n_test, width)).astype(np.float32))
    pd.DataFrame({"Id": range(n_test), "ClassId": 0}).to_csv(raw / "sampleSubmission.csv", index=False)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "answers.csv")
    n = len(answers)
    noisy = answers.assign(ClassId=np.where(rng.random(n) < 0.4, rng.integers(0, 39, n), answers.ClassId))
    labels = noisy.ClassId

    return {
        **standard(noisy, "Id", 10**6, "ClassId", "missing_column renamed_column all_text nan_prediction"),
        "column_order_extra": noisy.assign(extra="x")[["extra", "ClassId", "Id"]],
        "constant": noisy.assign(ClassId=int(answers.ClassId.mode()[0])),
        "as_float": noisy.assign(ClassId=labels.astype(float)),
        "id_as_float": noisy.assign(Id=noisy.Id.astype(float)),
        "out_of_range": noisy.assign(ClassId=labels.where(noisy.index % 3 > 0, 10**9)),
        "all_unknown_class": noisy.assign(ClassId=-1),
        **first_value(noisy, "ClassId", fractional=labels[0] + 0.5, one_text="aa"),
        "ids_from_one": noisy.assign(Id=noisy.Id + 1),
    }
