from pathlib import Path

from pytest_mlebench.authoring.archives import unpack_zip, zip_member
from pytest_mlebench.authoring.tables import read_csv, split, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    with zip_member(raw / "competition_data.zip", "competition_data/train.csv") as file:
        train, test = (part.sort_values("id") for part in split(read_csv(file), test_size=0.25))
    depths = read_csv(raw / "depths.csv")
    write_csv(train, public / "train.csv")
    write_csv(test, private / "test.csv")
    write_csv(test[["id"]].assign(rle_mask="1 1"), public / "sample_submission.csv")
    write_csv(depths[depths["id"].isin(train["id"])].sort_values("id"), public / "depths.csv")

    images = {f"train/{kind}/{id}.png" for kind in ("images", "masks") for id in train["id"]}
    places = {f"competition_data/{name}": name for name in images}
    places |= {f"competition_data/train/images/{id}.png": f"test/images/{id}.png" for id in test["id"]}
    unpack_zip(raw / "competition_data.zip", public, places)
