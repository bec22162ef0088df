from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import first_value, standard

MEASURES = """Elevation Aspect Slope Horizontal_Distance_To_Hydrology Vertical_Distance_To_Hydrology
Horizontal_Distance_To_Roadways Hillshade_9am Hillshade_Noon Hillshade_3pm Horizontal_Distance_To_Fire_Points""".split()


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 290 + 3 * seed
    train = _patches(rng, n, 0)
    train["Cover_Type"] = rng.choice([1, 2, 3, 4, 6, 7], n, p=[0.3, 0.4, 0.1, 0.05, 0.05, 0.1])
    train.loc[rng.integers(n), "Cover_Type"] = 5  # a class with only one row
    train.to_csv(raw / "train.csv", index=False)
    test = _patches(rng, 10, n)
    test.to_csv(raw / "test.csv", index=False)
    test[["Id"]].assign(Cover_Type=2).to_csv(raw / "sample_submission.csv", index=False)


def _patches(rng: np.random.Generator, n: int, first_id: int) -> pd.DataFrame:
    columns = {"Id": np.arange(first_id, first_id + n)}
    columns |= {name: rng.normal(1000, 900, n).round().astype(int) for name in MEASURES}
    for name, kinds in (("Wilderness_Area", 4), ("Soil_Type", 40)):
        kind = rng.integers(1, kinds + 1, n)
        columns |= {f"{name}{k}": (kind == k).astype(int) for k in range(1, kinds + 1)}
    return pd.DataFrame(columns)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")[["Id", "Cover_Type"]]
    truth = answers.Cover_Type.to_numpy()
    predicted = np.where(rng.random(len(truth)) < 0.4, rng.integers(1, 8, len(truth)), truth)
    noisy = answers.assign(Cover_Type=predicted)

    return {
        **standard(noisy, "Id", 9999999, "Cover_Type", "missing_id nan_id all_text nan_prediction"),
        "constant_1": noisy.assign(Cover_Type=1),
        "as_float": noisy.assign(Cover_Type=predicted.astype(float)),
        "column_order_and_extra": noisy.assign(extra="x")[["extra", "Cover_Type", "Id"]],
        **first_value(noisy, "Cover_Type", class_out_of_range=99, negative_class=-1, fraction=2.5),
        **first_value(noisy, "Cover_Type", text_in_target="spruce"),
        "booleans": noisy.assign(Cover_Type=predicted == 1),
        "id_as_float": noisy.assign(Id=noisy.Id.astype(float)),
        "probabilities": noisy.assign(Cover_Type=rng.random(len(truth))),
        "missing_target": noisy[["Id"]],
    }
