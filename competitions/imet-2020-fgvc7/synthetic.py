from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import standard

KINDS = ["country", "culture", "dimension", "medium", "tags"]
NAMES = ["café", "Côte d'Ivoire", 'so-called "thing"', "silk, woven", "men"]


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 220 + 13 * seed
    ids = sorted(rng.bytes(16).hex() for _ in range(n))
    attributes = rng.permutation([0, 1, *(rng.permutation(3471)[:38] + 3)])
    train = pd.DataFrame({"id": ids, "attribute_ids": [_some(attributes, rng) for _ in ids]})
    train.to_csv(raw / "train.csv", index=False)
    words = [f"{KINDS[k % 5]}::{name}" for k, name in enumerate(rng.permutation(NAMES * 8))]
    labels = pd.DataFrame({"attribute_id": sorted(attributes), "attribute_name": words})
    labels.to_csv(raw / "labels.csv", index=False)
    old = [rng.bytes(16).hex() for _ in range(3)]
    for folder, group in (("train", ids), ("test", old)):
        (raw / folder).mkdir()
        for id in group:
            (raw / folder / f"{id}.png").write_bytes(b"\x89PNG" + rng.bytes(2))
    pd.DataFrame({"id": old, "attribute_ids": "0 1 2"}).to_csv(raw / "sample_submission.csv", index=False)


def _some(attributes: np.ndarray, rng: np.random.Generator) -> str:
    weight = 1 / np.arange(1, len(attributes) + 1)
    chosen = rng.choice(len(attributes), rng.integers(1, 6), replace=False, p=weight / weight.sum())
    return " ".join(map(str, sorted(attributes[chosen])))


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "answers.csv", dtype=str)
    known = pd.read_csv(public / "labels.csv", dtype=str)["attribute_id"].tolist()
    true = " ".join(answers["attribute_ids"]).split()
    unseen = " ".join([*(k for k in known if k not in set(true)), "3999"])
    top = pd.Series(true).value_counts().sort_index().idxmax()
    n = len(answers)
    noisy = answers.assign(attribute_ids=[_noisy(text, known, rng) for text in answers["attribute_ids"]])
    guess = noisy["attribute_ids"]
    return {
        **standard(noisy, "id", "zzz", "attribute_ids", "missing_id renamed_column"),
        "column_order_and_extra": noisy.assign(extra=0)[["extra", "attribute_ids", "id"]],
        "all_attributes": answers.assign(attribute_ids=" ".join(known)),
        "repeated": noisy.assign(attribute_ids=guess + " " + guess),
        "attributes_not_in_test": noisy.assign(attribute_ids=(guess + f" {unseen}").fillna(unseen.split()[0])),
        "leading_zeros": noisy.assign(attribute_ids="0" + guess),
        "as_floats": noisy.assign(attribute_ids=guess.str.replace(" ", ".0 ") + ".0"),
        "one_attribute_each": answers.assign(attribute_ids=top),
        "one_attribute_or_none": answers.assign(attribute_ids=[top if k % 3 else None for k in range(n)]),
        "one_pair": answers.assign(attribute_ids=[f"{top} {known[0]}", *[top] * (n - 1)]),
        "all_empty": answers.assign(attribute_ids=None),
        "one_filled": answers.assign(attribute_ids=[*[None] * (n - 1), answers["attribute_ids"].iloc[-1] + " 1"]),
        "names": answers.assign(attribute_ids="culture::french"),
        "missing_attributes": noisy[["id"]],
    }


def _noisy(attributes: str, known: list[str], rng: np.random.Generator) -> str | None:
    kept = [attribute for attribute in attributes.split() if rng.random() > 0.2]
    added = list(rng.choice(known, rng.integers(0, 3)))
    return " ".join(rng.permutation(kept + added)) or None
