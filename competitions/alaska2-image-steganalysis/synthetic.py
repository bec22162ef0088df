from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import first_value, standard

FOLDERS = ["Cover", "JMiPOD", "JUNIWARD", "UERD"]
COVERS = 100


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    numbers = rng.choice(np.arange(1, 75001), COVERS, replace=False)
    for folder in FOLDERS:
        (raw / folder).mkdir()
        for k in numbers:
            (raw / folder / f"{k:05d}.jpg").write_bytes(b"\xff\xd8" + rng.bytes(3))
    (raw / "Cover" / "00000.jpeg").write_bytes(b"not used")
    test = [f"{k:04d}.jpg" for k in range(1, 4)]
    (raw / "Test").mkdir()
    for name in test:
        (raw / "Test" / name).write_bytes(b"old")
    pd.DataFrame({"Id": test, "Label": 0}).to_csv(raw / "sample_submission.csv", index=False)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    truth = answers["Label"].to_numpy()
    n = len(truth)
    score = 1.2 * truth + rng.normal(0, 1, n)
    noisy = answers.assign(Label=score)

    return {
        **standard(noisy, "Id", "9999.jpg", "Label", "missing_id nan_prediction infinite"),
        "noisy_weak": answers.assign(Label=0.3 * truth + rng.normal(0, 1, n)),
        "random": answers.assign(Label=rng.random(n)),
        "inverted": answers.assign(Label=-score),
        "good_at_the_top": answers.assign(Label=np.where((truth == 1) & (score > 1), 10 + score, rng.random(n))),
        "bad_at_the_top": answers.assign(Label=np.where((truth == 0) & (score > 0.5), 10 + score, score)),
        "ties": answers.assign(Label=np.round(score)),
        "two_values": answers.assign(Label=(score > 0.5).astype(int)),
        "constant": answers.assign(Label=-4.5),
        "wrong": answers.assign(Label=1 - truth),
        "booleans": answers.assign(Label=score > 0.5),
        "huge_values": answers.assign(Label=score * 1e300),
        "column_order_and_extra": noisy.assign(extra="x")[["extra", "Label", "Id"]],
        "id_without_suffix": noisy.assign(Id=noisy["Id"].str[:4]),
        "missing_label": noisy[["Id"]],
        **first_value(noisy, "Label", text_in_label="stego"),
    }
