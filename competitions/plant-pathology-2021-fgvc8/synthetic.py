from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import standard
from pytest_mlebench.authoring.tables import split

SINGLE = ["scab", "healthy", "frog_eye_leaf_spot", "rust", "complex", "powdery_mildew"]
LABELS = [
    *SINGLE,
    "scab frog_eye_leaf_spot",
    "scab frog_eye_leaf_spot complex",
    "frog_eye_leaf_spot complex",
    "rust frog_eye_leaf_spot",
    "rust complex",
    "powdery_mildew complex",
]


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 150 + 8 * seed
    images = sorted(rng.bytes(8).hex() + ".jpg" for _ in range(n))
    labels = rng.permutation((LABELS * n)[:n]).astype(object)
    # One label occurs only in the training set: predicting it for a test image is not penalised.
    train_rows, _ = split(np.arange(n), test_size=0.2)
    labels[train_rows[:3]] = "complex leaf_miner"
    pd.DataFrame({"image": images, "labels": labels}).to_csv(raw / "train.csv", index=False)
    old = ["85f8cb619c66b863.jpg", "ad8770db05586b59.jpg", "c7b03e718489f3ca.jpg"]
    for folder, names in (("train_images", images), ("test_images", old)):
        (raw / folder).mkdir()
        for name in names:
            (raw / folder / name).write_bytes(b"\xff\xd8" + rng.bytes(3))
    pd.DataFrame({"image": old, "labels": "healthy"}).to_csv(raw / "sample_submission.csv", index=False)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "answers.csv")
    noisy = answers.assign(labels=[_noisy(labels, rng) for labels in answers["labels"]])
    n = len(noisy)

    def suffixed(suffix: str, empty: str | None) -> pd.DataFrame:
        return noisy.assign(labels=[f"{t} {suffix}" if isinstance(t, str) else empty for t in noisy["labels"]])

    return {
        **standard(noisy, "image", "zzz.jpg", also="nan_id"),
        "column_order_and_extra": noisy.assign(extra=0)[["extra", "labels", "image"]],
        "everything": answers.assign(labels=" ".join(SINGLE)),
        "repeated_labels": noisy.assign(labels=noisy["labels"] + " " + noisy["labels"]),
        "order_and_spaces": answers.assign(labels=["  ".join(reversed(t.split())) + " " for t in answers["labels"]]),
        "unknown_label": suffixed("mosaic", "mosaic"),
        "train_only_label": suffixed("leaf_miner", None),
        "upper_case": noisy.assign(labels=noisy["labels"].str.upper()),
        "comma_separated": answers.assign(labels=answers["labels"].str.replace(" ", ",")),
        "one_empty": noisy.assign(labels=[None, *noisy["labels"][1:]]),
        "one_filled": noisy.assign(labels=["healthy", *[None] * (n - 1)]),
        "all_empty": noisy.assign(labels=None),
        "numbers": noisy.assign(labels=3),
        "ids_without_suffix": noisy.assign(image=noisy["image"].str[:-4]),
        "missing_labels": noisy[["image"]],
        "missing_image": noisy[["labels"]],
        "header_with_space.csv": noisy.to_csv(index=False).replace("image,labels", "image, labels"),
    }


def _noisy(labels: str, rng: np.random.Generator) -> str | None:
    kept = [label for label in labels.split() if rng.random() > 0.15]
    added = [label for label in SINGLE if rng.random() < 0.1]
    return " ".join(rng.permutation(kept + added)) or None
