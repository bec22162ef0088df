from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.files import link, link_tree
from pytest_mlebench.authoring.tables import read_csv, write_csv

CHUNK = 1_000_000  # rows; all 32 million would need many GB of memory


def prepare(raw: Path, public: Path, private: Path) -> None:
    write_sides(8, {"price": float}, raw, public, private)


def write_sides(days: int, dtype: Mapping[str, type], raw: Path, public: Path, private: Path) -> None:
    """Write the data; the last ``days`` are the test, and ``dtype`` has column types of transactions_train.csv."""
    transactions = raw / "transactions_train.csv"
    last_day = max(chunk["t_dat"].max() for chunk in read_csv(transactions, usecols=["t_dat"], chunksize=CHUNK))
    first_test_day = (pd.Timestamp(last_day) - pd.Timedelta(days=days - 1)).strftime("%Y-%m-%d")

    test = []
    for k, chunk in enumerate(read_csv(transactions, dtype=dict(dtype), chunksize=CHUNK)):
        is_test = chunk["t_dat"] >= first_test_day  # ISO dates also sort as strings
        test.append(chunk.loc[is_test, ["customer_id", "article_id"]])
        append = {"mode": "a", "header": k == 0}
        write_csv(chunk[~is_test], public / "transactions_train.csv", **append)
    bought = pd.concat(test).astype({"article_id": str})
    answers = bought.groupby("customer_id")["article_id"].agg(" ".join).reset_index(name="prediction")
    write_csv(answers, private / "answers.csv")

    for name in ("sample_submission.csv", "articles.csv", "customers.csv"):
        link(raw / name, public / name)
    link_tree(raw / "images", public / "images")
