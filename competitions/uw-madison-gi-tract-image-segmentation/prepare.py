from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.files import link_tree
from pytest_mlebench.authoring.tables import hold_out, read_csv, split, write_csv

TRAIN_DAYS = 4


def prepare(raw: Path, public: Path, private: Path) -> None:
    table = read_csv(raw / "train.csv")
    parts = table["id"].str.split("_", expand=True)
    table = table.assign(case=parts[0], day=parts[0] + "_" + parts[1], day_number=parts[1].str[3:].astype(int))
    _, test_cases = split(table["case"].unique().tolist(), test_size=0.1, random_state=42)
    days = table.drop_duplicates("day").sort_values("day_number")
    is_late = days.groupby("case").cumcount() >= TRAIN_DAYS
    test_days = set(days.loc[is_late | days["case"].isin(test_cases), "day"])

    train, test = hold_out(table, "day", test_days)
    test = test.rename(columns={"segmentation": "predicted"})
    sizes = pd.DataFrame.from_dict(_sizes(raw / "train"), orient="index", dtype=float).loc[test["id"]]
    test = test.assign(image_width=sizes[0].to_numpy(), image_height=sizes[1].to_numpy())
    write_csv(train[["id", "class", "segmentation"]], public / "train.csv")
    write_csv(test[["id", "class", "predicted", "image_width", "image_height"]], private / "test.csv")
    write_csv(test[["id", "class"]], public / "test.csv")
    write_csv(test[["id", "class"]].assign(predicted="1 1 5 2"), public / "sample_submission.csv")
    for case in table["case"].unique():
        for folder in sorted((raw / "train" / case).iterdir()):
            side = "test" if case in test_cases or folder.name in test_days else "train"
            link_tree(folder, public / side / case / folder.name)


def _sizes(folder: Path) -> dict[str, list[str]]:
    """Return width and height by slice id, from the names of the images."""
    names = ((path.parents[1].name, path.name.split("_")) for path in folder.rglob("slice_*.png"))
    return {f"{day}_slice_{number}": [width, height] for day, (_, number, width, height, *_) in names}
