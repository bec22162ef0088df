from pathlib import Path

from pytest_mlebench.authoring.files import link, link_files
from pytest_mlebench.authoring.tables import read_csv, split, write_csv


def prepare(raw: Path, public: Path, private: Path) -> None:
    train, test = split(read_csv(raw / "train_labels.csv"), test_size=0.2)
    write_csv(train, public / "train_labels.csv")
    write_csv(test, private / "test.csv")
    write_csv(test.assign(InChI="InChI=1S/H2O/h1H2"), public / "sample_submission.csv")
    for name, rows in (("train", train), ("test", test)):
        link_files((f"{id[0]}/{id[1]}/{id[2]}/{id}.png" for id in rows["image_id"]), raw / "train", public / name)
    link(raw / "extra_approved_InChIs.csv", public / "extra_approved_InChIs.csv")
