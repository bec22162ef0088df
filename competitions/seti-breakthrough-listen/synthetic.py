from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import first_value, standard


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ids = _ids(rng, 196)
    train, test, old_train, old_test = ids[:170], ids[170:174], ids[174:188], ids[188:]
    rng.shuffle(train)  # affects only the random numbers after it
    train = sorted(train)
    labels = (rng.random(len(train)) < 0.25).astype(int)
    for id, label in zip(train, labels, strict=True):
        _snippet(raw / "train" / id[0] / f"{id}.npy", rng, label)
    for id in test:
        _snippet(raw / "test" / id[0] / f"{id}.npy", rng, 0)
    pd.DataFrame({"id": train, "target": labels}).to_csv(raw / "train_labels.csv", index=False)
    pd.DataFrame({"id": test, "target": 0.5}).to_csv(raw / "sample_submission.csv", index=False)
    old = raw / "old_leaky_data"
    for part, members in (("train_old", old_train), ("test_old", old_test)):
        for id in members:
            _snippet(old / part / id[0] / f"{id}.npy", rng, 1)
    for name, members in (("train_labels_old.csv", old_train), ("test_labels_old.csv", old_test)):
        old_labels = pd.DataFrame({"id": members, "target": rng.integers(0, 2, len(members))})
        old_labels.to_csv(old / name, index=False)
    (old / "README.txt").write_bytes(b"data before the relaunch\r\n")


def _ids(rng: np.random.Generator, count: int) -> list[str]:
    """Return distinct codes of 12 hexadecimal digits, with a letter so that none looks like a number."""
    ids: list[str] = []
    while len(ids) < count:
        code = "".join(rng.choice(list("0123456789abcdef"), 12))
        if set(code) & set("abcdf") and code not in ids:
            ids.append(code)
    return sorted(ids)


def _snippet(path: Path, rng: np.random.Generator, needle: int) -> None:
    cadence = rng.normal(0, 1, (6, 3, 2)).astype(np.float16)
    cadence[::2] += np.float16(needle)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, cadence)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")
    noisy = answers.assign(target=(0.3 * answers["target"] + 0.7 * rng.random(len(answers))))
    p = noisy["target"]

    return {
        "ties": noisy.assign(target=p.round(1)),
        "inverted": answers.assign(target=1 - answers["target"]),
        "columns_swapped_and_extra": noisy.assign(w="a")[["w", "target", "id"]],
        "tiny_differences": noisy.assign(target=0.5 + p * 1e-12),
        "constant_0": answers.assign(target=0),
        **first_value(noisy, "target", negative=-1e-06),
        "logits": noisy.assign(target=np.log(p / (1 - p))),
        "duplicate_for_missing": pd.concat([noisy.iloc[1:], noisy.tail(1)]),
        "missing_id_column": noisy[["target"]],
        **standard(
            noisy,
            "id",
            "ffffffffffff",
            "target",
            "missing_column nan_prediction text_prediction above_one",
            without="duplicate_id",
        ),
    }
