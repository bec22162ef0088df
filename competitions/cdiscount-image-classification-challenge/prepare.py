from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.files import link
from pytest_mlebench.authoring.tables import split, write_csv

from .bson import elements, integer, read_documents, without

EXAMPLES = 100


def prepare(raw: Path, public: Path, private: Path) -> None:
    products = _labels(raw / "train.bson")
    _, test = split(np.arange(len(products)), test_size=0.1)
    answers = products.iloc[test].sort_values("_id")
    write_csv(answers, private / "answers.csv")
    write_csv(answers.assign(category_id=1000010653), public / "sample_submission.csv")
    link(raw / "category_names.csv", public / "category_names.csv")

    is_test = np.zeros(len(products), dtype=bool)
    is_test[test] = True
    examples = EXAMPLES
    with (
        (public / "train.bson").open("xb") as train_file,
        (public / "test.bson").open("xb") as test_file,
        (public / "train_example.bson").open("xb") as example_file,
    ):
        for document, held_out in zip(read_documents(raw / "train.bson"), is_test.tolist(), strict=True):
            if held_out:
                test_file.write(without(document, elements(document)[b"category_id"]))
                continue
            train_file.write(document)
            if examples:
                example_file.write(document)
                examples -= 1


def _labels(path: Path) -> pd.DataFrame:
    """Read only ids and categories: two passes over the 58 GB keep memory use low."""
    keys = ("_id", "category_id")
    parsed = ((document, elements(document)) for document in read_documents(path))
    rows = (tuple(integer(document, found[key.encode()]) for key in keys) for document, found in parsed)
    numbers = np.fromiter(rows, dtype=[(key, np.int64) for key in keys])
    return pd.DataFrame({key: numbers[key] for key in keys})
