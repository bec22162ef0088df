import struct
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import standard


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, n_test = 253, 12
    categories = np.sort(rng.choice(np.arange(1000000235, 1000023000), 14, replace=False))
    categories[5] = 1000010653
    ids = np.cumsum(rng.integers(1, 4, n + n_test))
    products = [_product(int(id), is_long=k % 17 == 3, categories=categories, rng=rng) for k, id in enumerate(ids)]
    order = np.arange(n)
    order[40:60] = rng.permutation(order[40:60])  # ids are not strictly ascending
    train = [document(*_reordered(products[k], category_first=k % 23 == 7)) for k in order]
    (raw / "train.bson").write_bytes(b"".join(train))
    (raw / "train_example.bson").write_bytes(b"".join(train[:100]))
    (raw / "test.bson").write_bytes(b"".join(document(id, images) for id, images, _ in products[n:]))
    names = pd.DataFrame(
        {
            "category_id": categories,
            "category_level1": ["ABONNEMENT / SERVICES", "BÉBÉ - PUÉRICULTURE"] * 7,
            "category_level2": "CARTE, PREPAYEE",
            "category_level3": [f'CARTE "{k}"' for k in range(14)],
        }
    )
    names.to_csv(raw / "category_names.csv", index=False)
    sample = pd.DataFrame({"_id": ids[n:], "category_id": 1000010653})
    sample.to_csv(raw / "sample_submission.csv", index=False)


def _product(id: int, *, is_long: bool, categories: np.ndarray, rng: np.random.Generator) -> tuple[bytes, bytes, bytes]:
    """Return the elements of a product: id, images and category."""
    images = [
        document(binary("picture", b"\xff\xd8\xff" + rng.bytes(int(rng.integers(4, 16))) + b"\xff\xd9"))
        for _ in range(rng.integers(1, 5))
    ]
    array = document(*(element(0x03, str(k), image) for k, image in enumerate(images)))
    number = element(0x12, "_id", struct.pack("<q", id)) if is_long else int32("_id", id)
    return number, element(0x04, "imgs", array), int32("category_id", int(rng.choice(categories)))


def _reordered(product: tuple[bytes, bytes, bytes], *, category_first: bool) -> tuple[bytes, bytes, bytes]:
    id, images, category = product
    return (id, category, images) if category_first else product


def element(kind: int, key: str, value: bytes) -> bytes:
    return bytes([kind]) + key.encode() + b"\0" + value


def int32(key: str, value: int) -> bytes:
    return element(0x10, key, struct.pack("<i", value))


def binary(key: str, value: bytes) -> bytes:
    return element(0x05, key, struct.pack("<i", len(value)) + b"\0" + value)


def document(*elements: bytes) -> bytes:
    body = b"".join(elements)
    return struct.pack("<i", len(body) + 5) + body + b"\0"


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "answers.csv")
    truth = answers["category_id"]
    n = len(answers)
    noisy = answers.assign(category_id=np.where(rng.random(n) < 0.5, rng.choice(truth.unique(), n), truth))

    def first(value: Any, column: str = "category_id") -> pd.DataFrame:
        return noisy.assign(**{column: pd.Series([value, *noisy[column].iloc[1:]], dtype=object)})

    return {
        **standard(noisy, "_id", 99999, "category_id", "missing_column renamed_id all_text"),
        "most_frequent": answers.assign(category_id=truth.mode()[0]),
        "all_wrong": answers.assign(category_id=truth + 1),
        "as_float": noisy.assign(category_id=noisy["category_id"].astype(float)),
        "zeros": noisy.assign(category_id=0),
        "column_order": noisy[["category_id", "_id"]],
        "extra_column": noisy.assign(score=0.5),
        "ids_as_float": noisy.assign(_id=noisy["_id"].astype(float)),
        "one_fraction": first(1000010653.5),
        "nan": first(None),
        "text": first("BOOKS"),
    }
