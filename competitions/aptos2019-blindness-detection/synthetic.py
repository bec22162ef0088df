from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import first_value, png, standard


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, n_test = 220, 6
    ids = sorted(_codes(rng, n)) + _codes(rng, n_test)
    train = pd.DataFrame({"id_code": ids[:n], "diagnosis": rng.choice(5, n, p=[0.45, 0.12, 0.23, 0.08, 0.12])})
    train.to_csv(raw / "train.csv", index=False)
    test = pd.DataFrame({"id_code": ids[n:]})
    test.to_csv(raw / "test.csv", index=False)
    test.assign(diagnosis=0).to_csv(raw / "sample_submission.csv", index=False)
    for folder, names in (("train_images", ids[:n]), ("test_images", ids[n:])):
        (raw / folder).mkdir()
        for name in names:
            (raw / folder / f"{name}.png").write_bytes(png(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)))


def _codes(rng: np.random.Generator, n: int) -> list[str]:
    """Return codes of 12 hexadecimal digits, with a letter so that none looks like a number."""
    codes: list[str] = []
    while len(codes) < n:
        code = "".join(rng.choice(list("0123456789abcdef"), 12))
        if set(code) & set("abcdf") and code not in codes:
            codes.append(code)
    return codes


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    n = len(answers)
    noisy = answers.assign(diagnosis=(answers.diagnosis + rng.integers(-1, 2, n)).clip(0, 4))
    grades = noisy.diagnosis
    return {
        **standard(
            noisy, "id_code", "ffffffffffff", "diagnosis", "missing_column all_text nan_prediction text_prediction"
        ),
        "random": answers.assign(diagnosis=rng.integers(0, 5, n)),
        "reversed_scale": answers.assign(diagnosis=4 - answers.diagnosis),
        "constant_2": answers.assign(diagnosis=2),
        "columns_swapped_and_extra": noisy.assign(note="x")[["note", "diagnosis", "id_code"]],
        "whole_floats": noisy.assign(diagnosis=grades.astype(float)),
        **first_value(noisy, "diagnosis", class_99=99, class_minus_5=-5),
        "two_classes_only": noisy.assign(diagnosis=np.where(grades > 1, 4, 0)),
        "fractions": noisy.assign(diagnosis=grades + 0.4),
        "duplicate_for_missing": pd.concat([noisy.iloc[1:], noisy.tail(1)]),
        "missing_id_column": noisy[["diagnosis"]],
    }
