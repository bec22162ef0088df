import json
from pathlib import Path

from pytest_mlebench.authoring.files import link_files
from pytest_mlebench.authoring.tables import read_csv, write_csv

TEST_ROWS = 20_000


def prepare(raw: Path, public: Path, private: Path) -> None:
    ancestors = read_csv(raw / "train_ancestors.csv").sample(frac=1, random_state=0)
    remaining, held_out = TEST_ROWS, set()
    for family, rows in ancestors.groupby("ancestor_id", sort=False).size().items():
        if rows <= remaining:
            remaining -= rows
            held_out.add(family)
    in_test = ancestors["ancestor_id"].isin(held_out)
    test, train = set(ancestors["id"][in_test]), set(ancestors["id"][~in_test])
    for ids, folder in ((train, "train"), (test, "test")):
        link_files((f"{id}.json" for id in ids), raw / "train", public / folder)

    orders = read_csv(raw / "train_orders.csv")
    test_orders = orders[orders["id"].isin(test)]
    write_csv(orders[orders["id"].isin(train)], public / "train_orders.csv")
    write_csv(test_orders, private / "test_orders.csv")
    write_csv(ancestors[~ancestors["id"].isin(test)], public / "train_ancestors.csv")
    given = [_given_order(public / "test" / f"{id}.json") for id in test_orders["id"]]
    write_csv(test_orders.assign(cell_order=given), public / "sample_submission.csv")


def _given_order(notebook: Path) -> str:
    return " ".join(json.loads(notebook.read_bytes())["cell_type"])
